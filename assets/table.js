// The table view: a row per GPU, and one for each host that shows none, made in slabs as they are scrolled to, so that thousands cost nothing at first.
//
// takes: on byName element amounts duration state link sorting question
// gives: rowOf
(() => {
  "use strict";
  const SLAB = 200;
  const { element, amounts, duration } = gpumon;
  const place = document.getElementById("table");
  const hosts = document.getElementById("hosts");
  const dash = (value, unit) => (value === null ? "–" : `${value} ${unit}`);
  const COLUMNS = [
    { title: "Host", value: (gpu) => gpu.host.name, text: (gpu) => gpu.host.short },
    { title: "GPU", value: (gpu) => gpu.index },
    { title: "Model", value: (gpu) => gpu.model },
    { title: "State", value: (gpu) => gpu.word, cell: stateCell },
    { title: "Load", number: true, value: (gpu) => gpu.utilization, text: (gpu) => dash(gpu.utilization, "%") },
    { title: "Memory", number: true, value: (gpu) => gpu.used, text: memoryText },
    { title: "Users", value: (gpu) => gpu.names.join(", ") || (gpu.users ? String(gpu.users) : "") },
    { title: "Runtime", number: true, value: (gpu) => gpu.runtime, text: (gpu) => (gpu.users ? duration(gpu.runtime) : "") },
    { title: "Temp.", number: true, value: (gpu) => gpu.temperature, text: (gpu) => dash(gpu.temperature, "°C") },
    { title: "Power", number: true, value: (gpu) => gpu.power, text: (gpu) => dash(gpu.power, "W") },
  ];
  let order = null;
  let rows = [];
  let watcher = null;

  function memoryText(gpu) {
    return gpu.used === null && gpu.total === null ? "–" : `${amounts.gigabytes(gpu.used, gpu.total)} / ${amounts.gigabytes(gpu.total, gpu.total)} GB`;
  }

  function stateCell(gpu) {
    const cell = element("td", { className: gpu.kind });
    cell.append(element("span", { className: "state" }, gpu.word));
    return cell;
  }

  function row(gpu) {
    const made = element("tr", { tabIndex: 0 });
    made.dataset.card = gpu.anchor;
    made.classList.toggle("mine", gpumon.question.isMine(gpu));
    for (const column of COLUMNS) {
      const cell = column.cell?.(gpu) ?? element("td", { className: column.number ? "number" : "" });
      if (!column.cell) cell.append(element("bdi", {}, (column.text ?? column.value)(gpu)));
      made.append(cell);
    }
    return made;
  }

  // A host that is down, or not fetched yet: why takes the place of the GPU.
  function hostRow({ anchor, short, name, notice }) {
    const { kind, word, status, reason } = notice ?? {};
    const cell = element("td", { className: `${kind} words`, colSpan: COLUMNS.length - 1 });
    cell.append(element("span", { className: "state" }, word), element("bdi", {}, ` ${[status, reason].filter(Boolean).join(" · ")}`));
    const made = element("tr", {}, element("td", {}, element("a", { href: gpumon.link("host", name) }, element("bdi", {}, short))), cell);
    made.dataset.host = anchor;
    return made;
  }

  const rowFor = (one) => (one.gpus ? hostRow(one) : row(one));

  function sorted() {
    const all = gpumon.state.ordered.filter((host) => host.shown).flatMap((host) => (host.gpus.length ? host.matched : [host]));
    if (!order) return all;
    const { value } = COLUMNS[order.column];
    // What is not known comes last, whatever the direction, and after it hosts without GPUs.
    return all.sort((one, two) => {
      if (one.gpus || two.gpus) return Boolean(one.gpus) - Boolean(two.gpus);
      const [a, b] = [value(one), value(two)];
      if (a === null || b === null) return (a === null) - (b === null);
      return order.sign * (order.isNumber ? a - b : gpumon.byName(a, b));
    });
  }

  function more(most = SLAB) {
    const body = place.querySelector("tbody");
    body?.append(...rows.splice(0, most).map(rowFor));
    if (!rows.length) watcher?.disconnect();
  }

  // After a refresh as many rows as before, in one step: nothing below the reader moves.
  function fill() {
    rows = sorted();
    const body = place.querySelector("tbody");
    const most = gpumon.state.isUpdating ? Math.max(SLAB, body.rows.length) : SLAB;
    body.replaceChildren(...rows.splice(0, most).map(rowFor));
    watcher?.disconnect();
    watcher = new IntersectionObserver(([seen]) => seen.isIntersecting && more(), { rootMargin: "1500px" });
    watcher.observe(place.querySelector(".more-rows"));
  }

  function build() {
    const heads = COLUMNS.map((column) => element("th", { scope: "col", className: column.number ? "number" : "" }, column.title));
    const table = element("table", { className: "list" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody"));
    table.createCaption().append(element("span", { className: "spoken" }, "GPUs"));
    gpumon.sorting.prepare(table);
    table.tHead.addEventListener("click", (event) => {
      const head = event.target.closest("th");
      if (!head) return;
      order = gpumon.sorting.choose(head);
      fill();
    });
    const scroll = element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Table of GPUs" }, table);
    place.replaceChildren(scroll, element("div", { className: "more-rows" }));
  }

  function update() {
    const isTable = document.documentElement.dataset.view === "table";
    hosts.hidden = isTable;
    place.hidden = !isTable || !gpumon.state.hosts.some((host) => host.shown);
    if (!isTable) {
      rows = [];
      place.replaceChildren();
      return;
    }
    if (!place.firstChild) build();
    fill();
  }

  gpumon.rowOf = (isWanted) => {
    more(Infinity);
    return [...place.querySelectorAll("tbody tr")].find((one) => isWanted(one.dataset.card ?? one.dataset.host)) ?? null;
  };
  addEventListener("beforeprint", () => more(Infinity));
  gpumon.on("filter", update);
})();
