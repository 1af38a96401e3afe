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

// What is under the pointer, or under a finger, is named below the figure. Points of the same class
// in the figures beside it stay, and others fade.
for (const figures of document.querySelectorAll(".figures")) {
  const points = figures.querySelectorAll(".hover");
  if (!points.length) continue;
  const several = new Set([...points].map((point) => point.dataset.group)).size > 1;
  figures.addEventListener("pointerover", (event) => {
    const point = event.target.closest(".hover");
    for (const other of several ? points : []) {
      const fades = point !== null && other.dataset.group !== point.dataset.group;
      other.classList.toggle("faded", fades);
    }
    const figure = event.target.closest("figure");
    for (const output of figures.querySelectorAll("output")) {
      const here = point !== null && figure.contains(output);
      output.textContent = here ? point.querySelector("title").textContent : "";
    }
  });
}
