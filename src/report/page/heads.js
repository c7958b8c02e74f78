// All heads over the segments of the prompt, coloured by what the buttons choose.
const metrics = {
  entropy: {
    label: "entropy", note: "How widely a segment's queries spread over the earlier blocks, in nats.",
    value: (head, s) => head.entropy[s], text: nats,
  },
  budget: {
    label: "budget", note: "Earlier tokens a segment may read.",
    value: (head, s) => head.budget[s], text: (x) => count(x) + " tokens",
  },
  read: {
    label: "share read", note: "Share of the earlier text that a segment read: full colour is everything.",
    value: readShare, text: percent, low: 0, high: 1,
  },
  class: {
    label: "class", note: "A rigid head's entropy has hardly moved so far; a dynamic one has opened up with the text.",
    names: ["rigid", "dynamic"], value: (head, s) => className(head.class[s]),
  },
  type: {
    label: "type", note: "What samples of its attention have shown so far. Local: looks back about a segment. Sink: " +
      "rests on the first block, looks up now and then. Diffuse: spreads its attention over the text.",
    names: ["local", "sink", "diffuse", "unknown"], value: (head, s) => typeName(head.type[s]),
  },
};

const glance = { left: 52, right: 8, top: 2, row: 14 };

function extent(metric) {
  let low = Infinity, high = -Infinity;
  for (const head of planned) {
    for (let s = 1; s < numSegments; ++s) {
      const value = metric.value(head, s);
      if (value === null) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (high < low) low = high = 0;  // one segment only
  return { low: metric.low ?? low, high: metric.high ?? high };
}

function rowLabels(context, list, top, row, right) {
  context.fillStyle = color("muted");
  context.textAlign = "right";
  context.textBaseline = "middle";
  let next = -Infinity;
  list.forEach((head, i) => {
    const y = top + (i + 0.5) * row;
    if (y < next) return;
    if (row < 12 && head.kvHead !== 0) return;
    context.fillText(row < 12 ? "L" + head.layer : head.name, right, y);
    next = y + 12;
  });
}

function drawHeads() {
  if (!planned.length) return;
  const metric = metrics[state.metric];
  glance.row = Math.max(3, Math.min(18, Math.floor(560 / planned.length)));
  const bottom = glance.top + planned.length * glance.row;
  const { context, width } = open($("heads"), bottom + 24);
  const wide = width - glance.left - glance.right;
  const ramp = makeRamp();
  const { low, high } = metric.names ? {} : extent(metric);
  const x = (s) => glance.left + (wide * Math.min(s * segment, prompt)) / prompt;
  planned.forEach((head, i) => {
    for (let s = 0; s < numSegments; ++s) {
      const value = metric.value(head, s);
      const named = metric.names ? color(value) : null;
      const level = high > low ? (value - low) / (high - low) : Number(high > 0);
      const shade = value === null ? color("panel") : css(ramp(level));
      context.fillStyle = named ?? shade;
      context.fillRect(x(s), glance.top + i * glance.row, x(s + 1) - x(s) + 0.3, glance.row - (glance.row > 8 ? 1 : 0));
    }
    if (i > 0 && head.kvHead === 0) {
      context.fillStyle = color("panel");
      context.fillRect(glance.left, glance.top + i * glance.row - 1.5, wide, 2);
    }
  });
  rowLabels(context, planned, glance.top, glance.row, glance.left - 8);
  const chosen = planned.indexOf(heads[state.head]);
  context.strokeStyle = color("cursor");
  context.lineWidth = 2;
  if (chosen >= 0) context.strokeRect(glance.left - 1, glance.top + chosen * glance.row - 1, wide + 2, glance.row + 1);
  if (state.segment >= 0) {
    context.lineWidth = 1;
    context.strokeRect(x(state.segment), glance.top, x(state.segment + 1) - x(state.segment), bottom - glance.top);
  }
  tokenAxis(context, { left: glance.left, right: width - glance.right, y: bottom + 2, most: prompt });
  $("metric-note").textContent = metric.note;
  $("heads-key").innerHTML = metric.names ? metric.names.map((name) => swatch(name, name)).join("")
    : rampKey(metric.text(low), metric.text(high), "across: position in the prompt, tokens");
}

function segmentText(head, s) {
  const read = readShare(head, s);
  const how = head.dense[s] === "1" ? "read everything before it"
    : read === null ? "none of its rows attended: only the last rows of the last layer are needed"
    : `read ${count(head.read[s])} of ${count(segmentBegin(s))} earlier tokens (${percent(read)})`;
  return `<b>${head.name}, segment ${s}</b> <em>tokens ${count(segmentBegin(s))}–${count(segmentEnd(s) - 1)}</em>\n` +
    `entropy ${nats(head.entropy[s])}, ${className(head.class[s])}; type ${typeName(head.type[s])}\n` +
    `budget ${count(head.budget[s])} tokens; ${how}\n` +
    `<em>“${escape(textOf(segmentBegin(s), segmentEnd(s), 140))}”</em>`;
}

function atHeads(event) {
  const box = $("heads").getBoundingClientRect();
  const row = Math.floor((event.clientY - box.top - glance.top) / glance.row);
  const share = (event.clientX - box.left - glance.left) / (box.width - glance.left - glance.right);
  if (row < 0 || row >= planned.length || share < 0 || share >= 1) return null;
  return { head: planned[row], s: Math.floor((share * prompt) / segment) };
}

function selectPlanned(step) {
  const at = planned.indexOf(heads[state.head]);
  const next = planned[Math.min(planned.length - 1, Math.max(0, at + step))];
  if (next) state.head = heads.indexOf(next);
  redraw();
}

function moveSegment(step) {
  state.segment = Math.min(numSegments - 1, Math.max(0, state.segment + step));
  redraw();
}

function headKeys(event) {
  const moves = { ArrowUp: () => selectPlanned(-1), ArrowDown: () => selectPlanned(1),
    ArrowLeft: () => moveSegment(-1), ArrowRight: () => moveSegment(1),
    Home: () => moveSegment(-numSegments), End: () => moveSegment(numSegments) };
  if (!moves[event.key]) return;
  event.preventDefault();
  moves[event.key]();
}

function startHeads() {
  for (const [name, metric] of Object.entries(metrics)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = metric.label;
    button.addEventListener("click", () => { state.metric = name; redraw(); });
    $("metrics").append(button);
    redraws.push(() => button.setAttribute("aria-pressed", String(state.metric === name)));
  }
  const canvas = $("heads");
  canvas.addEventListener("pointermove", (event) => {
    const at = atHeads(event);
    if (at) showTip(event, segmentText(at.head, at.s)); else hideTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => {
    const at = atHeads(event);
    if (!at) return;
    state.head = heads.indexOf(at.head);
    state.segment = at.s;
    redraw();
  });
  canvas.addEventListener("keydown", headKeys);
  redraws.push(drawHeads);
}
