// Asks for the page again and puts in what has changed: scroll, search, focus and an open tooltip stay as they are.
// Only while the page is visible, or a notification is wanted; never while paused.
//
// takes: tell inSlices readHost state take clock dress tooltip
(() => {
  "use strict";
  const { state } = gpumon;
  const seconds = Number(document.body.dataset.refresh);
  const pause = document.getElementById("pause");
  const hosts = document.getElementById("hosts");
  let due = Date.now() + seconds * 1000;
  let isPaused = false;
  let isBusy = false;

  const PIECE = 1 << 16; // letters that are parsed at once

  // The page as the server has it now, in a document that loads and runs nothing. It is parsed a piece at a time: thousands
  // of cards would hold up the reader. Null where it is the page that is shown already.
  async function parsed(text) {
    const page = document.implementation.createHTMLDocument("");
    const pieces = Array.from({ length: Math.ceil(text.length / PIECE) }, (_, number) => text.slice(number * PIECE, (number + 1) * PIECE));
    const isShown = () => ["made", "build"].every((name) => page.body?.dataset[name] === document.body.dataset[name]);
    page.open();
    await gpumon.inSlices(pieces, (piece) => isShown() || page.write(piece));
    page.close();
    if (!page.body?.dataset.made) throw new Error("this is not the page");
    return isShown() ? null : page;
  }

  async function readPage(page) {
    const sections = [...page.querySelectorAll("#hosts > .host")];
    const fresh = { page, changed: [], wanted: new Set(sections.map((host) => host.id)), hosts: [] };
    fresh.data = JSON.parse(page.getElementById("data").textContent);
    await gpumon.inSlices(fresh.data.hosts, (row) => fresh.hosts.push(gpumon.readHost(row, fresh.hosts.length, fresh.data)));
    // A host that is looked at changes together with the rest of the page; the others before that.
    const busy = new Set([gpumon.tooltip.host(), document.activeElement?.closest(".host")]);
    await gpumon.inSlices(sections, (next) => {
      const now = document.getElementById(next.id);
      if (now && now.dataset.digest === next.dataset.digest) return;
      if (now && !busy.has(now)) putIn(now, next);
      else fresh.changed.push(next);
    });
    return fresh;
  }

  // The element itself stays, since the browser remembers its height, and what the search made of it.
  function putIn(now, next) {
    const hidden = [...now.querySelectorAll(".card[hidden], .slice[hidden]")].map((card) => card.id);
    now.className = next.className;
    now.dataset.digest = next.dataset.digest;
    now.replaceChildren(...next.childNodes);
    for (const id of hidden) document.getElementById(id)?.setAttribute("hidden", "");
    gpumon.dress(now);
  }

  function patchHosts({ changed, wanted }) {
    for (const next of changed) {
      const now = document.getElementById(next.id);
      if (!now) hosts.append(next);
      else putIn(now, next);
    }
    for (const now of [...hosts.children]) if (!wanted.has(now.id)) now.remove();
  }

  function patchParts({ page }) {
    for (const next of page.querySelectorAll("[data-live]")) {
      const now = document.querySelector(`[data-live="${next.dataset.live}"]`);
      if (!now || now.textContent === next.textContent && now.innerHTML === next.innerHTML) continue;
      const isOpen = now.querySelector("details")?.open;
      now.replaceChildren(...next.childNodes);
      const details = now.querySelector("details");
      if (details && isOpen) details.open = true;
    }
  }

  // The button or link that had the focus is a new element now.
  function keepFocus(change) {
    const active = document.activeElement?.closest("[data-live] a, [data-live] button");
    const own = ["model", "state"].find((name) => active?.dataset[name]);
    const selector = own
      ? `[data-${own}="${CSS.escape(active.dataset[own])}"]`
      : active?.hash && `[data-live="${active.closest("[data-live]").dataset.live}"] [href="${CSS.escape(active.hash)}"]`;
    change();
    if (selector && !active.isConnected) document.querySelector(selector)?.focus({ preventScroll: true });
  }

  function patch(fresh) {
    state.isUpdating = true;
    gpumon.tooltip.keep(() =>
      keepFocus(() => {
        patchParts(fresh);
        patchHosts(fresh);
        Object.assign(document.body.dataset, { ...fresh.page.body.dataset });
        state.title = fresh.page.title;
        gpumon.take(fresh.data, fresh.hosts);
        gpumon.tell("update");
      }),
    );
    state.isUpdating = false;
  }

  async function ask() {
    const sent = Date.now();
    const answer = await fetch(location.pathname, { cache: "no-cache" });
    gpumon.clock.learn(answer, sent);
    if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
    const page = await parsed(await answer.text());
    if (!page) return;
    if (page.body.dataset.build !== document.body.dataset.build) location.reload();
    else patch(await readPage(page));
  }

  async function refresh() {
    if (Date.now() < due || isPaused || isBusy || (document.hidden && !state.watches)) return;
    due = Date.now() + seconds * 1000;
    if (location.protocol === "file:") {
      // A browser does not let a page from the disk read itself; to load it again is the one way.
      if (gpumon.tooltip.isOpen()) due = 0;
      else location.reload();
      return;
    }
    isBusy = true;
    const isOffline = await ask().then(() => false, () => true);
    isBusy = false;
    document.documentElement.classList.toggle("offline", isOffline);
    gpumon.tell("offline");
  }

  pause?.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.ariaPressed = String(isPaused);
    pause.title = isPaused ? "Resume" : "Stop refreshing";
    refresh();
  });
  if (seconds) {
    setInterval(refresh, 1000);
    document.addEventListener("visibilitychange", refresh);
  }
})();
