// The heads of the model over the segments of the prompt, coloured as they are measured.
import { percent, count } from "./figures.js";

const canvas = document.getElementById("map");
const point = document.getElementById("point");
const note = document.getElementById("map-note");
const state = { heads: null, shows: "entropy", row: -1, column: -1, summary: null };
const kEmpty = note.textContent;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

function mix(from, to, share) {
  const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const [a, b] = [parse(from), parse(to)];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * share)).join(" ")})`;
}

function ramp() {
  const stops = [0, 1, 2, 3, 4].map((i) => color("ramp" + i));
  return (share) => {
    const at = Math.min(Math.max(share, 0), 1) * 4;
    const low = Math.min(Math.floor(at), 3);
    return mix(stops[low], stops[low + 1], at - low);
  };
}

// From the lowest to the highest of what is there; shares have a scale of their own.
function range() {
  if (state.shows === "read") return [0, 1];
  let low = Infinity, high = -Infinity;
  for (const column of state.heads.columns) {
    for (const value of column.entropy) {
      if (value === null) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return high > low ? [low, high] : [0, Math.max(high, 1)];
}

export function draw() {
  const heads = state.heads;
  canvas.hidden = !heads || heads.columns.length === 0;
  note.textContent = canvas.hidden ? kEmpty : "Rows are heads, from the first layer down; columns are segments of " +
    `${count(heads.tokens)} tokens, from the beginning of the text on. Darker or brighter means more.`;
  if (canvas.hidden) return;
  const rows = heads.layers.length * heads.kvHeads;
  const height = Math.max(4, Math.min(14, Math.floor(320 / rows)));
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth || 300;
  canvas.style.height = rows * height + "px";
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(rows * height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const cell = Math.min(width / heads.columns.length, 24);
  const [low, high] = range();
  const paint = ramp();
  heads.columns.forEach((column, x) => {
    column[state.shows].forEach((value, y) => {
      if (value === null) return;
      context.fillStyle = paint((value - low) / (high - low));
      context.fillRect(x * cell, y * height, cell + 0.5, height - 1);
    });
  });
  if (state.row >= 0) {
    context.strokeStyle = color("warn");
    context.lineWidth = 2;
    context.strokeRect(state.column * cell, state.row * height - 1, Math.max(cell, 4), height + 1);
  }
}

function tell() {
  const { heads, row, column } = state;
  const at = heads?.columns[column];
  if (!at || row < 0) return;
  const layer = heads.layers[Math.floor(row / heads.kvHeads)];
  const entropy = at.entropy[row];
  point.textContent = `Layer ${layer}, kv_head ${row % heads.kvHeads}, tokens from ${count(at.segment * heads.tokens)}: ` +
    `entropy ${entropy === null ? "not measured" : entropy.toFixed(2)}, read ${percent(at.read[row])} of what was before`;
}

function move(row, column) {
  if (!state.heads) return;
  const rows = state.heads.layers.length * state.heads.kvHeads;
  state.row = Math.min(Math.max(row, 0), rows - 1);
  state.column = Math.min(Math.max(column, 0), state.heads.columns.length - 1);
  tell();
  draw();
}

canvas.addEventListener("pointermove", (event) => {
  const box = canvas.getBoundingClientRect();
  const rows = state.heads.layers.length * state.heads.kvHeads;
  const cell = Math.min(box.width / state.heads.columns.length, 24);
  move(Math.floor((event.clientY - box.top) / box.height * rows), Math.floor((event.clientX - box.left) / cell));
});
canvas.addEventListener("keydown", (event) => {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const step = steps[event.key];
  if (!step) return;
  event.preventDefault();
  move(state.row + step[0], state.column + step[1]);
});

for (const what of ["entropy", "read"]) {
  document.getElementById("show-" + what).addEventListener("click", () => {
    state.shows = what;
    for (const other of ["entropy", "read"])
      document.getElementById("show-" + other).setAttribute("aria-pressed", String(other === what));
    draw();
  });
}
window.addEventListener("resize", draw);

function cells(kind, values) {
  const row = document.createElement("tr");
  for (const value of values) {
    const cell = document.createElement(kind);
    cell.textContent = value;
    row.append(cell);
  }
  return row;
}

function table(summary) {
  const details = document.getElementById("heads-details");
  details.hidden = !summary;
  if (!summary || state.summary === summary) return;
  state.summary = summary;
  const made = document.createElement("table");
  made.append(cells("th", ["layer", "kv_head", "class", "type", "entropy", "read"]));
  for (const head of summary)
    made.append(cells("td", [head.layer, head.kv_head, head.class, head.type, head.entropy?.toFixed(2) ?? "–",
      percent(head.share_read)]));
  document.getElementById("heads-table").replaceChildren(made);
}

export function show(heads, summary) {
  if (state.heads !== heads) {
    state.row = state.column = -1;
    point.textContent = "";
  }
  state.heads = heads;
  table(summary);
  draw();
}
