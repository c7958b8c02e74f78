// The page: what the reader does, and what happens then.
import { newSide, run } from "./answer.js";
import { fileBytes, fileLabel, refresh, render } from "./chat.js";
import { bytes, list, progressText } from "./figures.js";
import * as map from "./map.js";
import { get } from "./stream.js";

const byId = (id) => document.getElementById(id);
const kKept = "entropyinfer.turns", kTheme = "entropyinfer.theme", kKey = "entropyinfer.key";
const state = { turns: [], files: [], props: null, stopper: null };

// For a screen reader: beginnings and ends, not every token.
function say(text) { byId("said").textContent = text; }
function notice(text) { byId("notice").textContent = text; }

// ---- looks
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").setAttribute("aria-pressed", String(dark));
  map.draw();
}
function startTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = localStorage.getItem(kTheme);
  setTheme(chosen ? chosen === "dark" : system.matches);
  system.addEventListener("change", () => { if (!localStorage.getItem(kTheme)) setTheme(system.matches); });
  byId("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme !== "dark";
    localStorage.setItem(kTheme, dark ? "dark" : "light");
    setTheme(dark);
  });
}

// ---- what is kept when the page is loaded anew: the tab's own storage, never the server
function keep() {
  try {
    sessionStorage.setItem(kKept, JSON.stringify(state.turns, (name, value) => name === "sending" ? undefined : value));
  } catch {
    sessionStorage.removeItem(kKept);
    notice("This conversation is too long for the browser to keep: it will be gone when the page is loaded anew.");
  }
}
function restore() {
  try {
    state.turns = JSON.parse(sessionStorage.getItem(kKept) ?? "[]");
  } catch {
    state.turns = [];
  }
  for (const turn of state.turns)
    for (const side of turn.sides ?? [])
      if (side.state === "running") Object.assign(side, { state: "stopped", note: "stopped" });
}

// ---- the server and its methods
async function connect() {
  try {
    state.props = await get("/props", byId("key").value);
  } catch (error) {
    byId("key-field").hidden = error.status !== 401;
    notice(error.status === 401 ? "This server needs a key." : "No answer from the server: " + error.message);
    if (error.status === 503) setTimeout(connect, 1000);  // the model is being loaded
    return;
  }
  notice("");
  const { props } = state;
  byId("model").textContent = `${props.model_alias} · ${(props.default_generation_settings.n_ctx / 1024).toFixed(0)}k tokens`;
  const methods = props.request_methods ? props.methods : props.methods.filter((one) => one.name === props.method);
  byId("method").replaceChildren(...methods.map((one) => new Option(one.name, one.name)));
  byId("method").value = props.method;
  byId("method").disabled = byId("budget").disabled = byId("compare").disabled = !props.request_methods;
  describeMethod();
}
function describeMethod() {
  const chosen = state.props?.methods.find((one) => one.name === byId("method").value);
  byId("summary").textContent = chosen?.summary ?? "";
  byId("compare").disabled = byId("method").value === "full" || !state.props?.request_methods;
}
function numberOf(id) {
  const value = byId(id).valueAsNumber;
  return Number.isFinite(value) ? value : null;
}
function settings() {
  return { length: numberOf("length") ?? 512, temperature: numberOf("temperature"), budget: numberOf("budget"),
    choosesMethod: state.props?.request_methods, hasChat: state.props?.has_chat_template ?? true };
}

// ---- answers
function showLive(turn) {
  const side = turn.sides.find((one) => one.state === "running") ?? turn.sides.at(-1);
  const reading = side.state === "running" && side.progress && side.progress.processed < side.progress.total && side.text === "";
  byId("bar").hidden = !reading;
  if (reading) byId("bar").value = side.progress.processed / side.progress.total;
  byId("live").textContent = side.state !== "running" ? "Nothing is running."
    : reading ? progressText(side.progress) : side.progress ? "Writing …" : "Waiting …";
  byId("figures").replaceChildren(...list(side).map(([name, value]) => {
    const row = document.createElement("div");
    row.append(Object.assign(document.createElement("dt"), { textContent: name }),
      Object.assign(document.createElement("dd"), { textContent: value }));
    return row;
  }));
  const shown = turn.sides.find((one) => one.heads) ?? side;
  map.show(shown.heads, shown.timings?.heads);
}

function setRunning(running) {
  byId("send").disabled = running;
  byId("stop").hidden = !running;
}

async function answerSide(turn, index, stopper) {
  const side = turn.sides[index];
  const show = () => {
    if (state.stopper !== stopper) return;  // another answer was asked for meanwhile, and has the screen
    refresh(turn);
    showLive(turn);
  };
  let due = false;
  const changed = () => {  // a token may come every millisecond; a frame is soon enough to show it
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; show(); });
  };
  try {
    await run({ turns: state.turns.slice(0, -1), index, side, settings: settings(), key: byId("key").value,
      signal: stopper.signal, changed });
    side.state = "done";
  } catch (error) {
    const stopped = error.name === "AbortError";
    Object.assign(side, { state: stopped ? "stopped" : "failed", note: stopped ? "stopped" : error.message });
    if (error.status === 401) connect();
  }
  show();
}

// Behind the last turn, which is the reader's.
async function answer() {
  const method = byId("method").value || "full";
  const both = byId("compare").checked && method !== "full";
  const turn = { role: "assistant", sides: (both ? ["full", method] : [method]).map(newSide) };
  state.turns.push(turn);
  keep();
  render(state.turns, actions);
  const stopper = state.stopper = new AbortController();
  setRunning(true);
  say("The prompt is being read.");
  showLive(turn);
  await Promise.all(turn.sides.map((_, index) => answerSide(turn, index, stopper)));
  if (state.stopper !== stopper) return;
  setRunning(false);
  say(turn.sides.map((side) => `${both ? side.method + ": " : ""}${side.text || side.note}`).join("\n"));
  keep();
}

const actions = {
  edit(index, text) {
    if (state.stopper) state.stopper.abort();
    const turn = state.turns[index];
    state.turns = [...state.turns.slice(0, index), { ...turn, text }];
    answer();
  },
  retry(index) {
    if (state.stopper) state.stopper.abort();
    state.turns = state.turns.slice(0, index);
    answer();
  },
};

// ---- texts
function showFiles() {
  byId("files").replaceChildren(...state.files.map((file, index) => {
    const item = document.createElement("li");
    const remove = Object.assign(document.createElement("button"), { type: "button", textContent: "×" });
    remove.setAttribute("aria-label", "Leave out " + file.name);
    remove.addEventListener("click", () => { state.files.splice(index, 1); showFiles(); });
    item.append(fileLabel(file) + " ", remove);
    return item;
  }));
  byId("size").textContent = state.files.length ? bytes(state.files.reduce((sum, file) => sum + fileBytes(file), 0)) : "";
}
async function addFiles(files) {
  for (const file of files) {
    const text = await file.text();
    if (text.includes("\0")) notice(`${file.name} is not a text.`);
    else state.files.push({ name: file.name, text });
  }
  showFiles();
}
function startDropping() {
  const body = document.body;
  body.addEventListener("dragover", (event) => { event.preventDefault(); body.classList.add("dropping"); });
  body.addEventListener("dragleave", () => body.classList.remove("dropping"));
  body.addEventListener("drop", (event) => {
    event.preventDefault();
    body.classList.remove("dropping");
    const text = event.dataTransfer.getData("text/plain");
    if (event.dataTransfer.files.length) addFiles(event.dataTransfer.files);
    else if (text) addFiles([new File([text], "dropped text")]);
  });
  byId("add").addEventListener("click", () => byId("pick").click());
  byId("pick").addEventListener("change", () => { addFiles([...byId("pick").files]); byId("pick").value = ""; });
}

// ---- start
function startAsking() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = byId("question").value.trim();
    if ((text === "" && state.files.length === 0) || byId("send").disabled) return;
    notice("");
    state.turns.push({ role: "user", text, files: state.files });
    state.files = [];
    byId("question").value = "";
    showFiles();
    answer();
  });
  byId("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      byId("ask").requestSubmit();
    }
  });
  byId("stop").addEventListener("click", () => { state.stopper?.abort(); byId("question").focus(); });
  document.addEventListener("keydown", (event) => {
    const edits = event.target.tagName === "TEXTAREA" && event.target !== byId("question");  // Escape ends that
    if (event.key === "Escape" && !event.isComposing && !byId("stop").hidden && !edits) state.stopper.abort();
  });
  byId("clear").addEventListener("click", () => {
    state.stopper?.abort();
    state.turns = [];
    keep();
    render(state.turns, actions);
    map.show(null, null);
    byId("question").focus();
  });
  byId("method").addEventListener("change", describeMethod);
  byId("key").value = sessionStorage.getItem(kKey) ?? "";
  byId("key").addEventListener("change", () => { sessionStorage.setItem(kKey, byId("key").value); connect(); });
}

startTheme();
startAsking();
startDropping();
restore();
render(state.turns, actions);
if (state.turns.at(-1)?.sides) showLive(state.turns.at(-1));
connect();
byId("question").focus();
