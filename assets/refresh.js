// Asks for the page again and puts in what has changed: scroll, search, focus and an open tooltip stay as they are.
// Only while the page is visible, or a notification is wanted; never while paused.
(() => {
  "use strict";
  const seconds = Number(document.body.dataset.refresh);
  const pause = document.getElementById("pause");
  const hosts = document.getElementById("hosts");
  let due = Date.now() + seconds * 1000;
  let isPaused = false;
  let isBusy = false;

  const parse = (text) => new DOMParser().parseFromString(text, "text/html");

  // Thousands of cards are read and put in a few hosts at a time, and the page is the reader's in between. What has not
  // changed is not read at all.
  const HOST =
    /<section class="host [^>]*? id="([^"]*)"[^>]*? data-digest="([^"]*)"[^]*?<\/section>(?=\s*(?:<section class="host |<\/div>))/g;

  async function readPage(text) {
    const page = parse(text.replace(HOST, ""));
    // Hosts of a lab's own template that are written in another way.
    const others = [...page.querySelectorAll("#hosts > .host")];
    const fresh = { page, changed: others, wanted: new Set(others.map((host) => host.id)) };
    fresh.data = gpumon.parsed(page.getElementById("data").textContent);
    await pause0();
    const found = [];
    for (const [section, id, digest] of text.matchAll(HOST)) {
      fresh.wanted.add(id);
      if (document.getElementById(id)?.dataset.digest !== digest) found.push(section);
    }
    await pause0();
    fresh.hosts = [];
    await gpumon.inSlices(fresh.data.hosts, (row) => fresh.hosts.push(gpumon.readHost(row, fresh.hosts.length, fresh.data)));
    // A host that is looked at changes together with the rest of the page; the others before that.
    const busy = new Set([gpumon.tooltip.host(), document.activeElement?.closest(".host")]);
    await gpumon.inSlices(found, (section) => {
      const next = parse(section).body.firstElementChild;
      const now = document.getElementById(next.id);
      if (now && !busy.has(now)) putIn(now, next);
      else fresh.changed.push(next);
    });
    return fresh;
  }

  const pause0 = () => new Promise((done) => setTimeout(done));

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
    const selector = active?.dataset.model
      ? `[data-model="${CSS.escape(active.dataset.model)}"]`
      : active?.hash && `[data-live="${active.closest("[data-live]").dataset.live}"] [href="${CSS.escape(active.hash)}"]`;
    change();
    if (selector && !active.isConnected) document.querySelector(selector)?.focus({ preventScroll: true });
  }

  function patch(fresh) {
    gpumon.isUpdating = true;
    gpumon.tooltip.keep(() =>
      keepFocus(() => {
        patchParts(fresh);
        patchHosts(fresh);
        Object.assign(document.body.dataset, { ...fresh.page.body.dataset });
        document.title = fresh.page.title;
        gpumon.take(fresh.data, fresh.hosts);
        gpumon.tell("update");
      }),
    );
    gpumon.isUpdating = false;
  }

  const attribute = (text, name) => new RegExp(`<body [^>]*data-${name}="([^"]*)"`).exec(text)?.[1];

  async function ask() {
    const sent = Date.now();
    const answer = await fetch(location.pathname, { cache: "no-cache" });
    gpumon.clock.learn(answer, sent);
    if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
    const text = await answer.text();
    const made = attribute(text, "made");
    if (!made) throw new Error("this is not the page");
    if (attribute(text, "build") !== document.body.dataset.build) location.reload();
    else if (made !== document.body.dataset.made) patch(await readPage(text));
  }

  async function refresh() {
    if (Date.now() < due || isPaused || isBusy || (document.hidden && !gpumon.watches)) return;
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
