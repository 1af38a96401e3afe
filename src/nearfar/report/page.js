"use strict";

// A button to copy each block of code. Without permission, the code is selected instead.
for (const block of document.querySelectorAll("pre")) {
  const code = block.querySelector("code");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  const say = (text) => {
    button.textContent = text;
    setTimeout(() => { button.textContent = "Copy"; }, 3000);
  };
  const select = () => {
    getSelection().selectAllChildren(code);
    let copied = false;
    try { copied = document.execCommand("copy"); } catch (error) { copied = false; }
    say(copied ? "Copied" : "Selected: press Ctrl+C");
  };
  button.addEventListener("click", () => {
    if (!navigator.clipboard) { select(); return; }
    navigator.clipboard.writeText(code.textContent).then(() => say("Copied"), select);
  });
  block.prepend(button);
}

// Labels on points have an outline in the colour of the page.
for (const label of document.querySelectorAll("svg .label")) {
  label.style.paintOrder = "stroke";
  label.classList.add("halo");
}

// The class under the pointer, or under a finger, is named below the figure, and others fade.
for (const figure of document.querySelectorAll("figure")) {
  const output = figure.querySelector("output");
  if (!output) continue;
  figure.addEventListener("pointerover", (event) => {
    const group = event.target.closest(".hover");
    for (const other of figure.querySelectorAll(".hover")) {
      other.classList.toggle("faded", group !== null && other !== group);
    }
    output.textContent = group ? group.querySelector("title").textContent : "";
  });
}
