// Search and filters: what matches is decided on the data, then elements are hidden. The state is in the URL.
(() => {
  "use strict";
  const NAMES = ["q", "free", "model", "group", "mem", "mine", "sort", "view"];
  const FILTERS = ["q", "free", "model", "group", "mem", "mine"];
  const form = document.getElementById("find");
  const hosts = document.getElementById("hosts");
  const found = document.getElementById("found");
  const nothing = document.getElementById("nothing");
  let state = {};
  let me = gpumon.memory.get("me") ?? "";
  let marked = [];

  const field = (name) => form?.elements[name];

  function options(select, values) {
    if (!select) return;
    const chosen = select.value || state[select.name] || "";
    select.length = 1;
    for (const value of values) select.add(new Option(value, value));
    if (chosen && !values.includes(chosen)) select.add(new Option(chosen, chosen));
    select.value = chosen;
  }

  function fill() {
    for (const name of NAMES) {
      const input = field(name);
      if (!input) continue;
      if (input.type === "checkbox") input.checked = Boolean(state[name]);
      else input.value = state[name] ?? "";
    }
    if (field("me")) field("me").value = me;
  }

  function matcher() {
    const terms = (state.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const least = gpumon.offers.mib(Number(state.mem) || 0);
    const matches = (text) => terms.every((term) => text.includes(term));
    return {
      host: (host) =>
        (!state.group || host.group === state.group) &&
        (host.gpus.length > 0 || (!state.free && !state.model && !least && !state.mine && matches(host.text))),
      gpu: (gpu) =>
        (!state.free || gpu.kind === "free") &&
        (!state.model || isOf(gpu, state.model)) &&
        gpumon.offers.hasMemory(gpu, least) &&
        (!state.mine || isMine(gpu)) &&
        matches(gpu.text),
    };
  }

  // The slices of a model are of that model too: 1g.10gb A100 80G.
  const isOf = (gpu, model) => gpu.model === model || (gpu.isSlice && gpu.model.endsWith(` ${model}`));
  const isMine = (gpu) => me !== "" && gpu.logins.includes(me.toLowerCase());

  function apply() {
    const match = matcher();
    const isFiltered = FILTERS.some((name) => state[name]);
    const shown = [];
    let visible = 0;
    for (const host of gpumon.hosts) {
      const gpus = match.host(host) ? host.gpus.filter(match.gpu) : null;
      host.shown = gpus !== null && (gpus.length > 0 || host.gpus.length === 0);
      if (host.shown) {
        visible += 1;
        shown.push(...gpus);
      }
      hide(host, gpus ?? []);
    }
    gpumon.shown = shown;
    gpumon.isFiltered = isFiltered;
    nothing.hidden = visible > 0 || gpumon.hosts.length === 0;
    tell(visible);
    gpumon.tell("filter");
  }

  // Elements are touched only where something changes: thousands of them stay as they are.
  function hide(host, gpus) {
    const section = (host.section ??= document.getElementById(host.anchor));
    if (!section) return;
    if (section.hidden === host.shown) section.hidden = !host.shown;
    const isWhole = gpus.length === host.gpus.length;
    if (!host.shown || (isWhole && !host.isPart)) return;
    const kept = new Set(gpus);
    const cards = section.querySelectorAll(".card[tabindex]");
    host.gpus.forEach((gpu, place) => cards[place] && (cards[place].hidden = !kept.has(gpu)));
    host.isPart = !isWhole;
  }

  function tell(visible) {
    const parts = [];
    if (gpumon.isFiltered) {
      const free = gpumon.shown.filter((gpu) => gpu.kind === "free").length;
      const { count } = gpumon;
      parts.push(`${count(gpumon.shown.length, "GPU")} on ${count(visible, "host")}, ${free} free`);
    }
    const mine = me ? gpumon.hosts.flatMap((host) => host.gpus.filter(isMine)) : [];
    if (me) {
      const held = mine.reduce((sum, gpu) => sum + (gpu.used ?? 0), 0);
      parts.push(`${me} holds ${gpumon.count(mine.length, "GPU")} with ${gpumon.gigabytes(held)} GB in use`);
    }
    found.textContent = parts.join(" · ");
    for (const card of marked) card.classList.remove("mine");
    marked = mine.map((gpu) => document.getElementById(gpu.anchor)).filter(Boolean);
    for (const card of marked) card.classList.add("mine");
  }

  const free = (host) => host.gpus.filter((gpu) => gpu.kind === "free").length;
  const ORDERS = {
    free: (one, two) => free(two) - free(one),
    load: (one, two) => (one.load ?? Infinity) - (two.load ?? Infinity),
  };

  function sort() {
    const wanted = state.sort ?? "";
    if (wanted === (hosts.dataset.sort ?? "") && !wanted) return;
    hosts.dataset.sort = wanted;
    const order = ORDERS[wanted] ?? (() => 0);
    gpumon.hosts.sort((one, two) => order(one, two) || gpumon.byName(one.name, two.name));
    gpumon.tooltip.keep(() => {
      hosts.append(...gpumon.hosts.map((host) => document.getElementById(host.anchor)).filter(Boolean));
    });
  }

  function set(values) {
    state = { ...state, ...values };
    gpumon.params.set(state);
    document.documentElement.dataset.view = state.view || "";
    for (const tile of document.querySelector(".models")?.querySelectorAll("[data-model]") ?? [])
      tile.ariaPressed = String(tile.dataset.model === state.model);
    sort();
    apply();
  }

  function changed(event) {
    const { name, type, checked, value } = event.target;
    if (name === "me") {
      me = value.trim();
      gpumon.memory.set("me", me);
      apply();
    } else if (NAMES.includes(name)) {
      set({ [name]: type === "checkbox" ? (checked ? "1" : "") : value });
    }
  }

  function start() {
    state = Object.fromEntries(NAMES.map((name) => [name, gpumon.params.get(name)]));
    const groups = [...new Set(gpumon.hosts.map((host) => host.group).filter(Boolean))].sort(gpumon.byName);
    options(field("model"), [...gpumon.models].sort(gpumon.byName));
    options(field("group"), groups);
    if (field("group")) field("group").hidden = groups.length === 0;
    fill();
    set({});
  }

  form?.addEventListener("input", changed);
  form?.addEventListener("submit", (event) => event.preventDefault());
  form?.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.target.name !== "q") return;
    event.target.value = "";
    set({ q: "" });
    event.target.blur();
  });
  document.getElementById("show-all").addEventListener("click", () => {
    set(Object.fromEntries(FILTERS.map((name) => [name, ""])));
    fill();
  });
  document.addEventListener("click", (event) => {
    const tile = event.target.closest("[data-model]");
    if (!tile) return;
    set({ model: tile.dataset.model === state.model ? "" : tile.dataset.model });
    fill();
  });
  addEventListener("popstate", start);
  gpumon.on("update", () => {
    delete hosts.dataset.sort;
    start();
  });
  gpumon.isMine = isMine;
  start();
})();
