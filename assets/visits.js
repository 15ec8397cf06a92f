// What has become free since the reader was last here, and a notification when a search has more to offer.
//
// takes: element count memory duration state tallied clock title filter on
(() => {
  "use strict";
  const { state } = gpumon;
  const PAUSE_MS = 10 * 60 * 1000; // away for longer than this, and coming back is a new visit
  const name = `visit ${location.pathname}`;
  const button = document.getElementById("notify");
  const tellMe = document.getElementById("tell-me");
  let before = null;
  let isOn = false;
  let freeThen = null;
  let isFirst = true;

  const isTaken = (gpu) => gpu.kind === "busy" || gpu.kind === "held";

  function taken() {
    const found = {};
    for (const host of state.hosts) {
      const indexes = host.gpus.filter(isTaken).map((gpu) => gpu.index);
      if (indexes.length) found[host.name] = indexes.join(" ");
    }
    return found;
  }

  function last() {
    try {
      return JSON.parse(gpumon.memory.get(name)) ?? {};
    } catch {
      return {};
    }
  }

  function arrive() {
    const visit = last();
    const isNew = !visit.seen || Date.now() - visit.seen > PAUSE_MS;
    before = isNew ? { at: visit.seen, taken: visit.now ?? {} } : { at: visit.since, taken: visit.before ?? {} };
    stay();
  }

  function stay() {
    if (document.hidden) return;
    const visit = { seen: Date.now(), since: before.at, before: before.taken, now: taken() };
    gpumon.memory.set(name, JSON.stringify(visit));
  }

  function mark() {
    for (const card of [...document.getElementsByClassName("freed")]) card.classList.remove("freed");
    let freed = 0;
    for (const host of state.hosts) {
      const then = before.taken[host.name]?.split(" ");
      if (!then) continue;
      for (const gpu of host.gpus) {
        if (gpu.kind !== "free" || !then.includes(gpu.index)) continue;
        document.getElementById(gpu.anchor)?.classList.add("freed");
        freed += 1;
      }
    }
    const place = document.getElementById("since");
    if (!place) return;
    place.hidden = freed === 0;
    const ago = gpumon.duration((Date.now() - before.at) / 1000);
    place.replaceChildren(gpumon.element("b", {}, `${freed} freed`), ` since your last visit, ${ago} ago`);
  }

  const countFree = () => gpumon.filter.free().length;

  function watch() {
    const now = countFree();
    if (isOn && freeThen !== null && now > freeThen && !gpumon.clock.stale()) notify(now - freeThen);
    freeThen = now;
    bell.keep();
  }

  function notify(more) {
    if (document.hidden) state.freed += more;
    gpumon.title.show();
    if (!("Notification" in window) || Notification.permission !== "granted") return;
    const where = state.isFiltered ? " in your search" : "";
    const hosts = [...new Set(gpumon.filter.free().map((gpu) => gpu.host.name))];
    const text = `${gpumon.tallied(gpumon.filter.free())} free${where}: ${hosts.slice(0, 5).join(", ")}`;
    new Notification(`${gpumon.count(more, "more GPU")} free`, { body: text, tag: "gpumon" });
  }

  // For this tab, and its search: the bell is on after a reload too, and knows how many were free before.
  const bell = {
    get() {
      try {
        const kept = JSON.parse(sessionStorage.getItem("gpumon.bell"));
        return kept?.page === location.pathname ? kept : null;
      } catch {
        return null;
      }
    },
    keep() {
      try {
        const kept = { page: location.pathname, search: location.search, free: freeThen };
        isOn ? sessionStorage.setItem("gpumon.bell", JSON.stringify(kept)) : sessionStorage.removeItem("gpumon.bell");
      } catch {
        // It is off after a reload then.
      }
    },
  };

  async function toggle() {
    isOn = !isOn;
    if (isOn && "Notification" in window && Notification.permission === "default") await Notification.requestPermission();
    bell.keep();
    showBell();
  }

  function showBell() {
    for (const one of [button, tellMe]) if (one) one.ariaPressed = String(isOn);
    const canNotify = "Notification" in window && Notification.permission === "granted";
    const how = canNotify ? "a notification reports" : "the tab's title reports";
    button.title = isOn ? `On: ${how} when more GPUs of this search are free` : "Tell me when more GPUs of this search are free";
    state.watches = isOn;
  }

  button?.addEventListener("click", toggle);
  tellMe?.addEventListener("click", () => button?.click());
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    state.freed = 0;
    gpumon.title.show();
    stay();
  });
  // With the first answer, and with each refresh, more may be free; a question that is changed is another one.
  gpumon.on("filter", () => {
    if (isFirst || state.isUpdating) return news();
    freeThen = countFree();
    bell.keep();
  });

  function news() {
    isFirst = false;
    watch();
    stay();
    mark();
  }

  arrive();
  const kept = button && bell.get();
  isOn = Boolean(kept);
  if (isOn) {
    showBell();
    freeThen = kept.search === location.search ? kept.free : null;
  }
})();
