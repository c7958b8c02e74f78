// What the page shows, and its two tables.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const points = (x) => (100 * x).toFixed(1);
const signed = (x) => (x > 0 ? "+" : "") + points(x);
const mebibytes = (bytes) => (bytes / 1048576).toFixed(bytes < 1e7 ? 2 : 1);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const interval = (i) => `${points(i.mean)} [${points(i.low)}, ${points(i.high)}]`;
const kSolved = 0.8;

const parts = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// 0 to 1 over the five steps of the theme's ramp: red, green, blue.
function ramp(score) {
  const at = Math.min(3.999, Math.max(0, score) * 4), step = Math.floor(at);
  const from = parts(color("ramp" + step)), to = parts(color("ramp" + (step + 1)));
  return from.map((x, i) => Math.round(x + (to[i] - x) * (at - step)));
}
const shade = (score) => `rgb(${ramp(score).join(" ")})`;

// Black or white, whichever has more contrast: of relative luminances (WCAG), the two are even at 0.179.
function inkOn(score) {
  const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const [red, green, blue] = ramp(score).map((x) => linear(x / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

function drawMethods() {
  const rows = data.methods.map((m) => {
    const d = m.to_reference;
    const difference = d ? `<span class="${d.high < 0 ? "worse" : ""}">${signed(d.mean)} <small>[${signed(d.low)}, ` +
      `${signed(d.high)}]</small></span>` : "–";
    return `<tr><td>${escape(m.name)}</td><td>${points(m.score.mean)} <small>[${points(m.score.low)}, ` +
      `${points(m.score.high)}]</small></td><td>${difference}</td><td>${m.density.toFixed(3)}</td>` +
      `<td>${mebibytes(m.kv_bytes)}</td><td>${(100 * m.kv_kept).toFixed(1)} %</td><td>${m.sparse} of ${m.items}</td>` +
      `<td>${m.compressed} of ${m.items}</td>` +
      `<td>${m.prompt_s.toFixed(2)}</td><td>${m.decode_s.toFixed(2)}</td></tr>`;
  });
  $("methods").innerHTML = "<table><tr><th>method</th><th>average</th><th>to full</th><th>density</th><th>KV MiB</th>" +
    `<th>KV kept</th><th>sparse</th><th>fired</th><th>prompt s</th><th>answer s</th></tr>${rows.join("")}</table>`;
  $("idle").innerHTML = data.idle.map((sentence) => `<li>${escape(sentence)}</li>`).join("");
}

function taskCell(cell) {
  if (!cell.items) return "<td>–</td>";
  const tip = [`${interval(cell.score)}, ${cell.items} items`];
  if (cell.to_reference) tip.push(`to full: ${signed(cell.to_reference.mean)} [${signed(cell.to_reference.low)}, ` +
    `${signed(cell.to_reference.high)}]`);
  if ("sparse" in cell) tip.push(`sparse on ${cell.sparse}, compression fired on ${cell.compressed}`);
  return `<td title="${escape(tip.join("\n"))}" style="background:${shade(cell.score.mean)};` +
    `color:${inkOn(cell.score.mean)}">${points(cell.score.mean)}</td>`;
}

function taskRow(name, length, cells) {
  const first = cells[0];
  const unsolved = data.reference && first.items && first.score.mean < kSolved;
  return `<tr class="${unsolved ? "unsolved" : ""}"><td>${escape(name)}</td><td>${length || "–"}</td>` +
    `<td>${Math.max(...cells.map((c) => c.items))}</td>${cells.map(taskCell).join("")}</tr>`;
}

function drawTasks() {
  const head = data.methods.map((m) => `<th>${escape(m.name)}</th>`).join("");
  const rows = data.tasks.flatMap((task) => {
    const letters = task.cells.map((c) => c.likelihood ?? { items: 0 });  // of multiple choice: the likeliest ones
    return [taskRow(task.task, task.length, task.cells)].concat(
      letters.some((c) => c.items) ? taskRow(`${task.task}, likeliest letter`, task.length, letters) : []);
  });
  $("tasks").innerHTML = `<table><tr><th>task</th><th>length</th><th>n</th>${head}</tr>${rows.join("")}</table>`;
}
