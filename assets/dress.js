// What is put on cards after the first paint, host by host and a few at a time: the ribbon of the last day, times in the
// reader's zone, a name for screen readers. Nothing waits for it, and nothing is left out: a printed or captured page has
// them all.
//
// takes: on inSlices count state slotOf clock
// gives: dress
(() => {
  "use strict";
  const SLOTS = 96;
  const MOST_NAMES = 3;
  const COLOURS = { b: "var(--busy-bar)", h: "var(--busy-bar)", f: "var(--free-bar)", u: "var(--grey-bar)" };
  let round = 0;

  // One layer for each height, so that it is read without colours: tall is busy, half as tall held idle, low free.
  function gradient(ribbon, letters) {
    const stops = [];
    let at = 0;
    for (const [, letter, length] of ribbon.matchAll(/([a-z ])(\d+)/g)) {
      const to = at + Number(length);
      const [from, until] = [at, to].map((slot) => `${((100 * slot) / SLOTS).toFixed(2)}%`);
      stops.push(`${letters.includes(letter) ? COLOURS[letter] : "transparent"} ${from} ${until}`);
      at = to;
    }
    return stops.some((stop) => !stop.startsWith("transparent")) ? `linear-gradient(to right, ${stops.join(",")}, transparent 0)` : "";
  }

  const LAYERS = [["b", "100%"], ["h", "60%"], ["f", "2px"], ["u", "1px"]];

  function draw(card) {
    const drawn = LAYERS.map(([letters, height]) => [gradient(card.dataset.r, letters), height]).filter(([image]) => image);
    card.style.setProperty("--ribbon", drawn.map(([image, height]) => `${image} bottom / 100% ${height} no-repeat`).join(", "));
  }

  // Host, number, model, state, user. The title is the tip of pages without JavaScript.
  function name(card, gpu) {
    const users = gpu.names.length ? gpu.names.slice(0, MOST_NAMES) : gpu.users ? [gpumon.count(gpu.users, "user")] : [];
    card.ariaLabel = [`${gpu.host.short} ${gpumon.slotOf(gpu)}`, gpu.model, gpu.word, ...users].join(", ");
    card.removeAttribute("title");
  }

  // Cards that open are reached by Tab; without scripts they do not open.
  function reach(within) {
    for (const card of within.querySelectorAll(":is(.card, .slice)[id]:not(.cut, [tabindex])")) card.tabIndex = 0;
  }

  function dress(host) {
    reach(host);
    const { gpus = [] } = gpumon.state.hosts.find((one) => one.anchor === host.id) ?? {};
    for (const gpu of gpus) {
      const card = document.getElementById(gpu.anchor);
      if (card) name(card, gpu);
    }
    for (const card of host.querySelectorAll("[data-r]")) {
      if (card.dataset.drawn === card.dataset.r) continue;
      draw(card);
      card.dataset.drawn = card.dataset.r;
    }
    gpumon.clock.localise(host);
  }

  // From what is seen on: the rest follows.
  function start() {
    const mine = (round += 1);
    reach(document.getElementById("hosts"));
    const hosts = [...document.querySelectorAll("#hosts > .host")];
    const first = hosts.findIndex((host) => host.getBoundingClientRect().bottom > 0);
    const ordered = [...hosts.slice(Math.max(0, first)), ...hosts.slice(0, Math.max(0, first))];
    gpumon.inSlices(ordered, dress, () => mine !== round);
  }

  addEventListener("beforeprint", () => document.querySelectorAll("#hosts > .host").forEach(dress));
  gpumon.dress = dress;
  gpumon.on("update", start);
  start();
})();
