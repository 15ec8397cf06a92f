// Light, dark or as the system has it; the choice sticks.
//
// takes: memory
(() => {
  "use strict";
  const THEMES = ["", "light", "dark"];
  const root = document.documentElement;
  const button = document.getElementById("theme");

  function show() {
    const name = root.dataset.theme || "system";
    button.querySelector(".now").textContent = name;
    button.title = `Theme: ${name}`;
  }

  button?.addEventListener("click", () => {
    const theme = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length];
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    gpumon.memory.set("theme", theme);
    show();
  });
  if (button) show();
})();
