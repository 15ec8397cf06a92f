// The table of Supply: one of its periods at a time, with the worst hours in the reader's zone.
//
// takes: on params clock
(() => {
  "use strict";
  const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
  const asked = () => gpumon.params.get("supply") || "30d";
  let chosen = asked();

  // The hours come in the collector's zone.
  function hour(number, shift) {
    const there = (((number + shift) % 168) + 168) % 168;
    return `${DAYS[Math.floor(there / 24)]} ${there % 24} h`;
  }

  function show() {
    const section = document.querySelector(".supply[data-offset]");
    if (!section) return;
    const tables = [...section.querySelectorAll(".supply-range")];
    if (!tables.some((table) => table.dataset.range === chosen)) chosen = tables.at(-1)?.dataset.range;
    for (const table of tables) table.hidden = table.dataset.range !== chosen;
    for (const input of section.querySelectorAll("[name=supply-range]")) input.checked = input.value === chosen;
    for (const details of section.querySelectorAll("details")) details.open = unfolded.has(keyOf(details));
    const made = gpumon.clock.made();
    const shift = Math.round((-made.getTimezoneOffset() - Number(section.dataset.offset)) / 60);
    for (const cell of section.querySelectorAll("[data-hour]")) cell.textContent = hour(Number(cell.dataset.hour), shift);
    const zone = section.querySelector(".zone-of-week");
    if (zone) zone.textContent = "your time zone";
  }

  // What is unfolded stays so after a refresh.
  const unfolded = new Set();
  const keyOf = (details) => details.closest("[data-row]")?.dataset.row;
  document.addEventListener("toggle", ({ target }) => {
    if (!target.closest?.(".supply") || !keyOf(target)) return;
    target.open ? unfolded.add(keyOf(target)) : unfolded.delete(keyOf(target));
  }, true);

  document.addEventListener("input", (event) => {
    if (event.target.name !== "supply-range") return;
    chosen = event.target.value;
    gpumon.params.set({ supply: chosen === "30d" ? "" : chosen });
    show();
  });
  addEventListener("popstate", () => {
    chosen = asked();
    show();
  });
  gpumon.on("update", show);
  show();
})();
