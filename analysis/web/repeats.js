"use strict";
// Rows that are one point: its repeats as small marks, their mean as the point, with its interval.

const REPEATED = "Repeats: small marks; the point is their mean, with the 95 % interval of the mean (t) as bars.";

// Sent by the clock, not in a closed loop.
function isTimed(row) {
  return VALUES.has("request_rate") && value("request_rate", row) !== null;
}

// What makes a point: rows with the same are its repeats.
function loadOf(row) {
  return isTimed(row) ? [value("request_rate", row), value("concurrency", row)] : [0, value("concurrency", row)];
}

function pointWords(row) {
  const rate = isTimed(row) ? `, ${shown("request_rate", row)} req/s` : "";
  return `concurrency ${shown("concurrency", row)}${rate}`;
}

function loadWords(row) {
  const repeat = VALUES.has("repeat") && value("repeat", row) > 1 ? `, repeat ${value("repeat", row)}` : "";
  return `${pointWords(row)}${repeat}`;
}

// The points of a run in order of their load: {x, y, dx, dy, rows}; dx, dy: half intervals.
function pointsOf(rows, xName, yName) {
  const points = new Map();
  for (const row of rows) {
    const key = loadOf(row).join(" ");
    if (!points.has(key)) points.set(key, []);
    points.get(key).push(row);
  }
  return [...points.values()]
    .sort(([a], [b]) => loadOf(a)[0] - loadOf(b)[0] || loadOf(a)[1] - loadOf(b)[1])
    .map((own) => {
      const [x, dx] = meanOf(xName, own);
      const [y, dy] = meanOf(yName, own);
      return { x, y, dx, dy, rows: own };
    });
}

// Mean and half of its 95 % interval (Student's t); 0 of a single row.
function meanOf(name, rows) {
  const values = rows.map((row) => value(name, row)).filter((one) => one !== null);
  const count = values.length;
  if (!count) return [null, 0];
  const mean = values.reduce((sum, one) => sum + one, 0) / count;
  if (count < 2) return [mean, 0];
  const squares = values.reduce((sum, one) => sum + (one - mean) ** 2, 0);
  const t = DATA.t95[Math.min(count - 2, DATA.t95.length - 1)];
  return [mean, (t * Math.sqrt(squares / (count - 1))) / Math.sqrt(count)];
}

function pointMark({ x, y, rows }, size) {
  const [first] = rows;
  return {
    x, y, size, look: lookOf(seriesOf(first)), hollow: rows.some((row) => value("verdict", row) !== "VALID"),
    tell: () => (rows.length > 1 ? toldOfMean(rows) : toldOf(first)), pick: () => pickRun(value("run", first)),
  };
}

function repeatMarks({ rows }, xName, yName) {
  if (rows.length < 2) return [];
  return rows.map((row) => ({
    x: value(xName, row), y: value(yName, row), size: 2, look: lookOf(seriesOf(row)), hollow: false, kind: "repeat",
  }));
}

// An interval that reaches below nothing ends there; on a log axis at the lowest mark.
function barsOf(points) {
  const least = Math.min(...points.map((point) => point.y));
  return points.filter(({ dx, dy }) => dx > 0 || dy > 0).map(({ x, y, dx, dy, rows }) => ({
    x, y, dx, dy, least, look: lookOf(seriesOf(rows[0])),
  }));
}

function endsOf(bars) {
  return bars.flatMap((bar) => [
    { x: bar.x + bar.dx, y: bar.y + bar.dy },
    { x: Math.max(0, bar.x - bar.dx), y: Math.max(0, bar.y - bar.dy) || bar.least },
  ]);
}

function toldOfMean(rows) {
  const [first] = rows;
  const names = [state.divisor, "generation_tps_per_user", `ttft_${state.statistic}_ms`, `tpot_${state.statistic}_ms`];
  const pairs = names.filter((name) => COLUMNS.has(name)).map((name) => {
    const { label, unit, digits } = COLUMNS.get(name);
    const [mean, half] = meanOf(name, rows);
    return [label, mean === null ? "-" : `${figure(mean, digits)} \u00b1 ${figure(half, digits)} ${unit}`];
  });
  const words = distinct(rows.map((row) => value("verdict", row))).join(", ");
  return [`${seriesOf(first)}, ${pointWords(first)}: mean of ${rows.length} repeats`, ...pairs,
    ["verdict", words], ["run", value("run", first)]];
}
