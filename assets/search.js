// One word of the search: whether it is found in a GPU, or in a host without any.
//
// gives: search
(() => {
  "use strict";
  const INDEX = /^\d{1,2}(:\d{0,2})?$/;
  const LONG = 3; // letters from which on processes, faults and facts are searched too

  const joined = (parts) => parts.filter(Boolean).join(" ").toLowerCase();

  const hostText = (host) => {
    const { kind, word, status } = host.notice ?? {};
    return (host.text ??= joined([host.name, host.group, host.note, kind, word, status]));
  };
  const hostDetail = (host) => (host.detailText ??= joined([...host.facts.flat(), ...host.faults, host.notice?.reason]));

  // Not the memory in words, nor how many are free: numbers would be found everywhere.
  const gpuText = (gpu) => (gpu.text ??= joined([gpu.model, gpu.name, gpu.vendor, ...gpu.logins, gpu.word, gpu.kind]));

  function gpuDetail(gpu) {
    const { uuid, processes, users, faults, facts, job } = gpu.known;
    const ofProcesses = processes.flatMap(({ pid, program, job: id, line }) => [String(pid), program, id, line]);
    const ofFaults = faults.flatMap(({ word, detail }) => [word, detail]);
    return (gpu.detailText ??= joined([uuid, ...users.map(({ owner }) => owner[0]), ...ofProcesses, ...facts.flat(), job?.words, ...ofFaults]));
  }

  // `vendors`: the name of one means its GPUs, and no program that has it in its name.
  gpumon.search = (word, vendors) => {
    const inHost = (host) => hostText(host).includes(word) || (word.length >= LONG && hostDetail(host).includes(word));
    // One or two digits are the index of a GPU: every model has a 4 in its name somewhere.
    const isIndex = (gpu) => gpu.index === word || gpu.index.startsWith(`${word}:`);
    const isOfVendor = (gpu) => gpu.vendor.toLowerCase() === word || hostText(gpu.host).includes(word);
    const isInIt = (gpu) => gpuText(gpu).includes(word) || inHost(gpu.host) || (word.length >= LONG && gpuDetail(gpu).includes(word));
    return { inHost, inGpu: INDEX.test(word) ? isIndex : vendors.includes(word) ? isOfVendor : isInIt };
  };
})();
