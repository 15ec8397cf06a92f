// The users' table: sortable by each column; me is marked.
(() => {
  "use strict";
  let order = null;

  function value(row, { column, isNumber }) {
    const cell = row.cells[column];
    return isNumber ? Number(cell.dataset.value ?? cell.textContent) : cell.textContent;
  }

  function sort(table) {
    const rows = [...table.tBodies[0].rows];
    rows.sort((one, two) => {
      const [a, b] = [value(one, order), value(two, order)];
      return order.sign * (order.isNumber ? a - b : gpumon.byName(a, b));
    });
    table.tBodies[0].append(...rows);
  }

  function start() {
    const table = document.querySelector(".people table");
    if (!table) return;
    gpumon.sorting.prepare(table);
    if (!order) return;
    const heads = table.tHead.rows[0].cells;
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[order.column].ariaSort = order.sign < 0 ? "descending" : "ascending";
    sort(table);
  }

  document.addEventListener("click", (event) => {
    const head = event.target.closest(".people thead th");
    if (!head) return;
    order = gpumon.sorting.choose(head);
    sort(head.closest("table"));
  });
  gpumon.on("update", start);
  start();
})();
