// The question, asked once: number, memory, model, group, words, free only. Its state is in the URL and in the form;
// cards, strip, tiles and answers follow it.
//
// takes: tell byName memory state params offers search
// gives: question
(() => {
  "use strict";
  const NAMES = ["n", "mem", "model", "vendor", "group", "q", "free", "state", "mine", "sort", "view"];
  const STATES = { busy: "busy", held: "held idle", unknown: "unknown", failed: "unreachable" };
  const FILTERS = ["n", "mem", "model", "vendor", "group", "q", "free", "state", "mine"];
  const OLD = { mem: "gb", model: "pick" }; // as links of 0.1.0 call them
  const form = document.getElementById("find");
  const { state } = gpumon;
  state.me = (!state.isOverview && gpumon.memory.get("me")) || "";
  const field = (name) => form?.elements[name];

  function options(select, values) {
    if (!select) return;
    const chosen = state.asked[select.name] || "";
    select.length = 1;
    for (const value of values) select.add(new Option(value, value));
    if (chosen && !values.includes(chosen)) select.add(new Option(chosen, chosen));
    select.value = chosen;
  }

  function fill() {
    for (const name of NAMES) {
      const input = field(name);
      if (!input) continue;
      if (input.type === "checkbox") input.checked = Boolean(state.asked[name]);
      // What is being typed stays as it is: 4. is 4 already.
      else if (input !== document.activeElement) input.value = state.asked[name] || (name === "n" ? "1" : "");
    }
    if (field("me")) field("me").value = state.me;
    for (const button of document.querySelectorAll("[data-state]")) button.ariaPressed = String(button.dataset.state === state.asked.state);
  }

  const number = (text) => (Number(text) > 0 && Number(text) < Infinity ? Number(text) : 0);
  const least = () => number(state.asked.mem); // GB
  const wanted = () => Math.max(1, Math.floor(number(state.asked.n)));

  // What is left on a free one; of one that is taken, what it has.
  const hasRoom = (gpu, gb) => (gpu.kind === "free" ? gpumon.offers.hasMemory(gpu, gb) : gpumon.offers.isLarge(gpu, gb));

  // The slices of a model are of that model too: 1g.10gb A100 80G.
  const isOf = (gpu, model) => gpu.model === model || (gpu.isSlice && gpu.model.endsWith(` ${model}`));
  const isMine = (gpu) => state.me !== "" && gpu.logins.includes(state.me.toLowerCase());

  // What is asked for, one condition each: in words, and what it makes of a GPU; a host without any has a say in two.
  function conditions() {
    const { asked, me } = state;
    const gb = least();
    const words = (asked.q ?? "").toLowerCase().split(/\s+/).filter(Boolean).map((word) => gpumon.search(word, state.vendors));
    const never = () => false;
    const isWanted = gpumon.offers.modelMatcher(state.hosts, asked.model);
    return [
      { name: "group", text: `group ${asked.group}`, gpu: (gpu) => gpu.host.group === asked.group, host: (host) => host.group === asked.group },
      { name: "free", text: "free", gpu: (gpu) => gpu.kind === "free", host: never },
      { name: "model", text: asked.model, gpu: (gpu) => isWanted(gpu) || isOf(gpu, asked.model), host: never },
      { name: "vendor", text: asked.vendor, gpu: (gpu) => gpu.vendor === asked.vendor, host: never },
      { name: "mem", text: `${asked.mem} GB`, gpu: (gpu) => hasRoom(gpu, gb), host: never },
      { name: "state", text: STATES[asked.state], gpu: (gpu) => gpu.kind === asked.state, host: (host) => host.notice?.kind === asked.state },
      { name: "mine", text: me ? `GPUs of ${me}` : "mine, without a login in “I am”", gpu: isMine, host: never },
      { name: "q", text: `“${asked.q}”`, gpu: (gpu) => words.every((word) => word.inGpu(gpu)), host: (host) => words.every((word) => word.inHost(host)) },
      { name: "n", text: `${asked.n} to run on together`, gpu: () => true, host: never },
    ].filter(({ name }) => (name === "n" ? wanted() > 1 : asked[name]));
  }

  // The GPUs of a host that meet them all; null where the host is not shown.
  function matching(host, asked) {
    if (!host.gpus.length) return asked.every((condition) => condition.host(host)) ? [] : null;
    const gpus = asked.length ? host.gpus.filter((gpu) => asked.every((condition) => condition.gpu(gpu))) : host.gpus;
    const isEnough = () => gpus.filter((gpu) => gpu.isOffered && !gpu.isSlice).length >= wanted();
    return gpus.length && (!asked.some(({ name }) => name === "n") || isEnough()) ? gpus : null;
  }

  function set(values) {
    state.asked = { ...state.asked, ...values };
    const shown = { ...state.asked, n: wanted() > 1 ? String(wanted()) : "", gb: "", pick: "" };
    gpumon.params.set(shown);
    document.documentElement.dataset.view = state.asked.view || "";
    gpumon.tell("question");
  }

  function changed(event) {
    const { name, type, checked, value } = event.target;
    gpumon.params.note("query", "");
    if (name === "me") {
      state.me = value.trim();
      gpumon.memory.set("me", state.me);
      set({});
    } else if (NAMES.includes(name)) {
      set({ [name]: type === "checkbox" ? (checked ? "1" : "") : value });
    }
  }

  function start() {
    const { params } = gpumon;
    params.check();
    state.asked = Object.fromEntries(NAMES.map((name) => [name, params.get(name) || (OLD[name] ? params.get(OLD[name]) : "")]));
    for (const name of ["free", "mine"]) state.asked[name] = params.isOn(name) ? "1" : "";
    // Cards are what there is anyway, but for a kiosk.
    if (state.asked.view === "cards" && !document.documentElement.classList.contains("kiosk")) state.asked.view = "";
    const groups = [...new Set(state.hosts.map((host) => host.group).filter(Boolean))].sort(gpumon.byName);
    options(field("model"), [...state.models].sort(gpumon.byName));
    const vendors = [...new Set(state.hosts.flatMap((host) => host.gpus.map((gpu) => gpu.vendor)).filter(Boolean))].sort(gpumon.byName);
    options(field("vendor"), vendors);
    if (field("vendor")) field("vendor").hidden = vendors.length < 2 && !state.asked.vendor;
    options(field("group"), groups);
    if (field("group")) field("group").hidden = groups.length === 0;
    fill();
    set({});
  }

  function clear(names) {
    set(Object.fromEntries(names.map((name) => [name, ""])));
    fill();
  }

  form?.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("input", (event) => event.target.form === form && form && changed(event));
  form?.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.target.name !== "q") return;
    event.preventDefault();
    event.target.value = "";
    set({ q: "" });
    event.target.blur();
  });
  document.addEventListener("click", (event) => {
    const pressed = event.target.closest("[data-model], [data-state]");
    if (!pressed) return;
    const name = "model" in pressed.dataset ? "model" : "state";
    set({ [name]: pressed.dataset[name] === state.asked[name] ? "" : pressed.dataset[name] });
    fill();
  });
  addEventListener("popstate", () => {
    gpumon.params.note("query", "");
    start();
  });
  gpumon.question = { FILTERS, conditions, matching, least, wanted, isOf, isMine, start, set, fill, clear };
})();
