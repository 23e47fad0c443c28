"use strict";
// From figures to places on paper: linear, log10 and log2 axes with ticks that people expect.

// kind: "linear" (from 0), "log10", or "log2" (ticks at the values themselves).
function scale(kind, values, from, to, room) {
  const known = values.filter((v) => v !== null && Number.isFinite(v) && (kind === "linear" || v > 0));
  if (kind === "linear") return linear(known, from, to, room);
  return logarithmic(kind === "log2" ? 2 : 10, known, from, to, room);
}

function linear(values, from, to, room) {
  const most = values.length ? Math.max(...spread(values)) : 1;
  const step = niceStep((most || 1) / Math.max(2, Math.floor(Math.abs(to - from) / room)));
  const top = step * Math.ceil((most || 1) / step + 0.02);
  const ticks = [];
  for (let i = 0; i * step <= top * (1 + 1e-9); i += 1) ticks.push(i * step);
  const digits = digitsOf(step);
  return {
    at: (v) => from + ((to - from) * v) / top,
    ticks: ticks.map((v) => ({ v, text: figure(v, digits) })),
    note: "",
  };
}

// Digits after the point that tell the multiples of a step apart: 1 for 2.5, 0 for 5, 2 for 0.25.
function digitsOf(step) {
  let digits = 0;
  while (digits < 8 && Math.abs(Math.round(step * 10 ** digits) / 10 ** digits - step) > step * 1e-6) {
    digits += 1;
  }
  return digits;
}

function logarithmic(base, values, from, to, room) {
  const [least, most] = values.length ? spread(values) : [1, base];
  const pad = least === most ? Math.log(2) : Math.log(most / least) * 0.05;
  const [low, high] = [Math.log(least) - pad, Math.log(most) + pad];
  const at = (v) => from + ((to - from) * (Math.log(v) - low)) / (high - low);
  const wanted = base === 2 ? distinct(values).sort((a, b) => a - b) : decades(low, high);
  return { at, ticks: thinned(wanted, at, room), note: base === 10 ? ", log scale" : "" };
}

function decades(low, high) {
  const found = [];
  for (let power = Math.floor(low / Math.LN10); power <= high / Math.LN10; power += 1) {
    for (const digit of [1, 2, 5]) {
      const v = digit * 10 ** power;
      if (Math.log(v) >= low && Math.log(v) <= high) found.push(v);
    }
  }
  return found;
}

// Ticks whose labels would touch the one before are left out.
function thinned(values, at, room) {
  const kept = [];
  for (const v of values) {
    const last = kept[kept.length - 1];
    if (last === undefined || Math.abs(at(v) - at(last)) >= room * 0.6) kept.push(v);
  }
  return kept.map((v) => ({ v, text: figure(v, v < 1 ? Math.ceil(-Math.log10(v)) : 0) }));
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const digit of [1, 2, 2.5, 5, 10]) {
    if (digit * power >= rough * (1 - 1e-9)) return digit * power;
  }
  return 10 * power;
}

// [least, most], without the argument limit of Math.max(...thousands).
function spread(values) {
  let [least, most] = [Infinity, -Infinity];
  for (const v of values) {
    if (v < least) least = v;
    if (v > most) most = v;
  }
  return [least, most];
}
