// The title of the window: how many are free on Now, else the name of the tab or of what is open. Stale data was free then.
//
// takes: on state clock
// gives: title
(() => {
  "use strict";
  const { state } = gpumon;
  state.title = document.title; // of Now, as the page came

  function show() {
    const { title, wasTitle } = document.body.dataset;
    const ofNow = gpumon.clock.stale() ? wasTitle : state.title;
    const text = state.heading ? `${state.heading} – ${title}` : ofNow;
    document.querySelector("link[rel=icon]")?.setAttribute("href", document.body.dataset.icon);
    document.title = (state.freed ? `(+${state.freed}) ` : "") + text;
  }

  gpumon.title = { show };
  gpumon.on("place", show);
  gpumon.on("update", show);
  gpumon.on("age", show);
})();
