"use strict";
// How the workers of one run started: a bar each, the seconds below.

// startup: [{process, role, node, phases: [[phase, start_s, end_s]]}]
function drawStartup(host, workers) {
  byId("startup-seconds").hidden = !workers || !workers.length;
  if (!workers || !workers.length) {
    host.replaceChildren("no start-up was recorded for this run");
    byId("startup-note").textContent = "";
    return;
  }
  const width = Math.max(280, host.clientWidth || 640);
  const names = workers.map((worker) => startName(worker, width >= NARROW));
  const left = Math.min(width * 0.45, 14 + 7 * Math.max(...names.map((name) => name.length)));
  const [bar, gap] = [18, 6];
  const height = workers.length * (bar + gap) + 44;
  const ends = workers.flatMap((worker) => worker.phases.map((phase) => phase[2]));
  const x = scale("linear", ends, left, width - 14, 64);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `start-up of ${workers.length} workers; the seconds are in the table below` });
  for (const tick of x.ticks) {
    const at = x.at(tick.v);
    root.append(svg("line", { class: "grid", x1: at, x2: at, y1: 0, y2: height - 40 }),
      svg("text", { x: at, y: height - 24, "text-anchor": "middle" }, tick.text));
  }
  root.append(svg("text", { class: "name", x: (left + width) / 2, y: height - 6, "text-anchor": "middle" },
    width < NARROW ? "seconds since launch" : "seconds since the workers were launched"));
  const tip = el("div", { class: "tip", role: "status", hidden: true });
  workers.forEach((worker, place) => {
    const top = place * (bar + gap);
    const row = svg("g", {}, ...workerBar(worker, names[place], top, bar, left, x),
      svg("rect", { x: 0, y: top, width, height: bar + gap, fill: "transparent" }));
    for (const kind of ["pointerenter", "pointerdown"]) {
      row.addEventListener(kind, () => tell(tip, startWords(worker), left, top + bar, width));
    }
    onLeave(row, () => { tip.hidden = true; });
    root.append(row);
  });
  host.replaceChildren(root, tip);
  byId("startup-note").replaceChildren(...phaseKey(workers), slowestWords(workers));
  byId("startup-table").replaceChildren(startSeconds(workers));
}

// Without its node where that has no room: half a name would be no name.
function startName(worker, wide) {
  const name = wide && worker.node ? `${worker.process} (${worker.node})` : worker.process;
  return name.length > 30 ? `${name.slice(0, 28)}..` : name;
}

function workerBar(worker, name, top, bar, left, x) {
  const label = svg("text", { x: left - 7, y: top + bar - 4, "text-anchor": "end" }, name);
  const parts = worker.phases.flatMap(([phase, start, end]) => {
    const [colour, letter] = phaseLook(phase);
    const wide = Math.max(1, near(x.at(end) - x.at(start)));
    const box = svg("rect", { x: near(x.at(start)), y: top, width: wide, height: bar, fill: colour, class: "phase" });
    if (wide < 14) return [box];
    const word = svg("text", { class: "letter", x: near(x.at((start + end) / 2)), y: top + bar - 5, "text-anchor": "middle" }, letter);
    word.style.fill = readable(colour);
    return [box, word];
  });
  return [label, ...parts];
}

function startWords(worker) {
  return [`${worker.process}${worker.node ? ` on ${worker.node}` : ""}`,
    ...worker.phases.map(([phase, start, end]) => [phaseWord(phase), `${figure(end - start, 1)} s`])];
}

function phasesOf(workers) {
  const found = distinct(workers.flatMap((worker) => worker.phases.map(([phase]) => phase)));
  const known = Object.keys(DATA.palette.phases);
  return [...known.filter((phase) => found.includes(phase)), ...found.filter((phase) => !known.includes(phase))];
}

// Seconds of every phase of every worker; the longest of a column is marked.
function startSeconds(workers) {
  const phases = phasesOf(workers);
  const took = (worker, phase) => {
    const found = worker.phases.find(([name]) => name === phase);
    return found ? found[2] - found[1] : null;
  };
  const whole = (worker) => Math.max(...worker.phases.map((phase) => phase[2]));
  const head = ["worker", "node", ...phases.map(phaseWord), "total"].map((word, place) => el("th",
    { scope: "col", class: place > 1 ? "number" : "text" }, word, ...(place > 1 ? [el("small", {}, "s")] : [])));
  const body = workers.map((worker) => el("tr", {}, el("td", {}, worker.process), el("td", {}, worker.node || "-"),
    ...[...phases.map((phase) => [took(worker, phase), Math.max(...workers.map((one) => took(one, phase) || 0))]),
      [whole(worker), Math.max(...workers.map(whole))]].map(([s, most]) => el("td",
      { class: s !== null && s === most && s > 0 && workers.length > 1 ? "number most" : "number" }, figure(s, 1)))));
  return el("table", { class: "rows" }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
}

function phaseKey(workers) {
  return phasesOf(workers).map((phase) => {
    const [colour, letter] = phaseLook(phase);
    const patch = el("span", { class: "patch" }, letter);
    patch.style.background = colour;
    patch.style.color = readable(colour);
    return el("span", { class: "key" }, patch, ` ${phaseWord(phase)} `);
  });
}

function phaseWord(phase) {
  return phase.replace("_", " ");
}

function slowestWords(workers) {
  const end = (worker) => Math.max(...worker.phases.map((phase) => phase[2]));
  const slowest = workers.reduce((a, b) => (end(a) >= end(b) ? a : b));
  const longest = slowest.phases.reduce((a, b) => (a[2] - a[1] >= b[2] - b[1] ? a : b));
  return `Slowest: ${slowest.process}${slowest.node ? ` on ${slowest.node}` : ""}, ready after `
    + `${figure(end(slowest), 1)} s; its longest part: ${phaseWord(longest[0])}, ${figure(longest[2] - longest[1], 1)} s.`;
}

function phaseLook(phase) {
  return Object.hasOwn(DATA.palette.phases, phase) ? DATA.palette.phases[phase] : ["#bbbbbb", ""];
}
