// What has become free since the reader was last here, and a notification when a search has more to offer.
(() => {
  "use strict";
  const PAUSE_MS = 10 * 60 * 1000; // away for longer than this, and coming back is a new visit
  const name = `visit ${location.pathname}`;
  const button = document.getElementById("notify");
  const tellMe = document.getElementById("tell-me");
  const title = () => document.title.replace(/^\(\+\d+\) /, "");
  let before = null;
  let isOn = false;
  let freeThen = null;

  const isTaken = (gpu) => gpu.kind === "busy" || gpu.kind === "held";

  function taken() {
    const found = {};
    for (const host of gpumon.hosts) {
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
    for (const host of gpumon.hosts) {
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

  const countFree = () => gpumon.shown.filter((gpu) => gpu.kind === "free").length;

  function watch() {
    const now = countFree();
    if (isOn && freeThen !== null && now > freeThen && !gpumon.clock.stale()) notify(now - freeThen);
    freeThen = now;
    bell.keep();
  }

  function notify(more) {
    if (document.hidden) document.title = `(+${more}) ${title()}`;
    if (!("Notification" in window) || Notification.permission !== "granted") return;
    const where = gpumon.isFiltered ? " in your search" : "";
    const hosts = [...new Set(gpumon.shown.filter((gpu) => gpu.kind === "free").map((gpu) => gpu.host.name))];
    const text = `${gpumon.tallied(gpumon.shown.filter((gpu) => gpu.kind === "free"))} free${where}: ${hosts.slice(0, 5).join(", ")}`;
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
    gpumon.watches = isOn;
  }

  button?.addEventListener("click", toggle);
  tellMe?.addEventListener("click", () => button?.click());
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    document.title = title();
    stay();
  });
  gpumon.on("filter", () => {
    if (gpumon.isUpdating) return;
    freeThen = countFree();
    bell.keep();
  });
  gpumon.on("update", () => {
    watch();
    stay();
    mark();
  });
  arrive();
  mark();
  const kept = button && bell.get();
  isOn = Boolean(kept);
  if (isOn) {
    showBell();
    freeThen = kept.search === location.search ? kept.free : null;
  }
  watch();
})();
