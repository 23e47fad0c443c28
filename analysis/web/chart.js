"use strict";
// One x-y plot: axes, lines, marks, error bars, and what is said when a mark is pointed at.
// Marks of one look are one path, so thousands of points stay a few elements; pointing and the
// arrow keys look the nearest mark up in the data.

const REACH = 30;
const NARROW = 460;
const MARGIN = { top: 14, right: 18, bottom: 48, left: 66 };

// spec: {title, x: {label, kind, values}, y: {...}, lines: [{points, look, faint, dash}],
//        marks: [{x, y, look, hollow, tell, pick}], bars: [{x, y, dx, dy}],
//        bands: [{name, from, to}], watermark, height}
function chart(host, spec) {
  const width = Math.max(280, Math.floor(host.clientWidth || 640));
  const most = isPrinting() ? 380 : 460;
  const height = spec.height || Math.max(260, Math.min(most, Math.round(width * 0.55)));
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const x = scale(spec.x.kind, spec.x.values, MARGIN.left, right, 64);
  const y = scale(spec.y.kind, spec.y.values, bottom, MARGIN.top, 44);
  const root = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img", tabindex: "0",
    "aria-label": `${spec.title}: ${spec.marks.filter((mark) => mark.kind !== "repeat").length} points. Arrow keys go from point to point.`,
  });
  root.append(...bandsOf(spec.bands || [], x, width, height), axes(spec, x, y, width, height));
  if (spec.watermark) root.append(watermark(spec.watermark, width, height));
  for (const line of spec.lines) root.append(lineOf(line, x, y));
  root.append(...errorsOf(spec.bars, x, y));
  root.append(...marksOf(spec.marks, x, y));
  const pointer = svg("circle", { class: "pointer", r: 10, visibility: "hidden" });
  root.append(pointer);
  const tip = el("div", { class: "tip", role: "status", hidden: true });
  host.replaceChildren(root, tip);
  listen(root, tip, pointer, placed(spec.marks, x, y), width);
}

function axes(spec, x, y, width, height) {
  const bottom = height - MARGIN.bottom;
  const right = width - MARGIN.right;
  const group = svg("g", { class: "axes" });
  for (const tick of y.ticks) {
    const at = y.at(tick.v);
    group.append(svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: at, y2: at }));
    group.append(svg("text", { x: MARGIN.left - 7, y: at + 4, "text-anchor": "end" }, tick.text));
  }
  for (const tick of x.ticks) {
    const at = x.at(tick.v);
    group.append(svg("line", { class: "grid", x1: at, x2: at, y1: MARGIN.top, y2: bottom }));
    group.append(svg("text", { x: at, y: bottom + 17, "text-anchor": "middle" }, tick.text));
  }
  group.append(svg("path", {
    class: "frame", d: `M${MARGIN.left} ${MARGIN.top}V${bottom}H${right}`,
  }));
  const middle = (MARGIN.top + bottom) / 2;
  group.append(
    svg("text", { class: "name", x: (MARGIN.left + right) / 2, y: height - 8, "text-anchor": "middle" },
      (width < NARROW && spec.x.short ? spec.x.short : spec.x.label) + x.note),
    svg("text", {
      class: "name", "text-anchor": "middle", transform: `translate(14 ${middle}) rotate(-90)`,
    }, spec.y.label + y.note),
  );
  return group;
}

// Stretches of x with a name, behind everything.
function bandsOf(bands, x, width, height) {
  let free = -Infinity;
  return bands.flatMap((band) => {
    const [from, to] = [x.at(band.from), x.at(band.to)];
    const parts = [svg("rect", {
      class: "band", x: near(from), y: MARGIN.top, width: Math.max(1, near(to - from)),
      height: height - MARGIN.top - MARGIN.bottom,
    })];
    const long = 7 * band.name.length + 2;
    const start = Math.min(near(from) + 2, width - long);
    if (start > free) {
      free = start + long;
      parts.push(svg("text", { class: "band-name", x: start, y: MARGIN.top - 3 }, band.name));
    }
    return parts;
  });
}

function watermark(text, width, height) {
  const node = svg("text", {
    class: "watermark", "text-anchor": "middle",
    transform: `translate(${width / 2 + 24} ${height / 2 + 8}) rotate(-14)`,
  }, text);
  node.style.fontSize = `${Math.round(Math.min(84, height / 3.2, width / (text.length * 0.95)))}px`;
  return node;
}

function lineOf(line, x, y) {
  const d = line.points.map(([a, b], i) => `${i ? "L" : "M"}${near(x.at(a))} ${near(y.at(b))}`);
  return svg("path", {
    class: `line ${line.kind || ""}`, d: d.join(""), stroke: line.look ? colourOf(line.look) : null,
    "stroke-dasharray": (line.look && line.look.dash.join(" ")) || null,
  });
}

// One path a colour: a bar has its series' colour, the published figures' are grey.
function errorsOf(bars, x, y) {
  const colours = distinct(bars.map((bar) => (bar.look ? colourOf(bar.look) : "var(--soft)")));
  return colours.map((stroke) => svg("path", {
    class: "error", stroke,
    d: bars.filter((bar) => (bar.look ? colourOf(bar.look) : "var(--soft)") === stroke).map((bar) => barOf(bar, x, y)).join(""),
  }));
}

// What reaches below nothing ends there; on a log axis at `least`, the lowest of all points.
function barOf(bar, x, y) {
  const [a, b] = [near(x.at(bar.x)), near(y.at(bar.y))];
  const foot = y.at(Math.max(0, bar.y - bar.dy));
  return `M${near(x.at(Math.max(0, bar.x - bar.dx)))} ${b}H${near(x.at(bar.x + bar.dx))}`
    + `M${a} ${near(Number.isFinite(foot) ? foot : y.at(bar.least))}V${near(y.at(bar.y + bar.dy))}`;
}

function marksOf(marks, x, y) {
  const paths = new Map();
  for (const mark of marks) {
    const key = `${colourOf(mark.look)} ${mark.look.mark} ${mark.hollow} ${mark.kind || ""}`;
    if (!paths.has(key)) paths.set(key, { mark, d: [] });
    paths.get(key).d.push(markPath(mark.look.mark, x.at(mark.x), y.at(mark.y), mark.size || 5));
  }
  return [...paths.values()].map(({ mark, d }) => svg("path", {
    class: `mark ${mark.hollow ? "hollow" : ""} ${mark.kind || ""}`, d: d.join(""),
    stroke: colourOf(mark.look), fill: mark.hollow ? "var(--paper)" : colourOf(mark.look),
  }));
}

function markPath(kind, cx, cy, r) {
  const at = (dx, dy) => `${near(cx + dx * r)} ${near(cy + dy * r)}`;
  const around = (corners) => `M${corners.map(([a, b]) => at(a, b)).join("L")}Z`;
  if (kind === "square") return around([[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]);
  if (kind === "triangle") return around([[0, -1.15], [1.05, 0.8], [-1.05, 0.8]]);
  if (kind === "down") return around([[0, 1.15], [1.05, -0.8], [-1.05, -0.8]]);
  if (kind === "diamond") return around([[0, -1.25], [1.1, 0], [0, 1.25], [-1.1, 0]]);
  if (kind === "pentagon") return around([[0, -1.1], [1.05, -0.34], [0.65, 0.9], [-0.65, 0.9], [-1.05, -0.34]]);
  if (kind === "plus") {
    const [a, b] = [0.4, 1.15];
    return around([[-a, -b], [a, -b], [a, -a], [b, -a], [b, a], [a, a], [a, b], [-a, b], [-a, a],
      [-b, a], [-b, -a], [-a, -a]]);
  }
  return `M${at(-1, 0)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
}

function near(pixels) {
  return Math.round(pixels * 10) / 10;
}

function colourOf(look) {
  return dark ? look.dark_colour : look.colour;
}

// The marks with their places, in reading order for the arrow keys.
function placed(marks, x, y) {
  return marks
    .filter((mark) => mark.tell)
    .map((mark) => ({ mark, px: x.at(mark.x), py: y.at(mark.y) }))
    .sort((a, b) => a.px - b.px || a.py - b.py);
}

function listen(root, tip, pointer, places, width) {
  let current = -1;
  const leave = () => {
    current = -1;
    tip.hidden = true;
    pointer.setAttribute("visibility", "hidden");
  };
  const show = (index) => {
    if (index < 0 || index >= places.length) return;
    current = index;
    const { mark, px, py } = places[index];
    pointer.setAttribute("cx", px);
    pointer.setAttribute("cy", py);
    pointer.setAttribute("visibility", "visible");
    tell(tip, mark.tell(), px, py, width);
  };
  const point = (event) => {
    const box = root.getBoundingClientRect();
    const ratio = width / box.width;
    const index = nearest(places, (event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio);
    if (index < 0) leave();
    else show(index);
  };
  root.addEventListener("pointermove", point);
  root.addEventListener("pointerdown", point);
  onLeave(root, leave);
  root.addEventListener("blur", leave);
  root.addEventListener("click", () => {
    if (current >= 0 && places[current].mark.pick) places[current].mark.pick();
  });
  root.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      show(Math.min(places.length - 1, Math.max(0, current + step)));
      event.preventDefault();
    } else if (event.key === "Escape") leave();
    else if (event.key === "Enter" && current >= 0 && places[current].mark.pick) {
      places[current].mark.pick();
    }
  });
}

// A finger that is lifted has left too: its words stay until it comes down elsewhere.
function onLeave(node, hide) {
  node.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") hide();
  });
}

function startTips() {
  document.addEventListener("pointerdown", (event) => {
    for (const tip of document.querySelectorAll(".tip")) {
      if (!tip.parentNode.contains(event.target)) tip.hidden = true;
    }
  });
}

function nearest(places, px, py) {
  let [best, found] = [REACH * REACH, -1];
  places.forEach((place, index) => {
    const far = (place.px - px) ** 2 + (place.py - py) ** 2;
    if (far < best) [best, found] = [far, index];
  });
  return found;
}

// told: [headline, [name, text], ...]
function tell(tip, told, px, py, width) {
  const [head, ...pairs] = told;
  const rows = pairs.map(([name, text]) => el("div", {}, el("span", {}, `${name} `), text));
  tip.replaceChildren(el("strong", {}, head), ...rows);
  tip.hidden = false;
  const across = tip.offsetWidth;
  tip.style.left = `${Math.max(0, Math.min(width - across, px + 14 + across > width ? px - across - 14 : px + 14))}px`;
  tip.style.top = `${py + 14}px`;
}
