// A button on every block of code: it copies what one would type, without prompts and without output.
const typed = (text) => {
  const lines = text.split("\n");
  const prompt = /^(>>>|\.\.\.|\$)( |$)/;
  if (!lines.some((line) => /^(>>>|\$) /.test(line))) return text.trimEnd();
  return lines.filter((line) => prompt.test(line)).map((line) => line.replace(prompt, "")).join("\n");
};

if (navigator.clipboard) {
  for (const pre of document.querySelectorAll(".bd-article .highlight > pre")) {
    if (pre.closest(".sphx-glr-script-out")) continue;
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.title = button.ariaLabel = "Copy";
    button.innerHTML = '<i class="fa-regular fa-copy"></i>';
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(typed(pre.textContent));
      button.title = button.ariaLabel = "Copied";
      button.innerHTML = '<i class="fa-solid fa-check"></i>';
      setTimeout(() => {
        button.title = button.ariaLabel = "Copy";
        button.innerHTML = '<i class="fa-regular fa-copy"></i>';
      }, 1500);
    });
    pre.after(button);
  }
}
