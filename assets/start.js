// Before the first paint: what decides how the page looks, so that nothing jumps or flashes.
(() => {
  "use strict";
  const root = document.documentElement;
  const asked = new URLSearchParams(location.search);
  root.classList.add("js");
  root.classList.toggle("kiosk", ["", "1"].includes(asked.get("kiosk")));
  root.classList.toggle("embed", ["", "1"].includes(asked.get("embed")));
  if (asked.get("view")) root.dataset.view = asked.get("view");
  // The tab or thing of the address; places.js knows the rest of the addresses.
  const [, tab, thing] = /^#(?:(people|supply|health)$|(host|user|gpu|job)\/)/.exec(location.hash) ?? [];
  root.dataset.place = tab ?? (thing ? "thing" : "now");
  try {
    const theme = localStorage.getItem("gpumon.theme");
    if (theme) root.dataset.theme = theme;
  } catch {
    // A browser that keeps nothing still shows everything.
  }
})();
