// The tiles of models follow the question: how many of each are free among what is asked for, whatever model it is.
(() => {
  "use strict";
  const MOST_MARKS = 24;
  const { question, element } = gpumon;
  let isChanged = false;

  function mark(kind, number) {
    const made = gpumon.chart.svg("svg", { class: kind, width: 7 * number });
    return number ? [made] : [];
  }

  function counted(model) {
    const asked = question.conditions().filter(({ name }) => name !== "model" && name !== "free");
    const gpus = gpumon.hosts.flatMap((host) => question.matching(host, asked) ?? []);
    const isSlice = gpumon.hosts.some((host) => host.gpus.some((gpu) => gpu.isSlice && gpu.model === model));
    const own = gpus.filter((gpu) => (isSlice ? gpu.model === model : question.isOf(gpu, model)));
    const number = (list) => (isSlice ? list.length : gpumon.tally(list).gpus);
    return [number(own.filter((gpu) => gpu.kind === "free")), number(own)];
  }

  function show(tile) {
    const [free, total] = counted(tile.dataset.model);
    tile.querySelector(".model-count").replaceChildren(element("b", {}, free), element("span", { className: "unit" }, `/${total}`));
    const before = tile.lastElementChild;
    const after = total > MOST_MARKS
      ? element("span", { className: `bar u${Math.round((100 * free) / total)}` })
      : element("span", { className: "marks" }, ...mark("free", free), ...mark("rest", total - free));
    before.replaceWith(after);
    tile.classList.toggle("none", total === 0);
  }

  function update() {
    const asked = question.conditions().filter(({ name }) => name !== "model" && name !== "free");
    const tiles = document.querySelectorAll(".models [data-model]");
    for (const tile of tiles) tile.ariaPressed = String(tile.dataset.model === question.state.model);
    // As the server counted, where nothing is asked.
    if (!asked.length && !isChanged) return;
    isChanged = asked.length > 0;
    tiles.forEach(show);
  }

  gpumon.on("update", () => (isChanged = false));
  gpumon.on("filter", update);
  update();
})();
