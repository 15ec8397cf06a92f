// ?kiosk: how many are free of each model stays on the screen; below it the hosts, one page after the other, in whole rows
// that fill the height. Many hosts are shown compactly, so that nobody waits long for theirs.
//
// takes: on count state tally params
// gives: kiosk
(() => {
  "use strict";
  const root = document.documentElement;
  const holder = document.getElementById("hosts");
  if (!root.classList.contains("kiosk") || !holder) return;
  const STAY_MS = 15000;
  const MOST_PAGES = 6; // of cards, where no view is asked for
  const EDGE = 16;
  let pages = [];
  let at = 0;

  const shown = () => [...holder.children].filter((host) => !host.hidden);

  // Hosts whose heads stand at one height, and how tall the tallest of them is.
  function rowsOf(hosts) {
    const rows = [];
    for (const host of hosts) {
      const { top, bottom } = host.getBoundingClientRect();
      const last = rows.at(-1);
      if (last && Math.abs(last.top - top) < 2) Object.assign(last, { hosts: [...last.hosts, host], bottom: Math.max(last.bottom, bottom) });
      else rows.push({ hosts: [host], top, bottom });
    }
    return rows.map(({ hosts: there, top, bottom }) => ({ hosts: there, tall: bottom - top }));
  }

  // A host that is taller than the screen comes in parts, each of whole rows of its cards.
  function parts({ hosts: [host, ...rest], tall }, room) {
    const cards = [...host.querySelectorAll(".cards > :not([hidden])")];
    if (rest.length || tall <= room || cards.length < 2) return [{ hosts: [host, ...rest], tall }];
    const box = cards[0].getBoundingClientRect();
    const across = cards.filter((card) => Math.abs(card.getBoundingClientRect().top - box.top) < 2).length;
    const down = Math.max(1, Math.floor((room - (box.top - host.getBoundingClientRect().top)) / (box.height + EDGE)));
    const number = Math.ceil(cards.length / (across * down));
    return Array.from({ length: number }, (_, part) => ({
      hosts: [host],
      tall: room,
      cards: new Set(cards.slice(part * across * down, (part + 1) * across * down)),
    }));
  }

  function filled(rows, room, most = Infinity) {
    const found = [];
    let left = 0;
    for (const row of rows) {
      if (!found.length || row.tall > left || found.at(-1).length >= most) {
        found.push([]);
        left = room;
      }
      found.at(-1).push(row);
      left -= row.tall + EDGE;
    }
    return found;
  }

  // As few pages as will do, and on each about as many rows.
  function paged(room) {
    const rows = rowsOf(shown()).flatMap((row) => parts(row, room));
    const few = filled(rows, room);
    const even = filled(rows, room, Math.ceil(rows.length / Math.max(1, few.length)));
    return even.length > few.length ? few : even;
  }

  function measure() {
    root.classList.remove("paged", "hosts-only");
    for (const one of holder.querySelectorAll(".off")) one.classList.remove("off");
    const above = () => holder.getBoundingClientRect().top + scrollY;
    const least = Math.min(...shown().map((host) => host.offsetHeight));
    // A low screen has the models first, and then the hosts without them.
    const isLow = innerHeight - above() < least + EDGE;
    if (isLow) root.classList.add("hosts-only");
    const room = innerHeight - above() - EDGE;
    holder.style.setProperty("--room", `${room}px`);
    return [...(isLow ? [null] : []), ...paged(room)];
  }

  // 3/8 beside the name: marks are small from five metres.
  function count() {
    for (const { anchor, gpus } of gpumon.state.hosts) {
      const header = document.getElementById(anchor)?.querySelector("header");
      if (!header || !gpus.length) continue;
      const [free, all] = [gpumon.tally(gpus.filter((gpu) => gpu.kind === "free")), gpumon.tally(gpus)];
      header.dataset.free = `${free.gpus}/${all.gpus}${free.slices ? ` + ${gpumon.count(free.slices, "slice")}` : ""}`;
    }
  }

  function layOut() {
    if (holder.hidden || !shown().length) return;
    count();
    root.dataset.view = gpumon.state.asked.view || "";
    pages = measure();
    if (pages.length > MOST_PAGES && !gpumon.params.get("view")) {
      root.dataset.view = "compact";
      pages = measure();
    }
    show();
  }

  function show() {
    at %= pages.length;
    const page = pages[at];
    root.classList.toggle("hosts-only", page !== null && pages[0] === null);
    root.classList.toggle("paged", page !== null);
    const hosts = new Set(page?.flatMap((row) => row.hosts));
    for (const host of shown()) host.classList.toggle("off", !hosts.has(host));
    for (const { hosts: [host], cards } of page ?? []) {
      if (cards) for (const card of host.querySelector(".cards").children) card.classList.toggle("off", !cards.has(card));
    }
  }

  function turn() {
    at += 1;
    if (pages.length) show();
  }

  setInterval(turn, STAY_MS);
  addEventListener("resize", layOut);
  addEventListener("load", layOut);
  gpumon.on("filter", layOut);
  gpumon.kiosk = { turn, pages: () => pages.length };
})();
