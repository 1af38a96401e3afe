"use strict";

// The page shows a question only after the answer to the one before it is stored. An answer that
// cannot be sent is sent again, with the id of its question, which is stored once.

const address = location.pathname.replace(/\/$/, "");
const find = (id) => document.getElementById(id);
const state = { kind: "triplets", queue: [], last: null, answered: 0, busy: true, since: 0, turn: 0 };
const WORDS = {
  triplets: { title: "Which is more like this one?", left: "left", right: "right" },
  pairs: { title: "Are these two the same?", left: "different", right: "same" },
};
const LONGEST_PAUSE = 5000;

function element(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function picture(object) {
  const image = new Image();
  image.addEventListener("load", () => {
    image.style.setProperty("--ratio", image.naturalWidth / image.naturalHeight);
  });
  image.src = `${address}/picture/${object.number}`;
  image.alt = object.name;
  return image;
}

function fill(place, object) {
  const parts = [];
  if (object.picture) {
    parts.push(element("span", undefined, "picture"));
    parts[0].append(picture(object));
  }
  if (object.text !== undefined) parts.push(element("span", object.text, "text"));
  if (object.card) {
    const table = element("table", undefined, "card");
    for (const [column, value] of object.card) {
      const row = table.insertRow();
      row.append(element("th", column), element("td", value));
    }
    parts.push(table);
  }
  if (!object.picture && object.text === undefined) parts.unshift(element("span", object.name, "name"));
  place.replaceChildren(...parts);
  return place;
}

function describe(object) {
  return object.text !== undefined ? object.text : object.name;
}

function show() {
  const question = state.queue[0];
  document.body.classList.toggle("pairs", state.kind === "pairs");
  find("title").textContent = WORDS[state.kind].title;
  const pairs = state.kind === "pairs";
  const above = question.objects.slice(0, pairs ? 2 : 1);
  find("anchor").replaceChildren(...above.map((object) => fill(element("div", undefined, "object"), object)));
  for (const [n, side] of ["left", "right"].entries()) {
    const button = find(side);
    const place = button.querySelector(".object");
    button.classList.remove("picked");
    if (pairs) {
      place.textContent = n ? "Same" : "Different";
    } else {
      fill(place, question.objects[1 + n]);
      button.setAttribute("aria-label", `${n ? "Right" : "Left"}: ${describe(question.objects[1 + n])}`);
    }
  }
  find("announcement").textContent = question.objects.map(describe).join(". ");
  for (const object of state.queue[1] ? state.queue[1].objects : []) {
    if (object.picture) picture(object);
  }
  state.since = performance.now();
  busy(false);
}

function countOf(own, all) {
  const line = `${all} ${all === 1 ? "answer" : "answers"} so far`;
  return own < all ? `${line}, ${own} of them yours.` : `${line}.`;
}

function busy(is) {
  state.busy = is;
  for (const id of ["left", "right", "unsure"]) find(id).disabled = is;
  find("undo").disabled = is || state.last === null;
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

async function send(path, document) {
  for (let wait = 250; ; wait = Math.min(2 * wait, LONGEST_PAUSE)) {
    try {
      const options = document && {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(document),
      };
      const response = await fetch(`${address}/${path}`, { cache: "no-store", ...options });
      const found = await response.json();
      if (response.ok) {
        find("problem").textContent = "";
        return found;
      }
      if (response.status < 500) {
        find("problem").textContent = found.error;
        return null;
      }
    } catch (error) {
      // The server does not answer: it may be starting again.
    }
    find("problem").textContent = "Not saved yet. Trying again…";
    await pause(wait);
  }
}

async function load() {
  const turn = state.turn;
  const found = await send("questions");
  // What was asked for before the last answer is out of date; the answer asks again.
  if (found === null || turn !== state.turn) return;
  state.kind = found.kind;
  state.last = found.last;
  state.answered = found.answered;
  const shown = state.queue[0];
  state.queue = found.questions;
  const { results } = found;
  find("count").textContent = countOf(found.answered, results ? results.answers : found.answered);
  find("progress").textContent = results ? results.progress : "";
  find("results").hidden = !results;
  if (results) find("results").href = results.address;
  if (!shown || shown.id !== state.queue[0].id) show();
  else busy(false);
}

async function answer(side) {
  if (state.busy) return;
  const question = state.queue[0];
  const seconds = (performance.now() - state.since) / 1000;
  const given = side === "unsure" ? "unsure" : WORDS[state.kind][side];
  state.turn += 1;
  busy(true);
  if (side !== "unsure") find(side).classList.add("picked");
  const stored = await send("answer", { question: question.id, answer: given, seconds });
  if (stored === null) {
    state.queue = [];
    await load();
    return;
  }
  state.last = question.id;
  state.queue.shift();
  if (state.queue.length) show();
  await load();
}

async function undo() {
  if (state.busy || state.last === null) return;
  state.turn += 1;
  busy(true);
  await send("undo", { question: state.last });
  state.queue = [];
  await load();
}

for (const side of ["left", "right", "unsure"]) find(side).addEventListener("click", () => answer(side));
find("undo").addEventListener("click", undo);
document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
  const action = { ArrowLeft: "left", ArrowRight: "right", " ": "unsure" }[event.key];
  if (action) {
    event.preventDefault();
    answer(action);
  } else if (event.key === "u" || event.key === "U") {
    undo();
  }
});
// Space must not also press the button that has the focus.
document.addEventListener("keyup", (event) => {
  if (event.key === " ") event.preventDefault();
});
window.addEventListener("pageshow", (event) => {
  if (event.persisted) {
    state.queue = [];
    load();
  }
});
load();
