// One word of the search: whether it is found in a GPU, or in a host without any.
gpumon.search = (() => {
  "use strict";
  const INDEX = /^\d{1,2}(:\d{0,2})?$/;
  const LONG = 3; // letters from which on tooltips are searched too
  const gpuDetail = (gpu) => (gpu.found ??= gpumon.details.words(gpu));

  function hostDetail(host) {
    if (host.detail !== undefined) return host.detail;
    const lines = document.getElementById(host.anchor)?.querySelectorAll(".about, .fault, .reason") ?? [];
    return (host.detail = [...lines].map((line) => line.textContent).join(" ").toLowerCase());
  }

  return (word) => {
    const inHost = (host) => host.text.includes(word) || (word.length >= LONG && hostDetail(host).includes(word));
    // One or two digits are the index of a GPU: every model has a 4 in its name somewhere.
    const isIndex = (gpu) => gpu.index === word || gpu.index.startsWith(`${word}:`);
    const isInIt = (gpu) => gpu.text.includes(word) || inHost(gpu.host) || (word.length >= LONG && gpuDetail(gpu).includes(word));
    return { inHost, inGpu: INDEX.test(word) ? isIndex : isInIt };
  };
})();
