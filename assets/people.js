// The tables of users and of GPU hours: sortable by each column, also after a refresh.
(() => {
  "use strict";
  const TABLES = ".people table, [data-live=usage] table";
  const orders = new Map();
  const keyOf = (table) => table.closest("[data-live]")?.dataset.live;

  function value(row, { column, isNumber }) {
    const cell = row.cells[column];
    return isNumber ? Number.parseFloat(cell.dataset.value ?? cell.textContent) : cell.textContent;
  }

  function sort(table, order) {
    const rows = [...table.tBodies[0].rows];
    rows.sort((one, two) => {
      const [a, b] = [value(one, order), value(two, order)];
      // A dash is no number: what is not known comes last, whatever the direction.
      if (order.isNumber && (Number.isNaN(a) || Number.isNaN(b))) return Number.isNaN(a) - Number.isNaN(b);
      return order.sign * (order.isNumber ? a - b : gpumon.byName(a, b));
    });
    table.tBodies[0].append(...rows);
  }

  function start() {
    for (const table of document.querySelectorAll(TABLES)) {
      gpumon.sorting.prepare(table);
      const order = orders.get(keyOf(table));
      if (!order) continue;
      const heads = table.tHead.rows[0].cells;
      for (const head of heads) head.removeAttribute("aria-sort");
      heads[order.column].ariaSort = order.sign < 0 ? "descending" : "ascending";
      sort(table, order);
    }
  }

  document.addEventListener("click", (event) => {
    const head = event.target.closest("thead th");
    const table = head?.closest("table");
    if (!table?.matches(TABLES)) return;
    orders.set(keyOf(table), gpumon.sorting.choose(head));
    sort(table, orders.get(keyOf(table)));
  });
  gpumon.on("update", start);
  start();
})();
