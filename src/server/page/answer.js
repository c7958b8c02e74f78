// One answer: from the turns before it and the settings to a request, and from its events to text and figures.
import { leave, post } from "./stream.js";

// A text goes in front of the question, so that the next question begins alike and finds it read. It is sent once;
// questions name it.
function partsOf(turn) {
  return [...turn.files.map((file) => ({ type: "text", text_id: file.id })),
    ...(turn.text === "" ? [] : [{ type: "text", text: turn.text }])];
}

// The conversation as one side of a comparison saw it.
function messagesOf(turns, side) {
  return turns.map((turn) => turn.role === "user"
    ? { role: "user", content: partsOf(turn) }
    : { role: "assistant", content: turn.sides[Math.min(side, turn.sides.length - 1)].text });
}

// The same without a template: texts and answers by lines.
function promptOf(turns, side) {
  const parts = messagesOf(turns, side).flatMap((message) =>
    typeof message.content === "string" ? [message.content] : message.content.map((part) => part.text ?? part));
  return { prompt_parts: parts.flatMap((part, index) => index === 0 ? [part] : ["\n", part]) };
}

// Texts that the server has not got yet. Two answers side by side send a text once; what was sent for an answer that has
// been stopped will not arrive.
async function leaveTexts(turns, key, signal) {
  for (const file of turns.flatMap((turn) => turn.files ?? [])) {
    if (file.id) continue;
    if (!file.sending || file.sending.signal.aborted) {
      const sending = file.sending = { signal };
      sending.id = leave(file.text, key, signal).finally(() => { if (file.sending === sending) delete file.sending; });
    }
    file.id = await file.sending.id;
  }
}

function requestOf(turns, side, method, settings) {
  const body = { stream: true, return_progress: true, return_heads: true, timings_per_token: true,
    max_tokens: settings.length };
  if (settings.temperature !== null) body.temperature = settings.temperature;
  if (settings.choosesMethod) {
    body.method = method;
    if (settings.budget !== null && method !== "full") body.kv_budget = settings.budget;
  }
  if (settings.hasChat) return ["/v1/chat/completions", { ...body, messages: messagesOf(turns, side) }];
  return ["/completion", { ...body, prompt: promptOf(turns, side) }];
}

function pieceOf(event) {
  if (event.content !== undefined) return { text: event.content };
  const delta = event.choices?.[0]?.delta ?? {};
  return { text: delta.content ?? "", thought: delta.reasoning_content ?? "" };
}

// The events of the answer. A server that was started anew, or has given a text up, is sent it again.
async function* ask({ turns, index, side, settings, key, signal }, again = false) {
  await leaveTexts(turns, key, signal);
  const [path, body] = requestOf(turns, index, side.method, settings);
  try {
    yield* post(path, body, key, signal);
  } catch (error) {
    if (error.param !== "text_id" || again) throw error;
    for (const file of turns.flatMap((turn) => turn.files ?? [])) delete file.id;
    yield* ask({ turns, index, side, settings, key, signal }, true);
  }
}

// Fills `side` as the answer comes; `changed` is called after every event.
export async function run({ changed, ...asked }) {
  const { side } = asked;
  const began = performance.now();
  for await (const event of ask(asked)) {
    const piece = pieceOf(event);
    side.text += piece.text ?? "";
    side.thought += piece.thought ?? "";
    if (event.timings) side.timings = event.timings;
    if (event.prompt_progress) {
      side.progress = event.prompt_progress;
      if (event.prompt_progress.heads) addHeads(side, event.prompt_progress.heads);
    }
    if (side.first === null && (piece.text || piece.thought)) side.first = performance.now() - began;
    const reason = event.choices?.[0]?.finish_reason ?? (event.stop ? event.stop_type : null);
    if (reason === "length" || reason === "limit") side.note = "ended at the longest answer";
    changed();
  }
}

function addHeads(side, heads) {
  side.heads ??= { layers: heads.layers, kvHeads: heads.kv_heads, tokens: heads.segment_tokens, columns: [] };
  side.heads.columns.push(...heads.columns);
}

export function newSide(method) {
  return { method, text: "", thought: "", state: "running", first: null, note: "", progress: null, timings: null,
    heads: null };
}
