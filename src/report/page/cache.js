// The positions every head still holds, and the text there.
const cache = { left: 52, right: 8, top: 22, row: 14 };
const around = 70;  // tokens shown before and behind the pointer

// Share of the positions under each pixel column that the runs cover.
function coverage(runs, columns) {
  const share = new Float64Array(columns), perColumn = held / columns;
  for (let i = 0; i < runs.length; i += 2) {
    const begin = runs[i] / perColumn, end = Math.min(runs[i + 1] / perColumn, columns);
    for (let c = Math.floor(begin); c < end; ++c) share[c] += Math.min(end, c + 1) - Math.max(begin, c);
  }
  return share;
}

function drawCache() {
  cache.row = Math.max(3, Math.min(16, Math.floor(560 / heads.length)));
  const bottom = cache.top + heads.length * cache.row;
  const { context, width } = open($("cache"), bottom + 24);
  const wide = Math.floor(width - cache.left - cache.right), ramp = makeRamp();
  heads.forEach((head, i) => {
    const y = cache.top + i * cache.row, share = coverage(head.runs, wide);
    context.fillStyle = color("unread");
    context.fillRect(cache.left, y, wide, cache.row - (cache.row > 8 ? 1 : 0));
    for (let c = 0; c < wide; ++c) {
      if (share[c] === 0) continue;
      context.fillStyle = css(ramp(0.3 + 0.7 * share[c]));
      context.fillRect(cache.left + c, y, 1, cache.row - (cache.row > 8 ? 1 : 0));
    }
    if (i > 0 && head.kvHead === 0) {
      context.fillStyle = color("panel");
      context.fillRect(cache.left, y - 1.5, wide, 2);
    }
  });
  rowLabels(context, heads, cache.top, cache.row, cache.left - 8);
  const x = (position) => cache.left + (wide * position) / held;
  context.fillStyle = color("muted");
  context.textBaseline = "middle";
  context.textAlign = x(prompt) > width - 120 ? "right" : "left";
  if (held > prompt) {
    context.fillText("answer", Math.min(x(prompt) + 2, width - cache.right), 8);
    context.fillRect(x(prompt), 15, Math.max(1, x(held) - x(prompt)), 4);
  }
  context.strokeStyle = color("cursor");
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x(state.position + 0.5), 15);
  context.lineTo(x(state.position + 0.5), bottom);
  context.stroke();
  context.lineWidth = 2;
  context.strokeRect(cache.left - 1, cache.top + state.head * cache.row - 1, wide + 2, cache.row + 1);
  tokenAxis(context, { left: cache.left, right: cache.left + wide, y: bottom + 2, most: held });
  $("cache-key").innerHTML = swatch("ramp4", "kept") + swatch("unread", "dropped") +
    "<span>across: position in the text, tokens</span>";
  drawReader();
}

function drawReader() {
  const at = state.position, head = heads[state.head], ramp = channels(color("ramp3"));
  const begin = Math.max(0, Math.min(at - around, held - 2 * around)), end = Math.min(held, begin + 2 * around + 1);
  $("reader").replaceChildren();
  for (let i = begin; i < end; ++i) {
    const span = document.createElement("span");
    span.textContent = pieces[i];
    span.style.background = `rgb(${ramp[0]} ${ramp[1]} ${ramp[2]} / ${(60 * holders[i]) / heads.length}%)`;
    span.className = (i === at ? "here " : "") + (holds(head, i) ? "mine" : "");
    span.title = `token ${count(i)}: kept by ${holders[i]} of ${heads.length} heads`;
    $("reader").append(span);
  }
  const who = heads.filter((one) => holds(one, at)).map((one) => one.name);
  const names = who.length === 0 ? "no head" : who.length === heads.length ? "all heads"
    : who.length <= 10 ? who.join(", ") : `${who.length} of ${heads.length} heads`;
  $("reader-head").innerHTML = `Token <b>${count(at)}</b> ${at >= prompt ? "of the answer " : ""}is kept by ` +
    `<b>${names}</b>. ` +
    `The stronger a word is tinted, the more heads keep it; underlined words are kept by ${head.name}.`;
}

function atCache(event) {
  const box = $("cache").getBoundingClientRect();
  const share = (event.clientX - box.left - cache.left) / Math.floor(box.width - cache.left - cache.right);
  const row = Math.floor((event.clientY - box.top - cache.top) / cache.row);
  if (share < 0 || share >= 1) return null;
  return { position: Math.floor(share * held), row: row >= 0 && row < heads.length ? row : -1 };
}

function cacheNote() {
  const run = data.run.kv, average = heads.reduce((sum, head) => sum + head.slots, 0) / heads.length;
  const gap = option("kv-gap", -1);
  if (run.compressions > 0) {
    const when = gap < 0 ? "When the prompt had been read" : `After ${gap} generated tokens`;
    return `${when} every kv_head kept only the slots that score best (the latest queries' attention, by most methods)` +
      `${run.compressions > 1 ? `; ${run.compressions} compressions so far` : ""}. On average ${count(average)} of ` +
      `${count(held)} slots remain: ${megabytes(run.bytes)} instead of ${megabytes(run.bytes_full)}. ` +
      "Move the pointer over the picture to read the text there; click a line to choose a head.";
  }
  const why = option("kv-policy", "full") === "full" ? "This method keeps the whole cache"
    : "The cache was not compressed: it fits its budget, or too few tokens were generated (-n)";
  return `${why}, so every position remains. Move the pointer over the picture to read the text there.`;
}

function startCache() {
  const canvas = $("cache");
  canvas.addEventListener("pointermove", (event) => {
    const at = atCache(event);
    if (!at) { hideTip(); return; }
    state.position = at.position;
    drawCache();
    const head = heads[at.row];
    const kept = head ? `\n${head.name} ${holds(head, at.position) ? "keeps" : "dropped"} it` : "";
    showTip(event, `<b>token ${count(at.position)}</b> <em>kept by ${holders[at.position]} of ${heads.length} ` +
      `heads</em>${kept}\n` +
      `“${escape(textOf(at.position - 12, at.position, 200))}<b>${escape(pieces[at.position])}</b>` +
      `${escape(textOf(at.position + 1, at.position + 13, 200))}”`);
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => {
    const at = atCache(event);
    if (!at || at.row < 0) return;
    state.head = at.row;
    redraw();
  });
  canvas.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? Math.max(1, Math.round(held / 100)) : 1;
    const move = { ArrowLeft: -step, ArrowRight: step, Home: -held, End: held }[event.key];
    const row = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!move && !row) return;
    event.preventDefault();
    if (move) state.position = Math.min(held - 1, Math.max(0, state.position + move));
    if (row) state.head = Math.min(heads.length - 1, Math.max(0, state.head + row));
    redraw();
  });
  $("cache-note").textContent = cacheNote();
  redraws.push(drawCache);
}
