// The bar of hosts: shows those that the search shows, in the same order, and makes room for itself when a link jumps.
(() => {
  "use strict";
  const toolbar = document.querySelector(".toolbar");
  const places = document.querySelector(".places");

  function update() {
    if (!places) return;
    const links = new Map([...places.children].map((link) => [link.getAttribute("href").slice(1), link]));
    const wanted = gpumon.hosts.map((host) => links.get(host.anchor));
    gpumon.hosts.forEach((host, place) => {
      const link = wanted[place];
      if (link && link.hidden === host.shown) link.hidden = !host.shown;
    });
    if (wanted.some((link, place) => link && places.children[place] !== link)) places.append(...wanted.filter(Boolean));
  }

  if (toolbar) {
    new ResizeObserver(() => {
      const height = getComputedStyle(toolbar).position === "sticky" ? toolbar.offsetHeight : 0;
      document.documentElement.style.setProperty("--toolbar-height", `${height}px`);
    }).observe(toolbar);
  }
  const FLASH_MS = 1600;

  function flash(element) {
    element.classList.add("flash");
    setTimeout(() => element.classList.remove("flash"), FLASH_MS);
  }

  // A link to a host or a GPU leads there, whatever hides it: filters are cleared, and in the table it is a row.
  function go(anchor) {
    if (!gpumon.uncover(anchor)) return false;
    const isRow = (card) => card === anchor || card.startsWith(`${anchor}:`);
    const row = document.documentElement.dataset.view === "table" ? gpumon.rowOf(isRow) : null;
    const target = row ?? document.getElementById(anchor);
    target.scrollIntoView({ block: row ? "center" : "start" });
    flash(target);
    return true;
  }

  document.addEventListener("click", (event) => {
    const anchor = event.target.closest("a[href^='#host-']")?.getAttribute("href").slice(1);
    if (!anchor || event.ctrlKey || event.metaKey || event.shiftKey || !go(anchor)) return;
    event.preventDefault();
    history.replaceState(null, "", `${location.search}#${anchor}`);
  });
  // An address with a host or GPU in it: the browser goes there by itself, unless it is hidden.
  function arrive() {
    const anchor = decodeURIComponent(location.hash.slice(1));
    if (anchor.startsWith("host-") && document.getElementById(anchor)?.checkVisibility() !== true) go(anchor);
  }

  addEventListener("load", arrive);
  addEventListener("hashchange", arrive);
  gpumon.on("filter", update);
  update();
})();
