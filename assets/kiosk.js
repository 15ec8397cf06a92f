// ?kiosk: what does not fit on the screen is shown one screen after the other, each beginning with a whole row of hosts.
(() => {
  "use strict";
  if (!document.documentElement.classList.contains("kiosk")) return;
  const STAY_MS = 15000;

  // The first row that is not seen whole; from the end back to the top.
  function next() {
    const rows = [...document.querySelectorAll("#hosts > .host:not([hidden])")].map((host) => host.getBoundingClientRect());
    const cut = rows.find((row) => row.bottom > innerHeight + 1 && row.top > 1);
    return cut ? scrollY + cut.top - 8 : 0;
  }

  setInterval(() => {
    const isEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 4;
    scrollTo({ top: isEnd ? 0 : next(), behavior: "instant" });
  }, STAY_MS);
})();
