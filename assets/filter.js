// What of the page the question shows: decided on the data, then elements are hidden, hosts first.
//
// takes: on tell byName count inSlices amounts state tally tallied tooltip question
// gives: filter
(() => {
  "use strict";
  const { question, state } = gpumon;
  const hosts = document.getElementById("hosts");
  const found = document.getElementById("found");
  const nothing = document.getElementById("nothing");
  const FIRST = 60; // hosts that are surely more than a screen
  let marked = [];
  let round = 0;

  function whyNothing(asked) {
    const alone = asked.filter((condition) => !state.hosts.some((host) => question.matching(host, [condition])));
    const texts = (alone.length ? alone : asked).map(({ text }) => text);
    return alone.length ? `Nothing matches ${texts.join(" or ")}.` : `Nothing matches all of these: ${texts.join(", ")}.`;
  }

  function apply() {
    const asked = question.conditions();
    const shown = [];
    const visible = [];
    for (const host of state.ordered) {
      host.matched = question.matching(host, asked);
      host.shown = host.matched !== null;
      hideHost(host);
      if (!host.shown) continue;
      visible.push(host);
      for (const gpu of host.matched) shown.push(gpu);
    }
    state.shown = shown;
    state.isFiltered = asked.length > 0;
    // Cards of hosts that are further down follow, a few at a time.
    const mine = (round += 1);
    visible.slice(0, FIRST).forEach(hideCards);
    gpumon.inSlices(visible.slice(FIRST), hideCards, () => mine !== round);
    nothing.hidden = visible.length > 0 || state.hosts.length === 0;
    if (!nothing.hidden) nothing.firstElementChild.textContent = whyNothing(asked);
    tell(visible.length);
    gpumon.tell("filter");
  }

  // Elements are touched only where something changes: thousands of them stay as they are.
  function hideHost(host) {
    const section = host.section?.isConnected ? host.section : (host.section = document.getElementById(host.anchor));
    if (section && section.hidden === host.shown) section.hidden = !host.shown;
  }

  function hideCards(host) {
    const isWhole = host.matched.length === host.gpus.length;
    if (!host.section || (isWhole && !host.isPart)) return;
    const kept = new Set(host.matched);
    const cards = host.section.querySelectorAll(".card:not(.cut), .slice");
    host.gpus.forEach((gpu, place) => cards[place] && cards[place].hidden === kept.has(gpu) && (cards[place].hidden = !kept.has(gpu)));
    for (const cut of host.section.getElementsByClassName("cut")) cut.hidden = !cut.querySelector(".slice:not([hidden])");
    host.isPart = !isWhole;
  }

  function tell(visible) {
    const { me } = state;
    const parts = [];
    const { count, tally, tallied } = gpumon;
    if (state.isFiltered) {
      const free = tally(state.shown.filter((gpu) => gpu.kind === "free"));
      const slices = free.slices ? ` + ${count(free.slices, "slice")}` : "";
      parts.push(`${tallied(state.shown)} on ${count(visible, "host")}, ${free.gpus}${slices} free`);
    }
    const mine = me ? state.hosts.flatMap((host) => host.gpus.filter(question.isMine)) : [];
    if (me) {
      const held = mine.reduce((sum, gpu) => sum + gpumon.amounts.gb(gpu.used ?? 0, gpu.total), 0);
      parts.push(`${me} holds ${tallied(mine)} with ${gpumon.amounts.number(held)} GB in use`);
    }
    if (found) found.textContent = parts.join(" · ");
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
    const wanted = state.asked.sort ?? "";
    if (wanted === (hosts.dataset.sort ?? "") && !wanted) return;
    hosts.dataset.sort = wanted;
    const order = ORDERS[wanted] ?? (() => 0);
    state.ordered.sort((one, two) => order(one, two) || gpumon.byName(one.name, two.name));
    gpumon.tooltip.keep(() => {
      hosts.append(...state.ordered.map((host) => document.getElementById(host.anchor)).filter(Boolean));
    });
  }

  document.getElementById("show-all").addEventListener("click", () => question.clear(question.FILTERS));
  // A link to what is hidden: what hides it is cleared, and no more.
  function uncover(anchor) {
    const host = state.hosts.find((one) => one.anchor === anchor.split(":")[0]);
    if (!host) return null;
    const gpus = host.gpus.filter((gpu) => anchor === host.anchor || gpu.anchor === anchor || gpu.anchor.startsWith(`${anchor}.`));
    const isShown = () => (gpus.length ? gpus.some((gpu) => host.matched?.includes(gpu)) : host.shown);
    if (!isShown()) {
      const hides = (condition) => (gpus.length ? !gpus.some(condition.gpu) : !condition.host(host));
      question.clear(question.conditions().filter(hides).map(({ name }) => name));
    }
    if (!isShown()) question.clear(question.FILTERS);
    question.fill();
    hideCards(host);
    return { host, gpus };
  }

  gpumon.filter = { uncover, free: () => state.shown.filter((gpu) => gpu.kind === "free") };
  gpumon.on("question", () => {
    sort();
    apply();
  });
  gpumon.on("update", () => {
    delete hosts.dataset.sort;
    question.start();
  });
  // When all scripts are there, to whom the answer is of interest.
  addEventListener("DOMContentLoaded", () => question.start());
})();
