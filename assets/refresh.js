// Asks for the page again every so many seconds, but never while nobody looks or while a tooltip is being read.
(() => {
  "use strict";
  const seconds = Number(document.body.dataset.refresh);
  if (!seconds) return;
  const due = Date.now() + seconds * 1000;

  function reload() {
    if (Date.now() < due || document.hidden || document.querySelector(".card.open")) return;
    location.reload();
  }

  setInterval(reload, 1000);
  document.addEventListener("visibilitychange", reload);
})();
