// The question, asked once: number, memory, model, group, words, free only. Its state is in the URL and in the form;
// cards, strip, tiles and answers follow it.
gpumon.question = (() => {
  "use strict";
  const NAMES = ["n", "mem", "model", "group", "q", "free", "mine", "sort", "view"];
  const FILTERS = ["n", "mem", "model", "group", "q", "free", "mine"];
  const OLD = { mem: "gb", model: "pick" }; // as links of 0.1.0 call them
  const form = document.getElementById("find");
  const self = { state: {}, me: (!gpumon.isOverview && gpumon.memory.get("me")) || "", FILTERS, form };
  const field = (name) => form?.elements[name];

  function options(select, values) {
    if (!select) return;
    const chosen = self.state[select.name] || "";
    select.length = 1;
    for (const value of values) select.add(new Option(value, value));
    if (chosen && !values.includes(chosen)) select.add(new Option(chosen, chosen));
    select.value = chosen;
  }

  function fill() {
    for (const name of NAMES) {
      const input = field(name);
      if (!input) continue;
      if (input.type === "checkbox") input.checked = Boolean(self.state[name]);
      // What is being typed stays as it is: 4. is 4 already.
      else if (input !== document.activeElement) input.value = self.state[name] || (name === "n" ? "1" : "");
    }
    if (field("me")) field("me").value = self.me;
  }

  const number = (text) => (Number(text) > 0 && Number(text) < Infinity ? Number(text) : 0);
  const least = () => gpumon.offers.mib(number(self.state.mem));
  const wanted = () => Math.max(1, Math.floor(number(self.state.n)));

  // The slices of a model are of that model too: 1g.10gb A100 80G.
  const isOf = (gpu, model) => gpu.model === model || (gpu.isSlice && gpu.model.endsWith(` ${model}`));
  const isMine = (gpu) => self.me !== "" && gpu.logins.includes(self.me.toLowerCase());

  // What is asked for, one condition each: in words, and what it makes of a GPU; a host without any has a say in two.
  function conditions() {
    const { state, me } = self;
    const mib = least();
    const words = (state.q ?? "").toLowerCase().split(/\s+/).filter(Boolean).map(gpumon.search);
    const never = () => false;
    const isWanted = gpumon.offers.modelMatcher(gpumon.hosts, state.model);
    return [
      { name: "group", text: `group ${state.group}`, gpu: (gpu) => gpu.host.group === state.group, host: (host) => host.group === state.group },
      { name: "free", text: "free", gpu: (gpu) => gpu.kind === "free", host: never },
      { name: "model", text: state.model, gpu: (gpu) => isWanted(gpu) || isOf(gpu, state.model), host: never },
      { name: "mem", text: `${state.mem} GB free`, gpu: (gpu) => gpumon.offers.hasMemory(gpu, mib), host: never },
      { name: "mine", text: me ? `GPUs of ${me}` : "mine, without a login in “I am”", gpu: isMine, host: never },
      { name: "q", text: `“${state.q}”`, gpu: (gpu) => words.every((word) => word.inGpu(gpu)), host: (host) => words.every((word) => word.inHost(host)) },
      { name: "n", text: `${state.n} to run on together`, gpu: () => true, host: never },
    ].filter(({ name }) => (name === "n" ? wanted() > 1 : state[name]));
  }

  // The GPUs of a host that meet them all; null where the host is not shown.
  function matching(host, asked) {
    if (!host.gpus.length) return asked.every((condition) => condition.host(host)) ? [] : null;
    const gpus = asked.length ? host.gpus.filter((gpu) => asked.every((condition) => condition.gpu(gpu))) : host.gpus;
    const isEnough = () => gpus.filter((gpu) => gpu.isOffered && !gpu.isSlice).length >= wanted();
    return gpus.length && (!asked.some(({ name }) => name === "n") || isEnough()) ? gpus : null;
  }

  function set(values) {
    self.state = { ...self.state, ...values };
    const shown = { ...self.state, n: wanted() > 1 ? String(wanted()) : "", gb: "", pick: "" };
    gpumon.params.set(shown);
    document.documentElement.dataset.view = self.state.view || "";
    gpumon.tell("question");
  }

  function changed(event) {
    const { name, type, checked, value } = event.target;
    gpumon.params.note("query", "");
    if (name === "me") {
      self.me = value.trim();
      gpumon.memory.set("me", self.me);
      set({});
    } else if (NAMES.includes(name)) {
      set({ [name]: type === "checkbox" ? (checked ? "1" : "") : value });
    }
  }

  function start() {
    const { params } = gpumon;
    params.check();
    self.state = Object.fromEntries(NAMES.map((name) => [name, params.get(name) || (OLD[name] ? params.get(OLD[name]) : "")]));
    for (const name of ["free", "mine"]) self.state[name] = params.isOn(name) ? "1" : "";
    // Cards are what there is anyway, but for a kiosk.
    if (self.state.view === "cards" && !document.documentElement.classList.contains("kiosk")) self.state.view = "";
    const groups = [...new Set(gpumon.hosts.map((host) => host.group).filter(Boolean))].sort(gpumon.byName);
    options(field("model"), [...gpumon.models].sort(gpumon.byName));
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
    const tile = event.target.closest("[data-model]");
    if (!tile) return;
    set({ model: tile.dataset.model === self.state.model ? "" : tile.dataset.model });
    fill();
  });
  addEventListener("popstate", () => {
    gpumon.params.note("query", "");
    start();
  });
  gpumon.isMine = isMine;
  return Object.assign(self, { conditions, matching, least, wanted, isOf, isMine, start, set, fill, clear });
})();
