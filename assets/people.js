// The tables of users and of GPU hours: sortable by each column, also after a refresh. One's own row is the first.
//
// takes: on byName state sorting
(() => {
  "use strict";
  const TABLES = ".people table, [data-live=usage] table";
  const orders = new Map();
  let showsAll = false;
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
    putOwnFirst(table);
  }

  // The shown name behind "I am", which is a login.
  function ownName() {
    const me = gpumon.state.me.toLowerCase();
    const own = me && gpumon.state.hosts.flatMap((host) => host.gpus).find((gpu) => gpu.names.length === 1 && gpu.logins.includes(me));
    return own ? own.names[0].toLowerCase() : me;
  }

  function putOwnFirst(table) {
    const name = ownName();
    for (const row of table.tBodies[0].rows) row.classList.toggle("mine", name !== "" && row.cells[0].textContent.trim().toLowerCase() === name);
    const own = table.querySelector("tr.mine");
    if (own) table.tBodies[0].prepend(own);
  }

  // Rows beyond the first are in a template: they cost no layout until they are asked for.
  function unfold() {
    const rest = document.getElementById("people-rest");
    if (!rest) return;
    showsAll = true;
    document.querySelector(".people tbody").append(...rest.content.querySelectorAll("tr"));
    rest.remove();
    document.getElementById("more-people").closest("p").remove();
  }

  function start() {
    if (showsAll) unfold();
    for (const table of document.querySelectorAll(TABLES)) {
      gpumon.sorting.prepare(table);
      const order = orders.get(keyOf(table));
      if (!order) {
        putOwnFirst(table);
        continue;
      }
      const heads = table.tHead.rows[0].cells;
      for (const head of heads) head.removeAttribute("aria-sort");
      heads[order.column].ariaSort = order.sign < 0 ? "descending" : "ascending";
      sort(table, order);
    }
  }

  document.addEventListener("click", (event) => {
    if (event.target.id === "more-people") unfold();
    const head = event.target.closest("thead th");
    const table = head?.closest("table");
    if (!table?.matches(TABLES)) return;
    if (table.closest(".people")) unfold(); // the first by name may be among them
    orders.set(keyOf(table), gpumon.sorting.choose(head));
    sort(table, orders.get(keyOf(table)));
  });
  gpumon.on("update", start);
  gpumon.on("filter", () => document.querySelectorAll(TABLES).forEach(putOwnFirst));
  start();
})();
