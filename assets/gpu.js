// A GPU as a panel: what its tooltip shows, and its charts as wide as the window allows.
//
// takes: element duration state clock things details lastDay places
(() => {
  "use strict";
  const { element, duration, things } = gpumon;

  function find(name) {
    const cut = name.lastIndexOf("/");
    const host = gpumon.state.hosts.find((one) => one.name === name.slice(0, cut)) ?? gpumon.state.hosts.find((one) => one.short === name.slice(0, cut));
    return host?.gpus.find((gpu) => gpu.index === name.slice(cut + 1)) ?? null;
  }

  // A GPU that is cut: its slices, each with a panel of its own.
  function cut(name, place) {
    const slices = gpumon.state.hosts.flatMap((host) => host.gpus.filter((gpu) => gpu.isSlice && [host.name, host.short].some((one) => name === `${one}/${gpu.index.split(":")[0]}`)));
    if (!slices.length) return null;
    place.append(things.gpus(slices));
    return `${slices[0].host.short} GPU ${slices[0].index.split(":")[0]}`;
  }

  // Since when it is so: busy since 09:10, free for 3 h.
  function when({ kind, since }) {
    if (since === null) return [];
    if (kind !== "busy") return [`for ${duration(since * 60)}`];
    return ["since ", things.when(gpumon.clock.made() / 1000 - since * 60)];
  }

  function open(name, place) {
    const gpu = find(name);
    if (!gpu) return cut(name, place);
    const state = element("p", { className: `state-line ${gpu.kind}` }, element("span", { className: "state" }, gpu.word));
    state.append(element("bdi", {}, gpu.name), element("span", { className: "quiet" }, ...when(gpu)), element("a", { href: `#${gpu.anchor}` }, "its card"));
    const panel = element("div", { className: "gpu-panel" }, state, ...gpumon.details.make(gpu));
    place.append(panel);
    gpumon.lastDay(panel, gpu, panel.clientWidth);
    return `${gpu.host.short} GPU ${gpu.index}`;
  }

  gpumon.places.register({ place: "gpu", word: "GPU", tab: "now", open });
})();
