// Places: the tabs, and the things that can be opened, each with an address after the #.
//
//   #now #people #supply #health                      a tab: the section with that id
//   #host/NAME #user/NAME #gpu/HOST/INDEX #job/ID     a thing: a panel under the tabs, filled when it is asked for
//   #host-NAME #host-NAME:INDEX #idle ...             the id of an element, as links of 0.1.0 have it: shown in its tab
//
// A thing is added by a file of its own in assets/ (which takes `places`):
//
//   gpumon.places.register({ place: "host", tab: "now", open(name, element) { ... return heading; } });
//
// place    the word before the slash
// word     how the page calls it, where that differs
// tab      the tab that stays marked, and that "back" leads to
// open     fills the empty `element`, which is in the page already, so that charts know their width. `name` is what comes
//          after the slash, decoded. Returns the heading, a text; null where the page knows no such thing. It is called
//          again after each refresh, and when the window's width changes.
//
// gpumon.link("gpu", "vision-01", "3") is the address, for href. An address whose thing nobody registered leads to
// the element with that id, which is what it does without JavaScript: give one to the row or heading that names the thing.
//
// takes: on tell element times state clock params filter rowOf
// gives: places
(() => {
  "use strict";
  const WORDS = { now: "Now", people: "People", supply: "Supply", health: "Health" };
  const TABS = Object.keys(WORDS);
  const FLASH_MS = 1600;
  const root = document.documentElement;
  const panel = document.getElementById("thing");
  const things = new Map();
  const scrolled = {}; // how far each tab was, for whoever comes back to it
  let open = null;
  let origin = null; // the id of the card, or the card of the row, from which a panel was opened

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  function read(hash) {
    const address = hash.replace(/^#/, "");
    if (!address || TABS.includes(address)) return { tab: address || "now" };
    const [place] = address.split("/", 1);
    const thing = address.includes("/") ? things.get(place) : undefined;
    if (thing) return { tab: thing.tab, thing, name: decoded(address.slice(place.length + 1)) };
    const id = decoded(address);
    const element = document.getElementById(id);
    const tab = element?.closest(".place")?.id;
    return { tab: TABS.includes(tab) ? tab : "now", id, missing: element ? "" : `#${id.slice(0, 80)} is not on this page` };
  }

  function mark(tab) {
    for (const one of document.querySelectorAll(".tabs a")) {
      const isIt = one.hash === `#${tab}`;
      isIt ? one.setAttribute("aria-current", "page") : one.removeAttribute("aria-current");
    }
  }

  function fill({ thing, name, tab }) {
    const body = panel.querySelector(".thing-body");
    body.replaceChildren();
    const heading = thing.open(name, body);
    if (heading) Object.assign(open, { heading, seen: gpumon.clock.made() });
    else body.replaceChildren(gpumon.element("p", { className: "quiet gone" }, ...missing(open)));
    panel.querySelector("h2").textContent = heading || open.heading || name;
    panel.querySelector("[data-copy]").dataset.copy = location.href;
    const back = panel.querySelector(".back");
    back.href = `#${tab}`;
    back.textContent = WORDS[tab];
  }

  // What was open when a refresh took it away was there until the page before.
  function missing({ thing, name, heading, seen }) {
    if (heading) return [gpumon.element("bdi", {}, `${heading} is gone: it was last on this page at ${gpumon.times.hour(seen)}.`)];
    const what = `There is no ${thing.word ?? thing.place} ${name} on this page now.`;
    return [gpumon.element("bdi", {}, what), " The address may be wrong, or what it names is gone."];
  }

  function show(where) {
    const before = root.dataset.place;
    const place = where.thing ? "thing" : where.tab;
    if (TABS.includes(before) && before !== place) scrolled[before] = scrollY;
    open = where.thing ? where : null;
    root.dataset.place = place;
    mark(where.tab);
    gpumon.params.note("place", where.missing);
    if (open) fill(open);
    else panel.querySelector(".thing-body").replaceChildren();
    gpumon.state.heading = open ? panel.querySelector("h2").textContent : place === "now" ? "" : WORDS[place];
    gpumon.tell("place");
    return place !== before;
  }

  function flash(element) {
    element.classList.add("flash");
    setTimeout(() => element.classList.remove("flash"), FLASH_MS);
  }

  // A host or a GPU is shown whatever hides it: filters are cleared, and in the table it is a row.
  function reveal(id) {
    const isRow = (card) => card === id || card.startsWith(`${id}:`);
    const isKnown = id.startsWith("host-") && gpumon.filter.uncover(id);
    const row = isKnown && root.dataset.view === "table" ? gpumon.rowOf(isRow) : null;
    const target = row || document.getElementById(id);
    target?.scrollIntoView({ block: row ? "center" : "start" });
    if (isKnown && target) flash(target);
  }

  function go(where, isBack = false) {
    const isOther = show(where);
    if (where.id) reveal(where.id);
    else if (where.thing) isBack || scrollTo(0, 0);
    // The browser knows how far it was scrolled when it goes back.
    else if (isOther && !isBack) scrollTo(0, scrolled[where.tab] ?? 0);
    if (!where.thing) giveBack();
  }

  // Whoever opened a card is at that card again.
  function giveBack() {
    const card = origin && (document.querySelector(`tr[data-card="${CSS.escape(origin)}"]`) ?? document.getElementById(origin));
    origin = null;
    card?.focus({ preventScroll: true });
  }

  // A panel as a step that leads back to the card that it is of, with the focus in it.
  function openFrom(hash, card) {
    history.pushState(null, "", `${location.search}${hash}`);
    go(read(hash));
    origin = card.dataset.card ?? card.id;
    panel.querySelector("h2").focus({ preventScroll: true });
  }

  const isPlain = (event) => event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;

  document.addEventListener("click", (event) => {
    const hash = event.target.closest("a[href^='#']:not(.skip)")?.getAttribute("href");
    if (!hash || !isPlain(event) || event.defaultPrevented) return;
    event.preventDefault();
    const where = read(hash);
    gpumon.params.note("query", "");
    // To jump about in a tab, or to where one is already, is not worth a step back.
    const isStep = hash !== location.hash && (where.thing || where.tab !== root.dataset.place);
    history[isStep ? "pushState" : "replaceState"](null, "", `${location.search}${hash}`);
    go(where);
    if (where.thing) panel.querySelector("h2").focus({ preventScroll: true });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !open || event.defaultPrevented || event.target.matches("input, select")) return;
    panel.querySelector(".back").click();
  });

  let wide = innerWidth;
  let timer = 0;
  addEventListener("resize", () => {
    clearTimeout(timer);
    if (innerWidth !== wide && open) timer = setTimeout(() => open && fill(open), 150);
    wide = innerWidth;
  });
  addEventListener("popstate", () => go(read(location.hash), true));
  addEventListener("DOMContentLoaded", () => show(read(location.hash)));
  // The browser goes to an element by itself, unless it is hidden.
  addEventListener("load", () => {
    const { id } = read(location.hash);
    if (id && document.getElementById(id)?.checkVisibility() !== true) reveal(id);
  });
  gpumon.on("update", () => (open ? show(open) : mark(read(location.hash).tab)));

  gpumon.places = { register: (thing) => things.set(thing.place, thing), open: openFrom };
})();
