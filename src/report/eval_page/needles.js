// Depth by length, one map a method.
const needles = data.needles;
const state = { task: "" };  // all of them

function mapOf(method) {
  const shown = needles.filter((n) => n.method === method && (!state.task || n.task === state.task));
  const lengths = [...new Set(needles.map((n) => n.length))].sort((a, b) => a - b);
  const depths = [...new Set(needles.map((n) => n.depth))].sort((a, b) => a - b);
  const cell = 30, left = 52, top = 6;
  let svg = "";
  depths.forEach((depth, row) => {
    svg += `<text x="${left - 8}" y="${top + row * cell + 20}" text-anchor="end">${Math.round(100 * depth)} %</text>`;
    lengths.forEach((length, column) => {
      const here = shown.filter((n) => n.length === length && n.depth === depth);
      const items = here.reduce((sum, n) => sum + n.items, 0);
      const score = here.reduce((sum, n) => sum + n.score * n.items, 0) / (items || 1);
      svg += `<g><title>${items ? `${points(score)} of 100 over ${items} items` : "no item"}</title>` +
        `<rect x="${left + column * 2 * cell}" y="${top + row * cell}" width="${2 * cell - 2}" height="${cell - 2}" rx="3" ` +
        `fill="${items ? shade(score) : color("unread")}"/>` + (items ? `<text x="${left + column * 2 * cell + cell}" ` +
        `y="${top + row * cell + 19}" text-anchor="middle" style="fill:${inkOn(score)}">${Math.round(100 * score)}</text>`
          : "") + "</g>";
    });
  });
  lengths.forEach((length, column) => {
    svg += `<text x="${left + column * 2 * cell + cell}" y="${top + depths.length * cell + 16}" text-anchor="middle">` +
      `${length % 1024 === 0 ? length / 1024 + "k" : length}</text>`;
  });
  const width = left + lengths.length * 2 * cell + 8, height = top + depths.length * cell + 24;
  return `<div><h3>${escape(method)}</h3><svg viewBox="0 0 ${width} ${height}" style="max-width:${width}px" role="img" ` +
    `aria-label="needles of ${escape(method)}">${svg}</svg></div>`;
}

function drawNeedles() {
  if (!needles.length) {
    $("needles-panel").remove();
    return;
  }
  const tasks = [...new Set(needles.map((n) => n.task))];
  $("needle-tasks").innerHTML = ["", ...tasks].map((task) => `<button type="button" data-task="${escape(task)}" ` +
    `aria-pressed="${task === state.task}">${task ? escape(task) : "all"}</button>`).join("");
  for (const button of $("needle-tasks").children)
    button.onclick = () => { state.task = button.dataset.task; drawNeedles(); };
  $("needles").innerHTML = data.methods.map((m) => mapOf(m.name)).join("");
  const steps = [0, 0.25, 0.5, 0.75, 1].map((s) => shade(s)).join(",");
  $("needles-key").innerHTML = `<span>0<i class="ramp" style="background:linear-gradient(90deg,${steps})"></i>100</span>`;
}
