// What an answer cost and lost, in words.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const count = (value) => whole.format(value);
export const percent = (value) => (value * 100).toFixed(value < 0.1 ? 1 : 0) + " %";
const rate = (value) => (value < 100 ? value.toFixed(1) : count(value)) + " tokens/s";
const seconds = (ms) => (ms < 9950 ? (ms / 1000).toFixed(1) : count(ms / 1000)) + " s";

export function bytes(value) {
  if (value < 1 << 20) return count(value / 1024) + " KiB";
  return (value / (1 << 20)).toFixed(1) + " MiB";
}

export function progressText(progress) {
  const read = progress.processed - progress.cache;
  if (read <= 0) return `Reading ${count(progress.total)} tokens …`;
  const pace = read / (progress.time_ms / 1000);
  const left = (progress.total - progress.processed) / pace * 1000;
  return `Reading: ${count(progress.processed)} of ${count(progress.total)} tokens, ${rate(pace)}, ${seconds(left)} left`;
}

export function list(side) {
  const t = side.timings;
  if (!t) return [];
  const rows = [["Prompt", `${count(t.prompt_n)} read, ${count(t.cache_n)} held before`]];
  if (t.prompt_n > 0 && t.prompt_per_second > 0) rows.push(["Reading", rate(t.prompt_per_second)]);
  if (side.first !== null) rows.push(["First token", seconds(side.first)]);
  rows.push(["Writing", t.predicted_per_second > 0 ? rate(t.predicted_per_second) : "–"]);
  rows.push(["Attention computed", percent(t.density)]);
  rows.push(["Tokens kept", `${count(t.kv_tokens_kept)} of ${count(t.kv_tokens_total)}`]);
  rows.push(["Cache", bytes(t.kv_bytes)]);
  rows.push(["Compressions", count(t.compressions)]);
  return rows;
}

export function effects(side) {
  const t = side.timings;
  if (!t) return side.note;
  const parts = [`${count(t.predicted_n)} tokens`];
  if (t.predicted_per_second > 0) parts.push(rate(t.predicted_per_second));
  if (side.first !== null) parts.push(`first after ${seconds(side.first)}`);
  if (t.cache_n > 0) parts.push(`${count(t.cache_n)} tokens were held`);
  if (t.density < 0.9995) parts.push(`${percent(t.density)} of the attention`);
  if (t.compressions > 0) parts.push(`kept ${count(t.kv_tokens_kept)} of ${count(t.kv_tokens_total)} tokens`);
  if (side.note) parts.push(side.note);
  return parts.join(" · ");
}
