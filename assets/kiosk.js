// ?kiosk: what does not fit on the screen is shown one screen after the other, each with whole rows of hosts.
(() => {
  "use strict";
  if (!document.documentElement.classList.contains("kiosk")) return;
  const STAY_MS = 15000;
  const EDGE = 8;
  const rows = () => [...document.querySelectorAll("#hosts > .host:not([hidden])")].map((host) => ({ host, box: host.getBoundingClientRect() }));
  const isCut = ({ box }) => box.bottom > innerHeight + 1 && box.top > EDGE + 1;

  // A row that is cut comes whole on another screen; only one that is taller than the screen is shown in parts.
  function settle() {
    for (const row of rows()) {
      const { host, box } = row;
      const isOver = box.top < -1 && box.height <= innerHeight - EDGE;
      host.style.visibility = isCut(row) || isOver ? "hidden" : "";
    }
  }

  // The first row that is not seen whole; from the end back to the top.
  function next() {
    const cut = rows().find(isCut);
    const tall = rows().find(({ box }) => box.top <= EDGE + 1 && box.bottom > innerHeight + 1);
    if (tall) return scrollY + innerHeight / 2;
    return cut ? scrollY + cut.box.top - EDGE : 0;
  }

  function turn() {
    const isEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 4;
    scrollTo({ top: isEnd ? 0 : next(), behavior: "instant" });
    settle();
  }

  setInterval(turn, STAY_MS);
  addEventListener("resize", settle);
  addEventListener("load", settle);
  gpumon.on("filter", settle);
  gpumon.on("update", settle);
  gpumon.kiosk = { turn };
})();
