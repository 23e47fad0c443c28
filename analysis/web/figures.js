"use strict";
// What is drawn: series, the chosen rows, throughput against speed per user, latency.

const DIVISORS = [
  { id: "total_tps_per_gpu", words: "serving GPU", axis: "total tok/s per serving GPU" },
  { id: "total_tps_per_allocated_gpu", words: "allocated GPU", axis: "total tok/s per allocated GPU" },
  { id: "output_tps_per_decode_gpu", words: "decode GPU", axis: "output tok/s per decode GPU" },
  { id: "input_tps_per_prefill_gpu", words: "prefill GPU", axis: "input tok/s per prefill GPU" },
];
const GROUPINGS = ["topology", "flags", "model", "engine", "client", "cluster", "run"];
const STATISTICS = [["median", "median"], ["mean", "mean"], ["p90", "90th percentile"], ["p99", "99th percentile"]];
const MANY_LINES = 60;
const MAX_KEYS = 16;
const GREY = { colour: "#767676", dark_colour: "#9a9a9a", mark: "circle", dash: [2, 3] };

const state = {
  grouping: "topology", workload: "", divisor: DIVISORS[0].id, statistic: "median",
  reference: false, off: new Set(), run: "",
};

function seriesNames() {
  return distinct(rowsOf(() => true).map((row) => seriesOf(row))).sort(byNumbers);
}

// 4x2 before 10x2: digits compare as numbers.
function byNumbers(a, b) {
  return a.localeCompare(b, "en", { numeric: true });
}

function seriesOf(row) {
  return value(state.grouping, row) || "unknown";
}

function lookOf(name) {
  const looks = DATA.palette.series;
  return looks[(state.places.get(name) || 0) % looks.length];
}

function rowsOf(wanted) {
  const rows = [];
  for (let row = 0; row < DATA.rows; row += 1) if (wanted(row)) rows.push(row);
  return rows;
}

let chosen = [];

// Rows that may be drawn, of the chosen load, of the series that are switched on.
function chooseRows() {
  chosen = rowsOf((row) => DATA.drawn[row] === 1 && value("workload words", row) === state.workload
    && !state.off.has(seriesOf(row)));
}

// Rows with both figures, and lines: the points of one run of one series in order of concurrency.
function laidOut(xName, yName, fits = () => true) {
  const rows = chosen.filter((row) => fits(row) && value(xName, row) !== null && value(yName, row) !== null);
  const runs = new Map();
  for (const row of rows) {
    const key = `${seriesOf(row)}\n${value("run", row)}\n${isTimed(row)}`;
    if (!runs.has(key)) runs.set(key, []);
    runs.get(key).push(row);
  }
  const own = [...runs.values()].map((rowsOfRun) => pointsOf(rowsOfRun, xName, yName));
  const lines = runs.size > MANY_LINES ? [] : own.map((points) => ({
    look: lookOf(seriesOf(points[0].rows[0])), points: points.map(({ x, y }) => [x, y]),
  }));
  const means = own.flat();
  const size = rows.length > 1000 ? 3 : 5;
  const marks = means.flatMap((point) => [...repeatMarks(point, xName, yName), pointMark(point, size)]);
  return { rows, lines, marks, means, bars: barsOf(means), crowded: runs.size > MANY_LINES };
}

function toldOf(row) {
  const names = [state.divisor, "generation_tps_per_user", `ttft_${state.statistic}_ms`,
    `tpot_${state.statistic}_ms`, "accuracy", "bottleneck", "verdict", "run"];
  const head = `${seriesOf(row)}, ${loadWords(row)}`;
  return [head, ...publishedBeside(row), ...names.filter((name) => COLUMNS.has(name)).map((name) => [
    COLUMNS.get(name).label, withUnit(name, row)])];
}

// The article's figure for the same shape, load and model, where it has one.
function publishedBeside(row) {
  const told = DATA.reference;
  const point = told.points.find((one) => one.topology === value("topology", row)
    && one.concurrency === value("concurrency", row));
  const same = !told.not_comparable && value("served_model", row) === told.served_model
    && value("workload words", row) === told.workload;
  if (!same || point === undefined || !(state.divisor in point)) return [];
  const share = figure((100 * value(state.divisor, row)) / point[state.divisor], 0);
  return [["published", `${figure(point[state.divisor], 0)} tok/s/GPU; this is ${share} % of it`]];
}

function drawPareto() {
  const divisor = DIVISORS.find((one) => one.id === state.divisor);
  const drawn = laidOut("generation_tps_per_user", divisor.id);
  const { rows, lines, marks, means, bars } = drawn;
  const published = state.reference ? publishedMarks(divisor.id) : { lines: [], marks: [], bars: [] };
  const edge = frontierOf(means);
  const every = [...marks, ...endsOf(bars), ...published.marks];
  const [least, most] = spread(every.map((mark) => mark.y));
  chart(byId("pareto"), {
    title: `${divisor.axis} against tokens per second one user sees`,
    x: {
      label: "generation tok/s per user (1000 / median TPOT in ms)", short: "generation tok/s per user",
      kind: "linear", values: every.map((m) => m.x),
    },
    y: { label: divisor.axis, kind: most / least > 300 ? "log10" : "linear", values: every.map((m) => m.y) },
    lines: [{ kind: "frontier", points: edge }, ...published.lines, ...lines],
    marks: [...published.marks, ...marks], bars: [...published.bars, ...bars], watermark: watermarkWords(),
  });
  byId("pareto-note").replaceChildren(
    el("span", { class: "keys" }, ...seriesKey(rows), ...publishedKey(published.marks)),
    paretoWords(drawn, divisor.id));
}

function paretoWords({ rows, means, crowded }, name) {
  const missing = chosen.length - rows.length;
  const words = [rows.length ? "Grey band: the frontier of the points drawn; up and right is better." : "No point to draw."];
  if (chosen.some((row) => value("verdict", row) !== "VALID")) {
    words.push("Hollow marks: not VALID (see the table's verdict).");
  }
  if (rows.length > means.length) words.push(REPEATED);
  if (missing) words.push(`${missing} chosen points have no such figure.`);
  if (crowded) words.push(`More than ${MANY_LINES} lines: points only.`);
  if (state.reference) words.push(referenceWords(name));
  else if (DATA.reference.not_comparable) {
    words.push(`The published reference is off: ${DATA.reference.not_comparable}.`);
  }
  return words.join(" ");
}

function referenceWords(name) {
  const told = DATA.reference;
  if (!(name in told.points[0])) return "The article gives no figure per GPU of one role, so no reference is drawn.";
  const warning = told.not_comparable ? ` NOT COMPARABLE with these rows: ${told.not_comparable}.` : "";
  const converted = name === "total_tps_per_allocated_gpu" ? " Converted here from serving to allocated GPUs." : "";
  return `Small grey marks: ${told.source}; error ${told.error} (bars; dotted mark: larger).${converted}${warning}`;
}

// The article's points and its frontier under the chosen divisor; none where it gives no figure.
function publishedMarks(name) {
  const told = DATA.reference;
  if (!(name in told.points[0])) return { lines: [], marks: [], bars: [] };
  const marks = told.points.map((point) => ({
    x: point.x, y: point[name], size: 3.5, hollow: true, kind: point.approximate ? "published rough" : "published",
    look: { ...GREY, mark: DATA.palette.series[shapePlace(point.topology)].mark },
    tell: () => [`published: ${point.topology}, concurrency ${point.concurrency}`,
      ["total", `${figure(point[name], 0)} ± ${told.error_y} tok/s/GPU`],
      ["gen", `${figure(point.x, 1)} ± ${told.error_x} tok/s/user`],
      ["GPUs", `${point.serving_gpus} serving, ${point.allocated_gpus} allocated`],
      ["read", point.approximate ? "approximate: under another mark" : "off the figure"]],
  }));
  const lines = distinct(told.points.map((point) => point.topology)).map((topology) => ({
    kind: "published", look: GREY,
    points: told.points.filter((point) => point.topology === topology).map((point) => [point.x, point[name]]),
  }));
  const bars = told.points.map((point) => ({
    x: point.x, y: point[name], dx: told.error_x,
    dy: told.error_y * (point[name] / point.total_tps_per_gpu),
  }));
  return { lines, marks, bars };
}

function shapePlace(topology) {
  return distinct(DATA.reference.points.map((point) => point.topology)).indexOf(topology);
}

function frontierOf(marks) {
  let best = -Infinity;
  return [...marks].sort((a, b) => b.x - a.x || b.y - a.y)
    .filter((mark) => mark.y > best && ((best = mark.y), true))
    .map((mark) => [mark.x, mark.y]);
}

function drawLatency(kind, label) {
  const name = `${kind}_${state.statistic}_ms`;
  const byRate = chosen.length > 0 && chosen.every(isTimed);
  const x = byRate ? "request_rate" : "concurrency";
  const { rows, lines, marks, bars, means } = laidOut(x, name, (row) => isTimed(row) === byRate);
  const [least, most] = spread(rows.map((row) => value(name, row)));
  const word = STATISTICS.find(([id]) => id === state.statistic)[1];
  chart(byId(kind), {
    title: `${label} against ${byRate ? "request rate" : "concurrency"}`,
    x: { label: byRate ? "request rate (requests/s)" : "concurrency (requests in flight)", kind: "log2", values: marks.map((m) => m.x) },
    y: { label: `${kind.toUpperCase()} ${word}, ms`, kind: most / least > 20 ? "log10" : "linear", values: [...marks, ...endsOf(bars)].map((m) => m.y) },
    lines, marks, bars, watermark: watermarkWords(), height: 300,
  });
  const paced = byRate ? 0 : chosen.filter(isTimed).length;
  const missing = chosen.length - rows.length - paced;
  const words = [
    rows.length > means.length ? REPEATED : "",
    missing ? `${missing} chosen points have no such figure.` : "",
    paced ? `${paced} chosen points were sent at a rate: only the closed loops are drawn.` : "",
  ].join(" ").trim();
  byId(`${kind}-note`).replaceChildren(el("span", { class: "keys" }, ...seriesKey(rows)), words);
}

// What the marks of a plot are, right below it: the series' own box may be screens or sheets away.
function seriesKey(rows) {
  const names = distinct(rows.map((row) => seriesOf(row))).sort(byNumbers);
  const more = names.length > MAX_KEYS ? [el("span", { class: "key" }, `and ${names.length - MAX_KEYS} more`)] : [];
  return [...names.slice(0, MAX_KEYS).map((name) => keyOf(lookOf(name), name)), ...more];
}

function publishedKey(marks) {
  if (!marks.length) return [];
  return distinct(DATA.reference.points.map((point) => point.topology)).map((topology) => keyOf(
    { ...GREY, mark: DATA.palette.series[shapePlace(topology)].mark }, `published ${topology}`, true));
}

function keyOf(look, name, hollow = false) {
  return el("span", { class: "key" }, swatch(look, hollow), ` ${name} `);
}

function watermarkWords() {
  return DATA.rehearsal ? "REHEARSAL" : "";
}
