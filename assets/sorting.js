// Sorting by a click on a column's head, for every table with the class list.
//
// takes: element
// gives: sorting
(() => {
  "use strict";
  // Heads become buttons, so that the keyboard reaches them.
  function prepare(table) {
    for (const head of table.tHead.rows[0].cells) {
      if (head.firstElementChild || !head.textContent) continue;
      head.replaceChildren(gpumon.element("button", { type: "button" }, head.textContent));
    }
  }

  function choose(head) {
    const isNumber = head.classList.contains("number");
    const first = isNumber ? "descending" : "ascending";
    const second = isNumber ? "ascending" : "descending";
    const direction = head.ariaSort === first ? second : first;
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.ariaSort = direction;
    return { column: head.cellIndex, sign: direction === "descending" ? -1 : 1, isNumber };
  }

  gpumon.sorting = { prepare, choose };
})();
