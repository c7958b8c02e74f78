// The conversation on the screen: turns, their sides, and what can be done with them.
import { bytes, effects } from "./figures.js";

const log = document.getElementById("turns");
const empty = document.getElementById("empty");

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function button(label, action) {
  const made = element("button", "", label);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}

export function fileBytes(file) {
  return new Blob([file.text]).size;
}

export function fileLabel(file) {
  return `${file.name}, ${bytes(fileBytes(file))}`;
}

function userTurn(turn, index, actions) {
  const article = element("article", "turn user");
  article.setAttribute("aria-label", "You");
  for (const file of turn.files) article.append(element("span", "attached", fileLabel(file)));
  const text = element("div", "text", turn.text);
  const row = element("div", "actions");
  row.append(button("Edit", () => editTurn(article, turn, (changed) => actions.edit(index, changed))));
  article.append(text, row);
  return article;
}

// In place: the question becomes a field, and what follows it is asked anew.
function editTurn(article, turn, done) {
  const field = element("textarea");
  field.value = turn.text;
  field.rows = 3;
  field.setAttribute("aria-label", "The question, changed");
  const row = element("div", "actions");
  const cancel = () => actionsBack();
  const text = article.querySelector(".text");
  const old = article.querySelector(".actions");
  const actionsBack = () => {
    field.replaceWith(text);
    row.replaceWith(old);
    old.querySelector("button").focus();
  };
  row.append(button("Ask again", () => done(field.value)), button("Cancel", cancel));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") cancel();
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      done(field.value);
    }
  });
  text.replaceWith(field);
  old.replaceWith(row);
  field.focus();
}

function fillSide(box, side) {
  box.className = "side " + side.state;
  box.querySelector(".text").textContent = side.text;
  const thought = box.querySelector(".thought");
  thought.hidden = side.thought === "";
  thought.textContent = side.thought;
  const line = box.querySelector(".effects");
  line.textContent = side.state === "running" ? "" : effects(side);
  line.classList.toggle("failed", side.state === "failed");
}

function answerTurn(turn, index, last, actions) {
  const article = element("article", "turn assistant");
  article.setAttribute("aria-label", "Answer");
  const sides = element("div", "sides");
  for (const side of turn.sides) {
    const box = element("div", "side");
    box.append(element("h3", "", side.method), element("div", "thought"), element("div", "text"),
      element("p", "effects"));
    fillSide(box, side);
    sides.append(box);
  }
  article.append(sides);
  if (last) {
    const row = element("div", "actions");
    row.append(button("Retry", () => actions.retry(index)));
    article.append(row);
  }
  return article;
}

export function render(turns, actions) {
  empty.hidden = turns.length > 0;
  log.replaceChildren(...turns.map((turn, index) => turn.role === "user"
    ? userTurn(turn, index, actions)
    : answerTurn(turn, index, index === turns.length - 1, actions)));
  log.scrollTop = log.scrollHeight;
}

// The last turn alone, while it is written: the reader's place is kept unless it is the end.
export function refresh(turn) {
  const boxes = log.lastElementChild?.querySelectorAll(".side") ?? [];
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  turn.sides.forEach((side, i) => boxes[i] && fillSide(boxes[i], side));
  if (atEnd) log.scrollTop = log.scrollHeight;
}
