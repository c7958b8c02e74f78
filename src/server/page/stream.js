// What the page says to the server: JSON there, JSON or server-sent events back.

export class ServerError extends Error {
  constructor(status, message, param) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

function headers(key) {
  const all = { "Content-Type": "application/json" };
  if (key) all.Authorization = "Bearer " + key;
  return all;
}

async function check(response) {
  if (response.ok) return response;
  let error = { message: "the server answered " + response.status };
  try {
    error = (await response.json()).error;
  } catch { /* an answer of somebody between us */ }
  throw new ServerError(response.status, error.message, error.param);
}

export async function get(path, key) {
  return (await check(await fetch(path, { headers: headers(key) }))).json();
}

// A text that requests will name.
export async function leave(text, key, signal) {
  const sent = await fetch("/texts", { method: "POST", headers: { ...headers(key), "Content-Type": "text/plain" }, body: text,
    signal });
  return (await (await check(sent)).json()).id;
}

// Events end with an empty line; comments (keep-alive) begin with a colon.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      for (const line of part.split("\n")) {
        if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
      }
    }
  }
}

// Each event of the answer, until it ends or `signal` stops it.
export async function* post(path, body, key, signal) {
  const response = await check(
    await fetch(path, { method: "POST", headers: headers(key), body: JSON.stringify(body), signal }));
  for await (const event of events(response.body)) {
    if (event.error) throw new ServerError(event.error.code, event.error.message);
    yield event;
  }
}
