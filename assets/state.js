// What changes while the page is open, all of it; and what is counted of it.
//
// takes: count readHosts
// gives: state take gpuAt slotOf tally tallied
(() => {
  "use strict";
  const state = {
    hosts: [], // in the order of the JSON blocks, which refer to them by their place
    ordered: [], // the same as they stand on the page
    models: [],
    vendors: [], // in small letters
    isOverview: false,
    version: 0, // of the data: one more with each refresh
    isUpdating: false, // a refresh is being put in
    asked: {}, // the question, as the URL has it
    me: "", // "I am"
    shown: [], // GPUs that the question shows
    isFiltered: false,
    watches: false, // the bell is on
    freed: 0, // how many more are free since the window was looked at, where the bell is on
    title: "", // of the window on Now
    heading: "", // of the tab or the panel that is open; empty on Now
  };

  function take(data, hosts) {
    // Cards that the search has hidden stay so until it looks again.
    const before = new Map(state.hosts.map((host) => [host.anchor, host]));
    for (const host of hosts) host.isPart = before.get(host.anchor)?.isPart ?? false;
    state.models = [...new Set(hosts.flatMap((host) => host.gpus.map((gpu) => gpu.model)))];
    state.vendors = data.vendors.map((name) => name.toLowerCase());
    state.isOverview = Boolean(data.parts);
    state.hosts = hosts;
    state.ordered = [...hosts];
    state.version += 1;
  }

  gpumon.gpuAt = (anchor) => {
    const host = state.hosts.find((one) => anchor.startsWith(`${one.anchor}:`));
    return host?.gpus.find((gpu) => gpu.anchor === anchor) ?? null;
  };

  // GPU 3, or GPU 0 slice 2
  gpumon.slotOf = ({ index }) => `GPU ${index.replace(":", " slice ")}`;

  // As the headline counts: whole GPUs; one that is cut counts where all of its slices do, and the slices apart.
  function tally(gpus) {
    const slices = gpus.filter((gpu) => gpu.isSlice);
    const card = ({ host, index }) => `${host.anchor} ${index.split(":")[0]}`;
    const cut = new Map();
    for (const gpu of slices) cut.set(card(gpu), (cut.get(card(gpu)) ?? 0) + 1);
    const isWhole = (gpu) => gpu.host.gpus.filter((other) => other.isSlice && card(other) === card(gpu)).length === cut.get(card(gpu));
    const complete = new Set(slices.filter(isWhole).map(card)).size;
    return { gpus: gpus.length - slices.length + complete, slices: slices.length };
  }

  gpumon.tallied = (list) => {
    const { gpus, slices } = tally(list);
    return `${gpumon.count(gpus, "GPU")}${slices ? ` + ${gpumon.count(slices, "slice")}` : ""}`;
  };

  gpumon.state = state;
  gpumon.take = take;
  gpumon.tally = tally;
  const data = JSON.parse(document.getElementById("data").textContent);
  take(data, gpumon.readHosts(data));
})();
