// A GPU as a panel: what its tooltip shows, and its charts as wide as the window allows.
(() => {
  "use strict";
  const { element } = gpumon;

  function find(name) {
    const cut = name.lastIndexOf("/");
    const host = gpumon.hosts.find((one) => one.name === name.slice(0, cut)) ?? gpumon.hosts.find((one) => one.short === name.slice(0, cut));
    return host?.gpus.find((gpu) => gpu.index === name.slice(cut + 1)) ?? null;
  }

  // A GPU that is cut: its slices, each with a panel of its own.
  function cut(name, place) {
    const slices = gpumon.hosts.flatMap((host) => host.gpus.filter((gpu) => gpu.isSlice && [host.name, host.short].some((one) => name === `${one}/${gpu.index.split(":")[0]}`)));
    if (!slices.length) return null;
    place.append(gpumon.things.gpus(slices));
    return `${slices[0].host.short} GPU ${slices[0].index.split(":")[0]}`;
  }

  function open(name, place) {
    const gpu = find(name);
    if (!gpu) return cut(name, place);
    const card = document.getElementById(gpu.anchor);
    const state = element("p", { className: `state-line ${gpu.kind}` }, element("span", { className: "state" }, gpu.word));
    const when = (card?.querySelector(".when") ?? card?.children[4]?.firstChild)?.textContent ?? "";
    state.append(element("bdi", {}, gpu.name), element("span", { className: "quiet" }, when), element("a", { href: `#${gpu.anchor}` }, "its card"));
    const panel = element("div", { className: "gpu-panel" }, state, ...gpumon.details.make(gpu));
    place.append(panel);
    gpumon.detail?.(panel, gpu, panel.clientWidth);
    return `${gpu.host.short} GPU ${gpu.index}`;
  }

  gpumon.places.register({ place: "gpu", word: "GPU", tab: "now", open });
})();
