"use strict";
// What held each point back; how one run started; what its servers did while it was measured.

const MAX_STRIPS = 80;
const MAX_EVIDENCE = 200;

function drawBottlenecks() {
  const known = VALUES.has("bottleneck");
  byId("bottleneck-section").hidden = !known;
  if (!known) return;
  const rows = chosen;
  const columns = [...new Map(rows.map((row) => [loadOf(row).join(" "), loadOf(row)])).values()]
    .sort((a, b) => a[1] - b[1] || a[0] - b[0]);
  const strips = new Map();
  for (const row of rows) {
    const key = value("run", row);
    if (!strips.has(key)) strips.set(key, new Map());
    const load = loadOf(row).join(" ");
    if (!strips.get(key).has(load)) strips.get(key).set(load, row);
  }
  const head = el("tr", {}, el("th", { scope: "col" }, "concurrency"),
    ...columns.map(([rate, c]) => el("th", { scope: "col" }, figure(c, 0), rate ? ` at ${figure(rate, 1)}/s` : "")));
  const body = [...strips.entries()].slice(0, MAX_STRIPS).map(([run, cells]) => el("tr", {},
    el("th", { scope: "row", title: run }, stripName(run, [...cells.values()][0], strips.size)),
    ...columns.map((load) => bottleneckCell(cells.get(load.join(" "))))));
  byId("bottleneck").replaceChildren(el("table", { class: "strip" }, el("thead", {}, head), el("tbody", {}, ...body)));
  const left = strips.size > MAX_STRIPS ? ` The first ${MAX_STRIPS} of ${strips.size} runs.` : "";
  const none = rows.length && rows.every((row) => !value("bottleneck", row)) ? " Not known of any of these points: the evidence says why." : "";
  byId("bottleneck-note").replaceChildren(...bottleneckKey(rows), left, none);
  drawEvidence(rows);
}

// The words of the cells for paper, for a finger and for who cannot see the cells.
function drawEvidence(rows) {
  const told = rows.filter((row) => value("bottleneck_evidence", row));
  const items = told.slice(0, MAX_EVIDENCE).map((row) => el("li", {},
    `${stripName(value("run", row), row)}, concurrency ${shown("concurrency", row)}: `,
    el("strong", {}, value("bottleneck", row) || "unknown"), ` (${value("bottleneck_evidence", row)})`));
  const left = told.length > MAX_EVIDENCE ? [el("li", {}, `and ${told.length - MAX_EVIDENCE} points more: see the column of the table`)] : [];
  byId("bottleneck-evidence").hidden = !told.length;
  byId("bottleneck-evidence").querySelector("ul").replaceChildren(...items, ...left);
}

function stripName(run, row) {
  return `${value("topology", row) || run} ${String(run).slice(-6)}`;
}

function bottleneckCell(row) {
  if (row === undefined) return el("td", {});
  const word = value("bottleneck", row) || "";
  const [colour, letter] = bottleneckLook(word);
  const evidence = value("bottleneck_evidence", row) || "no evidence recorded";
  const cell = el("td", { class: "cell", tabindex: "0", "aria-label": `${word || "unknown"}: ${evidence}` }, letter);
  const show = () => tellBeside(cell, [`${seriesOf(row)}, ${loadWords(row)}`,
    ["limited by", word || "not known"], ["because", evidence], ["run", value("run", row)]]);
  for (const kind of ["pointerenter", "pointerdown", "focus"]) cell.addEventListener(kind, show);
  const hide = () => { byId("bottleneck-tip").hidden = true; };
  onLeave(cell, hide);
  cell.addEventListener("blur", hide);
  cell.style.background = colour;
  cell.style.color = readable(colour);
  return cell;
}

// The words of a cell, below it, within the section.
function tellBeside(cell, told) {
  const home = byId("bottleneck-section").getBoundingClientRect();
  const box = cell.getBoundingClientRect();
  tell(byId("bottleneck-tip"), told, box.left - home.left, box.bottom - home.top - 6, home.width);
}

// Words come from records: only those of the palette itself are looked up in it.
function bottleneckLook(word) {
  const known = DATA.palette.bottlenecks;
  return known[Object.hasOwn(known, word) ? word : ""];
}

function bottleneckKey(rows) {
  const words = distinct(rows.map((row) => value("bottleneck", row) || ""));
  return words.map((word) => {
    const [colour, letter] = bottleneckLook(word);
    const patch = el("span", { class: "patch" }, letter);
    patch.style.background = colour;
    patch.style.color = readable(colour);
    return el("span", { class: "key" }, patch, ` ${word || "unknown"} `);
  });
}

// Black or white, whichever stands out from #rrggbb.
function readable(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#000" : "#fff";
}

function drawRun() {
  noteScheme();
  const startup = (DATA.startup || {})[state.run];
  const times = (DATA.times || {})[state.run];
  byId("run-section").hidden = !DATA.startup && !DATA.times;
  byId("startup-part").hidden = !DATA.startup;
  byId("times-part").hidden = !DATA.times;
  if (DATA.startup) drawStartup(byId("startup"), startup);
  if (DATA.times) drawTimes(byId("times"), times);
}

// times: {step_s, panels: [{name, unit, lines: [{role, t, v}]}], points: [{name, from, to}]}
function drawTimes(host, times) {
  if (!times) {
    host.replaceChildren(DATA.times_left_out || "no time series was recorded for this run");
    byId("times-note").textContent = "";
    return;
  }
  const panels = times.panels.map(() => el("div", { class: "plot" }));
  host.replaceChildren(...panels);
  times.panels.forEach((panel, place) => drawPanel(panels[place], panel, times));
  byId("times-note").textContent = `Over all ranks of a role: ${DATA.times_words} `
    + `Each mark is the mean of ${figure(times.step_s, 1)} s; grey: a point was measured, warm-up included.`;
}

function drawPanel(host, panel, times) {
  const roles = distinct(times.panels.flatMap((one) => one.lines.map((line) => line.role)));
  const lines = panel.lines.map((line) => ({
    look: DATA.palette.series[roles.indexOf(line.role)], points: line.t.map((t, i) => [t, line.v[i]]),
  }));
  const marks = panel.lines.flatMap((line) => line.t.map((t, i) => ({
    x: t, y: line.v[i], size: 1.8, look: DATA.palette.series[roles.indexOf(line.role)],
    tell: () => [`${line.role}: ${panel.name}`, ["at", `${figure(t, 1)} s${during(times, t)}`],
      ["value", `${figure(line.v[i], panel.digits)} ${panel.unit}`]],
  })));
  chart(host, {
    title: panel.name, height: 210, watermark: watermarkWords(), lines, marks, bars: [], bands: times.points,
    x: { label: "seconds since the first sample", kind: "linear", values: marks.map((m) => m.x) },
    y: { label: panel.unit, kind: "linear", values: marks.map((m) => m.y) },
  });
  const key = panel.lines.map((line) => el("span", { class: "key" },
    swatch(DATA.palette.series[roles.indexOf(line.role)]), ` ${line.role} `));
  host.prepend(el("h4", {}, panel.name, " ", ...key));
}

function during(times, t) {
  const point = (times.points || []).find((one) => one.from <= t && t <= one.to);
  return point ? `, point ${point.name}` : ", between points";
}
