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
  let note = "";

  const field = (name) => form?.elements[name];

  function options(select, values) {
    if (!select) return;
    const chosen = select.value || state[select.name] || "";
    select.length = 1;
    for (const value of values) select.add(new Option(value, value));
    if (chosen && !values.includes(chosen)) select.add(new Option(chosen, chosen));
    select.value = chosen;
  }

  // Any amount may come with a link.
  function offerMemory(select, gb) {
    if (![...select.options].some((option) => option.value === gb)) select.add(new Option(`≥ ${gb} GB free`, gb));
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

  // What is asked for, one condition each: in words, and what it makes of a GPU; a host without any has a say in two.
  function conditions() {
    const least = gpumon.offers.mib(Number(state.mem) || 0);
    const words = (state.q ?? "").toLowerCase().split(/\s+/).filter(Boolean).map(gpumon.search);
    const never = () => false;
    return [
      { name: "q", text: `“${state.q}”`, gpu: (gpu) => words.every((word) => word.inGpu(gpu)), host: (host) => words.every((word) => word.inHost(host)) },
      { name: "free", text: "free", gpu: (gpu) => gpu.kind === "free", host: never },
      { name: "model", text: state.model, gpu: (gpu) => isOf(gpu, state.model), host: never },
      { name: "group", text: `group ${state.group}`, gpu: (gpu) => gpu.host.group === state.group, host: (host) => host.group === state.group },
      { name: "mem", text: `${state.mem} GB free`, gpu: (gpu) => gpumon.offers.hasMemory(gpu, least), host: never },
      { name: "mine", text: me ? `GPUs of ${me}` : "mine, without a login in “I am”", gpu: isMine, host: never },
    ].filter(({ name }) => state[name]);
  }

  // The GPUs of a host that meet them all; null where the host is not shown.
  function matching(host, asked) {
    if (!host.gpus.length) return asked.every((condition) => condition.host(host)) ? [] : null;
    const gpus = host.gpus.filter((gpu) => asked.every((condition) => condition.gpu(gpu)));
    return gpus.length ? gpus : null;
  }

  function whyNothing(asked) {
    const alone = asked.filter((condition) => !gpumon.hosts.some((host) => matching(host, [condition])));
    const texts = (alone.length ? alone : asked).map(({ text }) => text);
    return alone.length ? `Nothing matches ${texts.join(" or ")}.` : `Nothing matches all of these: ${texts.join(", ")}.`;
  }

  // The slices of a model are of that model too: 1g.10gb A100 80G.
  const isOf = (gpu, model) => gpu.model === model || (gpu.isSlice && gpu.model.endsWith(` ${model}`));
  const isMine = (gpu) => me !== "" && gpu.logins.includes(me.toLowerCase());

  function apply() {
    const asked = conditions();
    const shown = [];
    let visible = 0;
    for (const host of gpumon.hosts) {
      const gpus = matching(host, asked);
      host.shown = gpus !== null;
      if (host.shown) {
        visible += 1;
        shown.push(...gpus);
      }
      hide(host, gpus ?? []);
    }
    gpumon.shown = shown;
    gpumon.isFiltered = asked.length > 0;
    nothing.hidden = visible > 0 || gpumon.hosts.length === 0;
    if (!nothing.hidden) nothing.firstElementChild.textContent = whyNothing(asked);
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
    const parts = note ? [note] : [];
    const { count, tally, tallied } = gpumon;
    if (gpumon.isFiltered) {
      const free = tally(gpumon.shown.filter((gpu) => gpu.kind === "free"));
      const slices = free.slices ? ` + ${count(free.slices, "slice")}` : "";
      parts.push(`${tallied(gpumon.shown)} on ${count(visible, "host")}, ${free.gpus}${slices} free`);
    }
    const mine = me ? gpumon.hosts.flatMap((host) => host.gpus.filter(isMine)) : [];
    if (me) {
      const held = mine.reduce((sum, gpu) => sum + (gpu.used ?? 0), 0);
      parts.push(`${me} holds ${tallied(mine)} with ${gpumon.gigabytes(held)} GB in use`);
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
    note = "";
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
    for (const name of ["free", "mine"]) if (state[name] === "0") state[name] = "";
    const isNumber = state.mem === "" || Number(state.mem) > 0;
    note = isNumber ? "" : `mem=${state.mem} is not an amount in GB: ignored`;
    if (!isNumber) state.mem = "";
    if (state.mem && field("mem")) offerMemory(field("mem"), state.mem);
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
  // A link to what is hidden: what hides it is cleared, and no more.
  gpumon.uncover = (anchor) => {
    const host = gpumon.hosts.find((one) => one.anchor === anchor.split(":")[0]);
    if (!host) return null;
    const gpus = host.gpus.filter((gpu) => anchor === host.anchor || gpu.anchor === anchor);
    const isShown = () => (gpus.length ? gpus.some((gpu) => gpumon.shown.includes(gpu)) : host.shown);
    if (!isShown()) {
      const hides = (condition) => (gpus.length ? !gpus.some(condition.gpu) : !condition.host(host));
      set(Object.fromEntries(conditions().filter(hides).map(({ name }) => [name, ""])));
    }
    if (!isShown()) set(Object.fromEntries(FILTERS.map((name) => [name, ""])));
    if (state.view === "table" && !gpus.length) set({ view: "" });
    fill();
    return { host, gpus };
  };
  addEventListener("popstate", start);
  gpumon.on("update", () => {
    delete hosts.dataset.sort;
    start();
  });
  gpumon.isMine = isMine;
  start();
})();
