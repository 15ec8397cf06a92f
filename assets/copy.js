// Every button with data-copy puts that text on the clipboard, on plain http too, where browsers have no clipboard API.
//
// takes: element
(() => {
  "use strict";
  const SAID_MS = 1500;

  function copyByHand(text) {
    const area = gpumon.element("textarea", { value: text, className: "spoken", readOnly: true });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copyByHand(text);
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button || "label" in button.dataset) return;
    const label = [...button.childNodes];
    button.dataset.label = "";
    button.style.minWidth = `${button.offsetWidth}px`;
    button.textContent = (await copy(button.dataset.copy)) ? "copied" : "not copied";
    button.focus({ preventScroll: true });
    setTimeout(() => {
      button.replaceChildren(...label);
      delete button.dataset.label;
    }, SAID_MS);
  });
})();
