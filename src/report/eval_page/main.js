// The header, and everything drawn.
function drawFacts() {
  $("title").textContent = data.title;
  document.title = data.title;
  $("subtitle").textContent = data.notes;
  const card = (value, label) => `<div class="card"><b>${escape(value)}</b><span>${escape(label)}</span></div>`;
  const best = data.methods.filter((m) => m.name !== data.reference && m.to_reference)
    .sort((a, b) => b.score.mean - a.score.mean)[0];
  $("facts").innerHTML = card(data.tasks.length, "tasks and lengths") + card(data.methods.length, "methods") +
    card(data.results, "answers") + (data.reference ? card(points(data.methods[0].score.mean), "full attention") : "") +
    (best ? card(signed(best.to_reference.mean), `points to full: ${best.name}`) : "");
}

function draw() {
  drawFacts();
  drawMethods();
  drawCharts();
  drawTasks();
  if ($("needles-panel")) drawNeedles();
}

$("theme").onclick = () => {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  draw();
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
