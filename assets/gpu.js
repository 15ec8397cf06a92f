// A GPU as a panel: who has it, its processes and readings, its charts as wide as the window allows, its record.
//
// takes: element state slotOf things sentences details lastDay places
(() => {
  "use strict";
  const { element, things } = gpumon;

  function find(name) {
    const cut = name.lastIndexOf("/");
    const host = gpumon.state.hosts.find((one) => one.name === name.slice(0, cut)) ?? gpumon.state.hosts.find((one) => one.short === name.slice(0, cut));
    return host?.gpus.find((gpu) => gpu.index === name.slice(cut + 1)) ?? null;
  }

  // A GPU that is cut: its slices, each with a panel of its own.
  function cut(name, place) {
    const slices = gpumon.state.hosts.flatMap((host) => host.gpus.filter((gpu) => gpu.isSlice && [host.name, host.short].some((one) => name === `${one}/${gpu.index.split(":")[0]}`)));
    if (!slices.length) return null;
    place.append(gpumon.sentences.cut(slices), things.gpus(slices));
    return `${slices[0].host.short} GPU ${slices[0].index.split(":")[0]}`;
  }

  function open(name, place) {
    const gpu = find(name);
    if (!gpu) return cut(name, place);
    const summary = gpumon.sentences.gpu(gpu);
    summary.append(" ", element("a", { href: `#${gpu.anchor}` }, "its card"));
    place.append(summary, ...gpumon.details.make(gpu));
    gpumon.lastDay(place, gpu);
    place.append(...things.record(gpu.host, (event) => event.gpus.includes(Number(gpu.index.split(":")[0]))));
    return `${gpu.host.short} ${gpumon.slotOf(gpu)}`;
  }

  gpumon.places.register({ place: "gpu", word: "GPU", tab: "now", open });
})();
