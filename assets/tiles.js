// The tiles of models follow the question: how many of each are free among what is asked for, whatever model it is.
//
// takes: on element state tally chart question
(() => {
  "use strict";
  const MOST_MARKS = 24;
  const { question, state, element } = gpumon;
  let isChanged = false;

  function mark(kind, number) {
    const made = gpumon.chart.svg("svg", { class: kind, width: 7 * number });
    return number ? [made] : [];
  }

  const asked = () => question.conditions().filter(({ name }) => name !== "model" && name !== "free");

  // Those to run on that meet what is asked.
  function fitting(model) {
    const conditions = asked();
    const gpus = state.hosts.flatMap((host) => question.matching(host, conditions) ?? []);
    const isSlice = state.hosts.some((host) => host.gpus.some((gpu) => gpu.isSlice && gpu.model === model));
    const own = gpus.filter((gpu) => gpu.isOffered && (isSlice ? gpu.model === model : question.isOf(gpu, model)));
    return isSlice ? own.length : gpumon.tally(own).gpus;
  }

  // The stock stays, whatever is asked for: 2 fit / 8.
  function show(tile) {
    const { model, free } = tile.dataset;
    const total = Number(tile.dataset.total);
    const number = isChanged ? fitting(model) : Number(free);
    const words = [element("b", {}, number), ...(isChanged ? [" fit "] : []), element("span", { className: "unit" }, `/${total}`)];
    tile.querySelector(".model-count").replaceChildren(...words);
    const after = total > MOST_MARKS
      ? element("span", { className: `bar u${Math.round((100 * number) / total)}` })
      : element("span", { className: "marks" }, ...mark("free", number), ...mark("rest", total - number));
    tile.lastElementChild.replaceWith(after);
    tile.classList.toggle("none", number === 0);
  }

  function update() {
    const tiles = document.querySelectorAll(".models [data-model]");
    for (const tile of tiles) tile.ariaPressed = String(tile.dataset.model === state.asked.model);
    const isAsked = asked().length > 0;
    // As the server counted, where nothing is asked.
    if (!isAsked && !isChanged) return;
    isChanged = isAsked;
    tiles.forEach(show);
  }

  gpumon.on("update", () => (isChanged = false));
  gpumon.on("filter", update);
})();
