// One point a method: its score against what it read, and against what it kept.
const palette = ["dynamic", "rigid", "local", "sink", "diffuse", "time0"];
const methodColor = (i) => color(palette[i % palette.length]);
const marks = ["circle", "square", "diamond"];

function mark(kind, x, y, fill) {
  if (kind === "square") return `<rect x="${x - 5}" y="${y - 5}" width="10" height="10" fill="${fill}"/>`;
  if (kind === "diamond") return `<path d="M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z" fill="${fill}"/>`;
  return `<circle cx="${x}" cy="${y}" r="5.5" fill="${fill}"/>`;
}
const markOf = (i) => marks[Math.floor(i / palette.length) % marks.length];

// Round steps of `unit` that reach `most`, four to eight of them.
function roundTicks(most, unit) {
  const parts = Math.max(most / unit, 1e-9) / 4;
  const power = 10 ** Math.floor(Math.log10(parts));
  const step = unit * power * [1, 2, 5].filter((f) => f * power <= parts).pop();
  const ticks = [];
  for (let i = 0; (i - 1) * step < most * (1 - 1e-9); ++i) ticks.push(i * step);
  return ticks;
}

function drawChart(id, value, label, unit) {
  const width = 520, height = 260, left = 44, right = 30, top = 12, bottom = 36;
  const ticks = roundTicks(Math.max(...data.methods.map(value)), unit);
  const most = ticks[ticks.length - 1];
  const x = (v) => left + (v / most) * (width - left - right);
  const y = (s) => top + (1 - s) * (height - top - bottom);
  let svg = "";
  for (const s of [0, 0.25, 0.5, 0.75, 1])
    svg += `<line class="axis" x1="${left}" x2="${width - right}" y1="${y(s)}" y2="${y(s)}"/>` +
      `<text x="${left - 8}" y="${y(s) + 4}" text-anchor="end">${100 * s}</text>`;
  for (const tick of ticks)
    svg += `<text x="${x(tick)}" y="${height - bottom + 18}" text-anchor="middle">${label(tick)}</text>`;
  data.methods.forEach((m, i) => {
    const at = x(value(m)), fill = methodColor(i);
    svg += `<g><title>${escape(m.name)}: ${interval(m.score)}, ${label(value(m))}</title>` +
      `<line class="bar-line" stroke="${fill}" x1="${at}" x2="${at}" y1="${y(m.score.low)}" y2="${y(m.score.high)}"/>` +
      `${mark(markOf(i), at, y(m.score.mean), fill)}</g>`;
  });
  $(id).setAttribute("viewBox", `0 0 ${width} ${height}`);
  $(id).innerHTML = svg;
}

function drawCharts() {
  drawChart("by-density", (m) => m.density, (v) => `${Number((100 * v).toFixed(1))} %`, 0.01);
  drawChart("by-bytes", (m) => m.kv_bytes, (v) => `${Number((v / 2 ** 20).toFixed(2))} MiB`, 2 ** 20);
  $("chart-key").innerHTML = data.methods.map((m, i) => `<span><svg viewBox="0 0 16 16" style="display:inline-block;` +
    `width:16px;height:16px;vertical-align:-3px">${mark(markOf(i), 8, 8, methodColor(i))}</svg> ${escape(m.name)}</span>`)
    .join("");
}
