// The strip of hosts, by group: shows those that the question shows, and makes room for itself when a link jumps.
//
// takes: on state link
(() => {
  "use strict";
  const toolbar = document.querySelector(".toolbar");
  let links = null;

  function update() {
    const strip = document.querySelector(".strip");
    if (!strip) return;
    links ??= new Map([...strip.querySelectorAll("a")].map((link) => [link.getAttribute("href"), link]));
    for (const host of gpumon.state.hosts) {
      const link = links.get(host.page ? host.page + gpumon.link("host", host.name) : `#${host.anchor}`);
      if (link && link.hidden === host.shown) link.hidden = !host.shown;
    }
    for (const row of strip.children) row.hidden = ![...row.getElementsByTagName("a")].some((link) => !link.hidden);
  }

  if (toolbar) {
    new ResizeObserver(() => {
      const height = getComputedStyle(toolbar).position === "sticky" ? toolbar.offsetHeight : 0;
      document.documentElement.style.setProperty("--toolbar-height", `${height}px`);
    }).observe(toolbar);
  }
  gpumon.on("update", () => (links = null));
  gpumon.on("filter", update);
})();
