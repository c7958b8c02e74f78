// The header, and everything started.
function card(value, label) {
  return `<div class="card"><b>${escape(value)}</b><span>${escape(label)}</span></div>`;
}

function drawFacts() {
  const { run, tokens } = data, kv = run.kv, prefill = run.prefill;
  const file = run.model.split("/").pop();
  $("title").textContent = `${data.model.name || file}, read with ${run.method}`;
  document.title = `${file}: ${run.method}`;
  $("subtitle").textContent = `${file} · ${data.model.arch}, ${data.model.layers} layers, ${data.model.heads} heads ` +
    `over ${data.model.kv_heads} kv_heads of ${data.model.head_dim} · ${run.backend_detail}` +
    (run.method_options ? ` · ${run.method_options}` : "");
  $("facts").innerHTML = card(count(tokens.prompt), "prompt tokens") +
    card(percent(prefill.density), "of the query-key pairs computed") +
    card(seconds(run.timings.prompt_ms), `to read the prompt, ${count(run.timings.prompt_per_second)} tokens/s`) +
    card(count(tokens.generated), `tokens generated, ${count(run.timings.predicted_per_second)} per second`) +
    card(megabytes(kv.bytes_full), "KV cache without compression") +
    card(megabytes(kv.bytes), kv.compressions > 0 ? `KV cache now, ${kv.compressions} × compressed`
      : "KV cache now, not compressed");
  $("idle").innerHTML = (run.idle ?? []).map((why) => `<p><b>Nothing left out:</b> ${escape(why)}.</p>`).join("");
  const spent = [["profile: scores and entropies", prefill.profile_ms], ["plan: choosing blocks", prefill.plan_ms],
    ["attention", prefill.attention_ms], ["matrix products", prefill.matmul_ms]];
  const rest = run.timings.prompt_ms - spent.reduce((sum, part) => sum + part[1], 0);
  spent.push(["the rest", Math.max(0, rest)]);
  const all = spent.reduce((sum, part) => sum + part[1], 0) || 1;
  $("times").innerHTML = `<div class="bar">` +
    spent.map((part, i) => `<i style="width:${(100 * part[1]) / all}%;background:${color("time" + i)}"></i>`).join("") +
    `</div><div class="key"><span>Where the prompt's time went:</span>` +
    spent.map((part, i) => swatch("time" + i, `${part[0]} ${seconds(part[1])} (${percent(part[1] / all)})`))
      .join("") + "</div>";
}

function writeAnswer() {
  const { prompt: begin, answer, generated } = data.tokens;
  if (generated === 0) return;
  const text = (from, to) => escape(pieces.slice(from, to).join(""));
  const compressedBehind = data.run.kv.compressions > 0 && option("kv-gap", -1) >= answer;
  $("answer").innerHTML = `<b>Answer</b>${text(begin, begin + answer)}` + (answer < generated
    ? `<span class="behind">${text(begin + answer, begin + generated)}</span><b>Grey: went on behind the model's end ` +
      `token${compressedBehind ? " to reach the first compression" : ""}.</b>` : "");
}

function writeOptions() {
  const shown = (value) => (value === true ? "on" : value === false ? "off" : String(value));
  $("options").innerHTML = Object.entries(data.options)
    .map(([name, value]) => `<div><dt>${escape(name)}</dt><dd>${escape(shown(value))}</dd></div>`).join("");
}

// The position that most heads keep, the ends of the text apart.
function busiest() {
  const low = Math.floor(held / 10), middle = holders.slice(low, Math.max(low + 1, Math.floor(prompt * 0.9)));
  return low + middle.indexOf(middle.reduce((most, n) => Math.max(most, n), 0));
}

// ?head=2.1&at=5000&segment=7&metric=type choose what is shown first.
function readQuery() {
  const query = new URLSearchParams(location.search);
  const named = heads.findIndex((head) => head.name === "L" + query.get("head"));
  const first = planned.find((head) => lastType(head) === "diffuse") ?? planned[0];
  state.head = named >= 0 ? named : Math.max(0, heads.indexOf(first));
  state.position = Math.min(held - 1, Number(query.get("at") ?? busiest()));
  state.segment = Math.min(numSegments - 1, Number(query.get("segment") ?? -1));
  if (metrics[query.get("metric")]) state.metric = query.get("metric");
}

redraws.push(drawFacts);
readQuery();
writeAnswer();
writeOptions();
if (planned.length) {
  startHeads();
  startHead();
} else {
  $("heads-panel").innerHTML = "<h2>Dense attention</h2><p class=\"legend\">This method reads everything in every " +
    "layer: there are no blocks to choose.</p>";
  $("head-panel").remove();
}
startCache();
redraw();
window.addEventListener("resize", redraw);
new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
});
