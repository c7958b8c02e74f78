// Colours of the theme, canvases, axes, the tip.
const $ = (id) => document.getElementById(id);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// share 0..1 -> [r, g, b]
function makeRamp() {
  const stops = [0, 1, 2, 3, 4].map((i) => channels(color("ramp" + i)));
  const table = [];
  for (let i = 0; i <= 255; ++i) {
    const at = (i / 255) * 4, low = Math.min(3, Math.floor(at)), t = at - low;
    table.push(stops[low].map((c, j) => Math.round(c + (stops[low + 1][j] - c) * t)));
  }
  return (share) => table[Math.round(255 * Math.min(1, Math.max(0, share)))];
}
const css = (rgb) => `rgb(${rgb[0]} ${rgb[1]} ${rgb[2]})`;

// A cleared canvas of the page's width, in css pixels.
function open(canvas, height) {
  const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  return { context, width, height };
}

// Whole steps that cut `most` into at most `parts`.
function niceStep(most, parts) {
  const raw = Math.max(most, 1e-12) / parts, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 2.5, 5, 10].find((m) => m * power >= raw * 0.999);
}
const tokenLabel = (n) => (n >= 10000 ? n / 1000 + "k" : n.toLocaleString("en"));

// Token positions [0, most) along the bottom.
function tokenAxis(context, { left, right, y, most }) {
  context.fillStyle = color("muted");
  context.textBaseline = "top";
  const step = Math.max(1, niceStep(most, (right - left) / 90));
  for (let at = 0; at <= most; at += step) {
    const x = left + ((right - left) * at) / most;
    context.textAlign = at === 0 ? "left" : x > right - 20 ? "right" : "center";
    context.fillRect(Math.min(x, right - 1), y, 1, 4);
    context.fillText(tokenLabel(at), x, y + 6);
  }
}

function showTip(event, html) {
  const tip = $("tip");
  tip.innerHTML = html;
  tip.style.display = "block";
  const x = event.clientX + 16, y = event.clientY + 16;
  tip.style.left = Math.max(4, Math.min(x, window.innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (y + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 12 : y) + "px";
}
const hideTip = () => { $("tip").style.display = "none"; };
const escape = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const swatch = (name, label) => `<span><i style="background:${color(name)}"></i>${label}</span>`;
const rampKey = (low, high, note) => {
  const stops = [0, 1, 2, 3, 4].map((i) => color("ramp" + i)).join(",");
  return `<span>${low}<i class="ramp" style="background:linear-gradient(90deg,${stops})"></i>${high}</span>` +
    (note ? `<span>${note}</span>` : "");
};

// What everybody looks at.
const state = { metric: "entropy", head: 0, segment: -1, position: 0 };
const redraws = [];
const redraw = () => redraws.forEach((draw) => draw());
