"use strict";
// Every row: found by text, by verdict and by series, sorted by any column, a page at a time.

const PAGE = 100;
const view = { sort: "", up: true, page: 0, text: "", verdicts: new Set(), columns: [], open: new Set() };

function startTable() {
  const first = DATA.columns.filter((column) => column.place >= 0).sort((a, b) => a.place - b.place);
  view.columns = first.map((column) => column.name);
  const words = distinct(VALUES.get("verdict"));
  view.verdicts = new Set(words);
  byId("verdicts").append(...words.map((word) => tick(word, true, (on) => {
    if (on) view.verdicts.add(word);
    else view.verdicts.delete(word);
    view.page = 0;
    drawTable();
  })));
  byId("columns").append(...DATA.columns.filter((column) => !column.long).map((column) => tick(
    `${column.label}${column.unit ? ` (${column.unit})` : ""}`, column.place >= 0,
    (on) => chooseColumn(column.name, on), column.doc)));
  byId("find").addEventListener("input", (event) => {
    view.text = event.target.value.trim().toLowerCase();
    view.page = 0;
    drawTable();
  });
}

function tick(label, checked, changed, title = null) {
  const box = el("input", { type: "checkbox", onchange: (event) => changed(event.target.checked) });
  box.checked = checked;
  return el("label", { class: "tick", title }, box, ` ${label}`);
}

function chooseColumn(name, on) {
  view.columns = DATA.columns.map((column) => column.name)
    .filter((one) => (one === name ? on : view.columns.includes(one)));
  drawTable();
}

let haystacks = null;

// All words of a row, once made, in small letters.
function haystack(row) {
  if (haystacks === null) haystacks = new Array(DATA.rows);
  if (haystacks[row] === undefined) {
    haystacks[row] = DATA.columns.map((column) => {
      const told = value(column.name, row);
      return told === null ? "" : String(told);
    }).join("\n").toLowerCase();
  }
  return haystacks[row];
}

function foundRows() {
  const rows = rowsOf((row) => view.verdicts.has(value("verdict", row)) && !state.off.has(seriesOf(row))
    && (view.text === "" || haystack(row).includes(view.text)));
  if (view.sort === "") return rows;
  const column = VALUES.get(view.sort);
  const way = view.up ? 1 : -1;
  const text = COLUMNS.get(view.sort).kind === "text";
  return rows.sort((a, b) => {
    const [one, other] = [column[a], column[b]];
    if (one === other) return a - b;
    if (one === null || one === "") return 1;
    if (other === null || other === "") return -1;
    return way * (text ? byNumbers(one, other) : one - other);
  });
}

function drawTable() {
  const rows = foundRows();
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  view.page = Math.min(view.page, pages - 1);
  const part = isPrinting() ? rows : rows.slice(view.page * PAGE, (view.page + 1) * PAGE);
  const table = el("table", { class: "rows" }, el("thead", {}, el("tr", {}, ...view.columns.map(headCell))));
  table.append(el("tbody", {}, ...part.flatMap(bodyRows)));
  byId("table").replaceChildren(table);
  stickColumns(table);
  byId("count").textContent = `${figure(rows.length, 0)} of ${figure(DATA.rows, 0)} points`
    + `${state.off.size ? " (of the series switched on)" : ""}.`
    + `${isPrinting() ? "" : " A click on a heading sorts; a click on a verdict shows its reasons."}`;
  drawPager(pages);
}

// What names a row stays in sight while its figures are scrolled, where half the room is left.
const NAMING = ["topology", "concurrency"];

function stickColumns(table) {
  const heads = NAMING.map((name) => table.querySelector(`th[data-name="${name}"]`));
  if (isPrinting() || heads.includes(null)) return;
  const [first, second] = heads.map((head) => head.offsetWidth);
  if (first + second > byId("table").clientWidth / 2) return;
  table.style.setProperty("--first", `${first}px`);
  table.classList.add("stuck");
}

function classOf(column) {
  const place = NAMING.indexOf(column.name);
  return `${column.kind === "text" ? "text" : "number"}${place < 0 ? "" : ` naming naming-${place}`}`;
}

function headCell(name) {
  const column = COLUMNS.get(name);
  const sorted = view.sort === name;
  const arrow = sorted ? (view.up ? " ▲" : " ▼") : "";
  const words = [`${column.label}${arrow}`, el("small", {}, column.unit || "\u00a0")];
  // Chromium repeats a heading on the next sheet only where no button is in it.
  const button = isPrinting() ? el("span", {}, ...words) : el("button",
    { type: "button", title: `${column.doc} (from ${column.source})`, onclick: () => sortBy(name) }, ...words);
  const way = sorted ? (view.up ? "ascending" : "descending") : "none";
  return el("th", { scope: "col", "aria-sort": way, class: classOf(column), "data-name": name }, button);
}

// The better end first, then the other way round.
function sortBy(name) {
  if (view.sort === name) view.up = !view.up;
  else Object.assign(view, { sort: name, up: COLUMNS.get(name).better !== "higher" });
  view.page = 0;
  drawTable();
  const again = byId("table").querySelector(`th[data-name="${CSS.escape(name)}"] button`);
  if (again) again.focus();
}

function bodyRows(row) {
  const cells = view.columns.map((name) => (name === "verdict" ? verdictCell(row) : plainCell(name, row)));
  const line = el("tr", { class: DATA.drawn[row] ? "" : "undrawn" }, ...cells);
  return view.open.has(row) ? [line, reasonRow(row)] : [line];
}

function plainCell(name, row) {
  const column = COLUMNS.get(name);
  return el("td", { class: classOf(column) }, shown(name, row));
}

function verdictCell(row) {
  const word = value("verdict", row);
  const why = value("reasons", row) || value("notes", row);
  if (!why) return el("td", { class: "text" }, el("span", { class: `chip ${word.toLowerCase()}` }, word));
  const open = view.open.has(row);
  const button = el("button", {
    type: "button", class: `chip ${word.toLowerCase()}`, "aria-expanded": String(open),
    onclick: () => {
      if (open) view.open.delete(row);
      else view.open.add(row);
      drawTable();
    },
  }, `${word} ${open ? "▾" : "▸"}`);
  return el("td", { class: "text" }, button);
}

function reasonRow(row) {
  const parts = [["reasons", "Reasons"], ["notes", "Notes"], ["bottleneck_evidence", "Bottleneck"]]
    .filter(([name]) => value(name, row))
    .map(([name, word]) => el("p", {}, el("strong", {}, `${word}: `), value(name, row)));
  return el("tr", { class: "why" }, el("td", { colspan: view.columns.length }, el("div", {}, ...parts)));
}

function drawPager(pages) {
  const turn = (label, page) => el("button", {
    type: "button", disabled: page < 0 || page >= pages, onclick: () => {
      view.page = page;
      drawTable();
    },
  }, label);
  byId("pager").hidden = pages < 2;
  byId("pager").replaceChildren(turn("Previous", view.page - 1),
    ` page ${view.page + 1} of ${pages} `, turn("Next", view.page + 1));
}
