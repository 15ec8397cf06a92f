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
  gpumon.on("filter", update);
  update();
})();
