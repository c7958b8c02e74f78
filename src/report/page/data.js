// The data of the page, unpacked. Formats: src/report/compact.h.
const data = JSON.parse(document.getElementById("data").textContent);

function bytes(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

// Levels 0 to 15, [rows, cols].
function unpackLevels(base64) {
  const levels = new Uint8Array(data.map.rows * data.map.cols);
  let at = 0;
  for (const run of bytes(base64)) {
    const end = at + (run & 15) + 1;
    levels.fill(run >> 4, at, end);
    at = end;
  }
  return levels;
}

// [begin, end, begin, end, ...] of the positions held.
function unpackRuns(base64) {
  const runs = [];
  let number = 0, scale = 1, at = 0;
  for (const byte of bytes(base64)) {
    number += (byte & 127) * scale;
    scale *= 128;
    if (byte & 128) continue;
    at += number;
    runs.push(at);
    number = 0;
    scale = 1;
  }
  return runs;
}

const option = (name, standard) => data.options[name] ?? standard;
const segment = option("segment", 0);
const block = option("block", 0);
const prompt = data.tokens.prompt;
const held = data.tokens.held;  // the last generated token may not have been fed
const pieces = data.pieces;

// All heads, and those whose blocks were chosen, layer by layer.
const heads = [];
data.layers.forEach((layer, l) => layer.heads.forEach((head, h) => {
  heads.push({ ...head, layer: l, kvHead: h, dense: layer.dense, window: layer.window, planned: layer.planned,
    runs: unpackRuns(head.kept), name: `L${l}.${h}` });
}));
const planned = heads.filter((head) => head.planned);
const numSegments = planned.length ? planned[0].dense.length : 0;

// Does the head still hold this position?
function holds(head, position) {
  let low = 0, high = head.runs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (head.runs[middle] <= position) low = middle + 1; else high = middle;
  }
  return low % 2 === 1;
}

// How many heads hold each position.
const holders = (() => {
  const change = new Int32Array(held + 1);
  for (const head of heads) head.runs.forEach((edge, i) => { change[Math.min(edge, held)] += i % 2 ? -1 : 1; });
  const count = new Int32Array(held);
  let now = 0;
  for (let i = 0; i < held; ++i) count[i] = now += change[i];
  return count;
})();

const segmentBegin = (s) => s * segment;
const segmentEnd = (s) => Math.min((s + 1) * segment, prompt);
// Share of the earlier text that the segment read; null where none of its rows attended (last layer).
function readShare(head, s) {
  if (s === 0 || head.dense[s] === "1") return 1;
  return head.read[s] > 0 ? head.read[s] / segmentBegin(s) : null;
}
const className = (c) => (c === "r" ? "rigid" : "dynamic");
const typeName = (t) => ({ u: "unknown", l: "local", s: "sink", d: "diffuse" })[t];
// The last type that was seen; a segment whose blocks nobody ranks has none.
const lastType = (head) => typeName(head.type.replace(/u+$/, "").slice(-1) || "u");
const count = (n) => Math.round(n).toLocaleString("en");
const percent = (x) => (100 * x).toFixed(x < 0.0995 && x > 0 ? 1 : 0) + " %";
const short = (x) => (x === null ? "–" : Number(x.toPrecision(3)).toString());
const nats = (x) => (x === null ? "not measured" : short(x) + " nats");

function megabytes(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return (n >= 100 || unit === "B" ? n.toFixed(0) : n.toFixed(1)) + " " + unit;
    n /= 1024;
  }
}
const seconds = (ms) => (ms < 1000 ? ms.toFixed(ms < 10 ? 1 : 0) + " ms" : (ms / 1000).toFixed(2) + " s");

// The text of positions [begin, end), cut to about `most` characters.
function textOf(begin, end, most) {
  let text = "";
  for (let i = Math.max(0, begin); i < Math.min(end, pieces.length) && text.length < most; ++i) text += pieces[i];
  text = text.replace(/\s+/g, " ");
  return text.length >= most ? text.slice(0, most) + "…" : text;
}
