"use strict";
// The page's data, decoded, and the few ways text gets into the document.
// Text from the data is only ever set as text: nothing here or elsewhere writes HTML.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const COLUMNS = new Map(DATA.columns.map((column) => [column.name, column]));

// A packed column as one value a row: {all}, {words, codes} (-1 missing) or {values}.
function unpack(packed) {
  if ("all" in packed) return new Array(DATA.rows).fill(packed.all);
  if ("codes" in packed) return packed.codes.map((code) => (code < 0 ? null : packed.words[code]));
  return packed.values;
}

const VALUES = new Map(Object.entries(DATA.values).map(([name, packed]) => [name, unpack(packed)]));
VALUES.set("workload words", unpack(DATA.workload));

function value(name, row) {
  const column = VALUES.get(name);
  return column === undefined ? null : column[row];
}

// A figure as people read it: thousands apart, the column's digits.
function figure(number, digits) {
  if (number === null || number === undefined) return "-";
  return number.toLocaleString("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

function shown(name, row) {
  const column = COLUMNS.get(name);
  const told = value(name, row);
  if (told === null || told === "" || column === undefined) return "-";
  if (column.kind === "text") return told;
  return figure(told, column.kind === "real" ? column.digits : 0);
}

function withUnit(name, row) {
  const column = COLUMNS.get(name);
  const text = shown(name, row);
  return column && column.unit && column.unit !== "0..1" && text !== "-" ? `${text} ${column.unit}` : text;
}

// An element with attributes and children; a string child becomes text.
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, told] of Object.entries(attributes)) {
    if (told === false || told === null || told === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), told);
    else node.setAttribute(name, told === true ? "" : told);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function byId(id) {
  return document.getElementById(id);
}

function distinct(values) {
  return [...new Set(values)];
}

function isPrinting() {
  return document.body.classList.contains("printing");
}

let dark = false;

// Asked once per drawing, not per mark.
function noteScheme() {
  dark = !isPrinting() && window.matchMedia("screen and (prefers-color-scheme: dark)").matches;
}
