// One answer: from the turns before it and the settings to a request, and from its events to text and figures.
import { post } from "./stream.js";

// A text goes in front of the question, so that the next question begins alike and finds it read.
function contentOf(turn) {
  return [...turn.files.map((file) => file.text), turn.text].filter((part) => part !== "").join("\n\n");
}

// The conversation as one side of a comparison saw it.
function messagesOf(turns, side) {
  return turns.map((turn) => turn.role === "user"
    ? { role: "user", content: contentOf(turn) }
    : { role: "assistant", content: turn.sides[Math.min(side, turn.sides.length - 1)].text });
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
  const prompt = messagesOf(turns, side).map((message) => message.content).join("\n");
  return ["/completion", { ...body, prompt }];
}

function pieceOf(event) {
  if (event.content !== undefined) return { text: event.content };
  const delta = event.choices?.[0]?.delta ?? {};
  return { text: delta.content ?? "", thought: delta.reasoning_content ?? "" };
}

// Fills `side` as the answer comes; `changed` is called after every event.
export async function run({ turns, index, side, settings, key, signal, changed }) {
  const [path, body] = requestOf(turns, index, side.method, settings);
  const began = performance.now();
  for await (const event of post(path, body, key, signal)) {
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
