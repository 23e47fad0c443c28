"use strict";
// Controls, what they redraw, and paper.

function draw() {
  noteScheme();
  state.names = seriesNames();
  state.places = new Map(state.names.map((name, place) => [name, place]));
  drawSeries();
  drawPlots();
  drawTable();
}

function drawPlots() {
  chooseRows();
  drawPareto();
  drawLatency("ttft", "Time to first token");
  drawLatency("tpot", "Time per output token");
  drawBottlenecks();
}

function swatch(look, hollow = false) {
  const colour = colourOf(look);
  return svg("svg", { width: 30, height: 14, "aria-hidden": "true", class: "swatch" },
    svg("path", { d: "M1 7H29", stroke: colour, "stroke-width": 2, "stroke-dasharray": look.dash.join(" ") || null }),
    svg("path", { d: markPath(look.mark, 15, 7, hollow ? 4 : 5), stroke: colour, fill: hollow ? "var(--paper)" : colour }));
}

function drawSeries() {
  const boxes = state.names.map((name) => {
    const box = el("input", {
      type: "checkbox", onchange: (event) => {
        if (event.target.checked) state.off.delete(name);
        else state.off.add(name);
        drawPlots();
        drawTable();
      },
    });
    box.checked = !state.off.has(name);
    return el("label", { class: "tick" }, box, " ", swatch(lookOf(name)), ` ${name}`);
  });
  const every = (on) => el("button", {
    type: "button", onclick: () => {
      state.off = new Set(on ? [] : state.names);
      draw();
    },
  }, on ? "all" : "none");
  const legend = byId("series").querySelector("legend");
  byId("series").replaceChildren(legend, ...boxes, ...(boxes.length > 2 ? [every(true), every(false)] : []));
}

function options(id, pairs, chosen, changed) {
  const select = byId(id);
  select.replaceChildren(...pairs.map(([told, label]) => el("option", { value: told }, label)));
  select.value = chosen;
  select.closest(".control").hidden = pairs.length < 2;
  select.addEventListener("change", () => changed(select.value));
}

function startControls() {
  const groupings = GROUPINGS.filter((name) => VALUES.has(name) && distinct(VALUES.get(name)).length > 1);
  const separate = (name) => distinct(rowsOf((row) => DATA.drawn[row] === 1).map((row) => value(name, row))).length > 1;
  [state.grouping] = [...groupings.filter(separate), "topology"];
  options("colour-by", groupings.map((name) => [name, name]), state.grouping, (name) => {
    state.grouping = name;
    state.off.clear();
    draw();
  });
  const loads = countedLoads();
  [state.workload] = loads[0];
  options("workload", loads.map(([load, count]) => [load, `${load} (${count} points)`]), state.workload,
    (load) => {
      state.workload = load;
      drawPlots();
    });
  options("statistic", STATISTICS, "median", (name) => {
    state.statistic = name;
    drawPlots();
  });
  startDivisors();
  state.reference = !DATA.reference.not_comparable;
  const box = byId("reference");
  box.checked = state.reference;
  box.addEventListener("change", () => {
    state.reference = box.checked;
    drawPareto();
  });
}

function startDivisors() {
  const known = DIVISORS.filter((one) => VALUES.has(one.id));
  for (const one of known) {
    const radio = el("input", {
      type: "radio", name: "divisor", value: one.id, onchange: () => {
        state.divisor = one.id;
        drawPareto();
      },
    });
    radio.checked = one.id === state.divisor;
    byId("divisors").append(el("label", { class: "tick" }, radio, ` ${one.words}`));
  }
}

// The loads with rows to draw, the one with most points first.
function countedLoads() {
  const counts = new Map();
  for (let row = 0; row < DATA.rows; row += 1) {
    const load = value("workload words", row);
    counts.set(load, (counts.get(load) || 0) + DATA.drawn[row]);
  }
  return [...counts.entries()].sort((a, b) => b[1] - a[1]);
}

function startRuns() {
  const runs = distinct([...Object.keys(DATA.startup || {}), ...Object.keys(DATA.times || {})]);
  if (!runs.length) {
    byId("run-section").hidden = true;
    return;
  }
  [state.run] = runs;
  options("run", runs.map((run) => [run, run]), state.run, pickRun);
  drawRun();
}

function pickRun(run) {
  if (byId("run-section").hidden || run === state.run) return;
  state.run = run;
  byId("run").value = run;
  drawRun();
}

function drawWhy() {
  byId("why-section").hidden = !DATA.reasons.length && !DATA.endings.length && !DATA.warnings.length;
  byId("why").replaceChildren(
    ...DATA.reasons.map((one) => el("details", { class: "reason" },
      el("summary", {}, el("span", { class: `chip ${one.verdict.toLowerCase()}` }, one.verdict),
        ` ${one.rows} point${one.rows === 1 ? "" : "s"}: ${one.reason}`),
      el("p", { class: "where" }, one.where.join("; ") + (one.runs > one.where.length ? `; and ${one.runs - one.where.length} runs more` : "")))),
    ...listed("Runs that did not complete", DATA.endings),
    ...listed("What could not be read", DATA.warnings, DATA.more_warnings));
}

function listed(title, lines, more = 0) {
  if (!lines.length) return [];
  const items = [...lines, ...(more ? [`and ${more} more`] : [])].map((line) => el("li", {}, line));
  return [el("h3", {}, title), el("ul", {}, ...items)];
}

function drawProvenance() {
  const { same, names, rows } = DATA.provenance;
  const pairs = same.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)));
  const cell = (text, place) => el("td", { "data-name": names[place] }, text);
  const table = el("table", { class: "rows told" },
    el("thead", {}, el("tr", {}, ...names.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows.slice(0, 1000).map((row) => el("tr", {}, ...row.map(cell)))));
  const definitions = [...DATA.definitions,
    `figures on this page are cut to ${DATA.digits} digits; CSV and Parquet of the table have them in full`,
    `published reference: ${DATA.reference.title}; ${DATA.reference.source}; read ${DATA.reference.read}; error: ${DATA.reference.error}`];
  byId("provenance").replaceChildren(
    el("h3", {}, "How figures are defined"), el("ul", {}, ...definitions.map((line) => el("li", {}, line))),
    el("details", { class: "more" }, el("summary", {}, "What they rest on: GPUs, lengths, accuracy, KV of each run"),
      el("ul", {}, ...DATA.behind.map((line) => el("li", {}, line)))),
    ...(pairs.length ? [el("h3", {}, "The same in all runs"), el("dl", {}, ...pairs)] : []),
    el("h3", {}, pairs.length ? "What differs, run by run" : "Runs"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "runs" }, table));
}

// Paper: black on white, every row, plots at the width of the sheet.
function startPrinting() {
  const print = (on) => {
    if (document.body.classList.contains("printing") === on) return;
    document.body.classList.toggle("printing", on);
    for (const part of document.querySelectorAll("details.reason, details.more")) part.open = on;
    draw();
    drawRun();
  };
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  window.matchMedia("print").addEventListener("change", (event) => print(event.matches));
}

function startResizing() {
  let before = window.innerWidth;
  let waiting = 0;
  window.addEventListener("resize", () => {
    if (window.innerWidth === before) return;
    before = window.innerWidth;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      drawPlots();
      drawRun();
    });
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    draw();
    drawRun();
  });
}

// Without scripts the rows stand in a <noscript>, and nothing of this would be filled in.
document.querySelector("main").hidden = false;
startControls();
startTable();
draw();
startRuns();
drawWhy();
drawProvenance();
startTips();
startPrinting();
startResizing();
document.body.dataset.ready = "yes";
