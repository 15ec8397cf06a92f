// ?kiosk: what does not fit on the screen is shown one screen after the other.
(() => {
  "use strict";
  if (!document.documentElement.classList.contains("kiosk")) return;
  const STAY_MS = 15000;

  setInterval(() => {
    const root = document.documentElement;
    const isEnd = scrollY + innerHeight >= root.scrollHeight - 4;
    scrollTo({ top: isEnd ? 0 : scrollY + innerHeight * 0.9, behavior: "instant" });
  }, STAY_MS);
})();
