// A GPU as a panel: what its tooltip shows, and its charts as wide as the window allows.
(() => {
  "use strict";

  function find(name) {
    const cut = name.lastIndexOf("/");
    const host = gpumon.hosts.find((one) => one.name === name.slice(0, cut) || one.short === name.slice(0, cut));
    return host?.gpus.find((gpu) => gpu.index === name.slice(cut + 1)) ?? null;
  }

  function open(name, element) {
    const gpu = find(name);
    const made = gpu && gpumon.tooltip.make(document.getElementById(gpu.anchor));
    if (!made) return null;
    made.querySelector(".tip-title")?.remove();
    element.append(made);
    made.className = "gpu-panel";
    made.removeAttribute("role");
    const state = gpumon.element("p", { className: `${gpu.kind} state-line` }, gpumon.element("span", { className: "state" }, gpu.word));
    state.append(` ${gpu.model} `, gpumon.element("a", { href: `#${gpu.anchor}` }, "its card"));
    made.prepend(state);
    return `${gpu.host.short} GPU ${gpu.index}`;
  }

  gpumon.places.register({ place: "gpu", tab: "now", open });
})();
