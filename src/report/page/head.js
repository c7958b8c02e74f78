// One head: its entropy, its budget, the blocks it chose.
const chart = { left: 52, right: 10, top: 8, plot: 150, ribbon: 9 };

function svgAxis(width, high, label) {
  const step = niceStep(high, 4);
  let out = "";
  for (let v = 0; v <= high * 1.0001; v += step) {
    const y = chart.top + chart.plot * (1 - v / high);
    out += `<line x1="${chart.left}" x2="${width - chart.right}" y1="${y}" y2="${y}" stroke="${color("grid")}"/>` +
      `<text x="${chart.left - 8}" y="${y + 4}" text-anchor="end">${label(v)}</text>`;
  }
  const bottom = chart.top + chart.plot + 2 * chart.ribbon + 20;
  const step2 = Math.max(1, niceStep(prompt, (width - chart.left) / 80));
  for (let t = 0; t <= prompt; t += step2) {
    const x = chart.left + ((width - chart.left - chart.right) * t) / prompt;
    out += `<text x="${x}" y="${bottom}" text-anchor="${t ? (x > width - 30 ? "end" : "middle") : "start"}">` +
      `${tokenLabel(t)}</text>`;
  }
  return out;
}

// lines: [{ name: colour, values, dash }]
function drawChart(svg, head, lines, high, label) {
  const width = svg.clientWidth, height = chart.top + chart.plot + 2 * chart.ribbon + 26;
  const x = (s) => chart.left + ((width - chart.left - chart.right) * Math.min(s * segment, prompt)) / prompt;
  const y = (v) => chart.top + chart.plot * (1 - v / high);
  let out = "";
  for (let s = 0; s < numSegments; ++s) {
    if (head.dense[s] === "1")
      out += `<rect x="${x(s)}" y="${chart.top}" width="${x(s + 1) - x(s) + 0.3}" height="${chart.plot}"
        fill="${color("dense")}" opacity="0.35"/>`;
    const ribbon = chart.top + chart.plot + 4;
    out += `<rect x="${x(s)}" y="${ribbon}" width="${x(s + 1) - x(s) + 0.3}" height="${chart.ribbon - 2}"
      fill="${color(className(head.class[s]))}"/>`;
    out += `<rect x="${x(s)}" y="${ribbon + chart.ribbon}" width="${x(s + 1) - x(s) + 0.3}" height="${chart.ribbon - 2}"
      fill="${color(typeName(head.type[s]))}"/>`;
  }
  const empty = lines.every((line) => line.values.every((v) => v === null));
  out += empty ? `<text x="${chart.left}" y="${chart.top + 20}">nothing was measured or left out here</text>`
    : svgAxis(width, high, label);
  for (const line of lines) {
    let path = "", pen = false;
    line.values.forEach((v, s) => {
      if (v === null) { pen = false; return; }
      const middle = (x(s) + x(s + 1)) / 2;
      path += `${pen ? "L" : "M"}${middle.toFixed(1)} ${y(Math.min(v, high)).toFixed(1)}`;
      pen = true;
    });
    out += `<path d="${path}" fill="none" stroke="${color(line.color)}" stroke-width="2" stroke-linejoin="round"
      stroke-dasharray="${line.dash || ""}"/>`;
  }
  if (state.segment >= 0) {
    const at = (x(state.segment) + x(state.segment + 1)) / 2;
    out += `<line x1="${at}" x2="${at}" y1="${chart.top}" y2="${height - 20}" stroke="${color("cursor")}"/>`;
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.height = height + "px";
  svg.innerHTML = `<g font-size="12" fill="${color("muted")}">${out}</g>`;
}

// What is drawn depends on the rule that gave out the budgets.
function ruleWords() {
  const low = "Low: the segment's queries want few blocks. High: attention is spread over many. ";
  const given = "Earlier tokens that the segment may read, and those that it did read";
  const published = {
    title: "Entropy of the block scores, nats",
    entropy: low + "A head is rigid until its entropy first reaches the threshold, then dynamic.",
    budget: given + "; a dynamic head's budget follows the growth of the entropy." };
  return {
    entropy: {
      title: "Entropy of the sampled attention, nats",
      entropy: low + "A head is dynamic once it spreads over twice as many blocks as when it was first seen.",
      budget: given + ": the heads share one density, and the more places its rows look at, the more a head gets." },
    growth: published,
    habit: { ...published, budget: given + ": shares of the text by type of head." },
    level: { ...published, budget: given + ": the higher the entropy, the more." },
  }[option("budget-rule", "entropy")] || { ...published, budget: given + "." };
}

function drawCharts(head) {
  const highest = Math.max(0.01, ...head.entropy.filter((v) => v !== null));
  drawChart($("entropy-chart"), head, [{ color: "accent", values: head.entropy }], highest * 1.05, short);
  // What dense segments read would dwarf the rest.
  const read = head.read.map((v, s) => (head.dense[s] === "1" || v === 0 ? null : v));
  const budget = head.budget.map((v, s) => (head.dense[s] === "1" ? null : v));
  const most = Math.max(1, ...budget.filter((v) => v !== null), ...read.filter((v) => v !== null));
  drawChart($("budget-chart"), head, [
    { color: "muted", values: budget, dash: "5 4" }, { color: "accent", values: read }], most * 1.08, tokenLabel);
}

const map = { left: 52, right: 10, top: 4, height: 360 };
const rowSegment = (row) => Math.ceil((row * data.map.segments) / data.map.rows);

function drawMap(head) {
  const { context, width } = open($("map"), map.top + map.height + 24);
  const { rows, cols, segments, blocks } = data.map;
  const wide = width - map.left - map.right, ramp = makeRamp(), levels = unpackLevels(head.map);
  const x = (token) => map.left + (wide * Math.min(token, prompt)) / prompt;
  const y = (row) => map.top + (map.height * row) / rows;
  const cell = (col) => Math.ceil((col * blocks) / cols) * block;
  const paint = (name, from, to, row) => {
    context.fillStyle = name;
    context.fillRect(x(from), y(row), x(to) - x(from), y(row + 1) - y(row) + 0.3);
  };
  for (let row = 0; row < rows; ++row) {
    const s = rowSegment(row), begin = segmentBegin(s);
    const read = readShare(head, s);
    if (read === null) continue;
    paint(color(head.dense[s] === "1" ? "dense" : "unread"), 0, begin, row);
    for (let col = 0; col < cols && head.dense[s] !== "1"; ++col) {
      const level = levels[row * cols + col];
      if (level > 0) paint(css(ramp(0.3 + (0.7 * level) / 15)), cell(col), Math.min(cell(col + 1), begin), row);
    }
    paint(color("own"), begin, segmentEnd(Math.max(s, rowSegment(row + 1) - 1)), row);
  }
  context.fillStyle = color("muted");
  context.textAlign = "right";
  context.textBaseline = "middle";
  const step = Math.max(1, Math.round(niceStep(segments, 7)));
  for (let s = 0; s < segments; s += step) {
    context.fillText("S" + s, map.left - 8, Math.max(10, y((s / segments) * rows + 0.5)));
  }
  if (state.segment >= 0) {
    const row = Math.floor((state.segment * rows) / segments);
    context.strokeStyle = color("cursor");
    context.lineWidth = 1.5;
    context.strokeRect(map.left, y(row), wide, Math.max(2, y(row + 1) - y(row)));
  }
  tokenAxis(context, { left: map.left, right: width - map.right, y: map.top + map.height + 2, most: prompt });
  $("map-key").innerHTML = swatch("ramp4", "chosen") + swatch("unread", "left out") +
    swatch("own", "the segment itself") + swatch("dense", "dense segment: reads everything");
}

function mapText(event) {
  const head = heads[state.head], box = $("map").getBoundingClientRect();
  const share = (event.clientX - box.left - map.left) / (box.width - map.left - map.right);
  const row = Math.floor(((event.clientY - box.top - map.top) / map.height) * data.map.rows);
  if (share < 0 || share >= 1 || row < 0 || row >= data.map.rows) return null;
  const s = rowSegment(row), token = Math.floor(share * prompt);
  const col = Math.floor((Math.floor(token / block) * data.map.cols) / data.map.blocks);
  const from = Math.ceil((col * data.map.blocks) / data.map.cols) * block;
  const to = Math.ceil(((col + 1) * data.map.blocks) / data.map.cols) * block;
  if (token >= segmentEnd(s)) return { s, html: segmentText(head, s) };
  const level = unpackLevels(head.map)[row * data.map.cols + col];
  const what = token >= segmentBegin(s) ? "the segment itself: always read"
    : head.dense[s] === "1" ? "a dense segment reads everything"
    : level === 15 ? "chosen" : level === 0 ? "left out" : `about ${percent(level / 15)} of it chosen`;
  return { s, html: `<b>${head.name}, segment ${s}</b> looks at ` +
    `<b>tokens ${count(from)}–${count(to - 1)}</b>\n${what}\n` + `<em>“${escape(textOf(from, to, 220))}”</em>` };
}

function drawHead() {
  const head = heads[state.head];
  $("head-panel").style.display = planned.length ? "" : "none";
  if (!head.planned) return;
  const last = numSegments - 1, type = lastType(head), kept = className(head.class[last]);
  const badge = (name, text) => `<span class="badge" style="border-color:${color(name)}">${text}</span>`;
  $("head-title").innerHTML = `Layer ${head.layer}, kv_head ${head.kvHead}${badge(kept, kept)}` +
    (type === "unknown" ? "" : badge(type, type));
  const seen = head.attention;
  const attention = seen && seen.samples > 0
    ? ` Of its attention ${percent(seen.sink)} goes to the sink and ${percent(seen.far)} to other blocks before the ` +
      `segment: over some ${count(Math.round(seen.segment))} blocks in all, some ${count(Math.round(seen.row))} of ` +
      "a row." : "";
  const swatches = ["rigid", "dynamic", "local", "sink", "diffuse"].map((name) => swatch(name, name)).join("");
  $("head-note").innerHTML = `It keeps ${count(head.slots)} of ${count(held)} slots in the cache.${attention}` +
    `<br><span class="key">Ribbons under the curves, class and type: ${swatches}</span>`;
  const line = (name, dash, text) =>
    `<span><i class="line" style="border-top:2px ${dash} ${color(name)}"></i>${text}</span>`;
  $("budget-key").innerHTML = line("muted", "dashed", "budget") + line("accent", "solid", "read") +
    swatch("dense", "dense segment: reads everything");
  const words = ruleWords();
  $("entropy-title").textContent = words.title;
  $("entropy-note").textContent = words.entropy;
  $("budget-note").textContent = words.budget;
  drawCharts(head);
  drawMap(head);
}

function startHead() {
  const canvas = $("map");
  canvas.addEventListener("pointermove", (event) => {
    const at = mapText(event);
    if (at) showTip(event, at.html); else hideTip();
  });
  canvas.addEventListener("click", (event) => {
    const at = mapText(event);
    if (!at) return;
    state.segment = at.s;
    redraw();
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("keydown", headKeys);
  for (const svg of [$("entropy-chart"), $("budget-chart")]) {
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      const share = (event.clientX - box.left - chart.left) / (box.width - chart.left - chart.right);
      return share >= 0 && share < 1 ? Math.floor((share * prompt) / segment) : -1;
    };
    svg.addEventListener("pointermove", (event) => {
      const s = at(event);
      if (s >= 0) showTip(event, segmentText(heads[state.head], s)); else hideTip();
    });
    svg.addEventListener("click", (event) => { state.segment = at(event); redraw(); });
    svg.addEventListener("pointerleave", hideTip);
  }
  redraws.push(drawHead);
}
