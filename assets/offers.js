// Where can I run? The rule of docs/terminal.md, as survey/offers.py has it; tests/survey/test_offers.py holds both to one answer.
//
// takes: amounts
// gives: offers
(() => {
  "use strict";
  const RAM_PER_GPU_MIB = 8 * 1024;
  const { amounts } = gpumon;

  // a100 is in "NVIDIA A100-SXM4-80GB"; A10 is not, nor is L4 in L40S.
  function pattern(wanted) {
    const words = wanted.toLowerCase().match(/[0-9]+|[a-z]+/g);
    if (!words) return null;
    const isNumber = (word) => /^[0-9]/.test(word);
    const before = isNumber(words[0]) ? "(?<![0-9])" : "(?<![0-9a-z])";
    const after = isNumber(words.at(-1)) ? "(?![0-9])" : "";
    return new RegExp(before + words.join("[^0-9a-z]*") + after);
  }

  // The whole name of a model of the lab means just that model; other text is looked for in the names.
  function modelMatcher(hosts, wanted) {
    if (!wanted) return () => true;
    const exact = wanted.toLowerCase();
    const isExact = (gpu) => gpu.model.toLowerCase() === exact;
    if (hosts.some((host) => host.gpus.some(isExact))) return isExact;
    const found = pattern(wanted);
    return (gpu) => found !== null && [gpu.model, gpu.name].some((name) => found.test(name.toLowerCase()));
  }

  const hasMemory = (gpu, gb) => amounts.hasFree(gpu.free, gpu.total, gb);
  // The card itself, were nobody on it.
  const isLarge = (gpu, gb) => amounts.hasFree(gpu.total, gpu.total, gb);

  // Small before large. Whoever does not say how much is needed is given whole GPUs before slices.
  const size = (gpu, { gb }) => [gpu.isSlice && !gb ? 1 : 0, gpu.total ?? Infinity];

  function compare(one, two) {
    const place = one.findIndex((value, at) => value !== two[at]);
    return place < 0 ? 0 : one[place] < two[place] ? -1 : 1;
  }

  // The smallest that will do, of one model if there are enough of one.
  function pick(fits, question) {
    const ordered = [...fits].sort((one, two) => compare(size(one, question), size(two, question)));
    const models = new Map();
    for (const gpu of ordered) models.set(gpu.model, [...(models.get(gpu.model) ?? []), gpu]);
    const enough = [...models.values()].find((gpus) => gpus.length >= question.n);
    return (enough ?? ordered).slice(0, question.n);
  }

  // A program can use GPUs of one vendor only: the one that has enough, of several the one with the smallest.
  function byVendor(gpus) {
    const vendors = new Map();
    for (const gpu of gpus) vendors.set(gpu.environment, [...(vendors.get(gpu.environment) ?? []), gpu]);
    return [...vendors.values()];
  }

  function ofOneVendor(fits, question) {
    const smallest = (gpus) => size(pick(gpus, question)[0], question);
    const isBetter = (one, two) => {
      const [enough, others] = [one, two].map((gpus) => Math.min(gpus.length, question.n));
      return enough > others || (enough === others && compare(smallest(one), smallest(two)) < 0);
    };
    return byVendor(fits).reduce((best, gpus) => (best.length && !isBetter(gpus, best) ? best : gpus), []);
  }

  function tight(host, { n, gb }) {
    if (host.ram === null || host.ram >= n * Math.max(amounts.mib(gb), RAM_PER_GPU_MIB)) return host.against;
    const tenths = Math.floor((Math.max(0, host.ram) * 10) / 1024);
    return [`only ${tenths < 100 ? (tenths / 10).toFixed(1) : Math.floor(tenths / 10)} GB of RAM free`, ...host.against];
  }

  function rank({ host, gpus, fits, isMixed, tight }, question) {
    const [isSlice, total] = size(gpus[0], question);
    const [note, mixed] = [host.note ? 1 : 0, isMixed ? 1 : 0];
    return [tight.length, note, mixed, isSlice, question.gb ? total : 0, -fits.length, host.load ?? 1, host.place];
  }

  // Best first, and the host that comes nearest where none will do. `isFresh`: whether the data of a host can be believed.
  function offers(hosts, question, isFresh = () => true) {
    const isWanted = modelMatcher(hosts, question.model);
    const fitsOf = (host) =>
      host.gpus.filter(
        (gpu) => gpu.isOffered && (question.n === 1 || !gpu.isSlice) && hasMemory(gpu, question.gb) && isWanted(gpu),
      );
    const asked = hosts
      .filter(isFresh)
      .map((host) => ({ host, fits: ofOneVendor(fitsOf(host), question) }));
    const able = asked
      .filter(({ fits }) => fits.length >= question.n)
      .map((answer) => {
        const gpus = pick(answer.fits, question);
        const isMixed = new Set(gpus.map((gpu) => gpu.model)).size > 1;
        return { ...answer, gpus, isMixed, tight: tight(answer.host, question) };
      })
      .map((answer) => ({ ...answer, rank: rank(answer, question) }))
      .sort((one, two) => compare(one.rank, two.rank));
    const nearest = asked.reduce((best, one) => (one.fits.length > (best?.fits.length ?? 0) ? one : best), null);
    return { able, nearest };
  }

  // By when at the latest, from the time limits of Slurm jobs, as survey/when.py has it: the earliest host, or null.
  function soonest(hosts, question, now, isFresh = () => true) {
    const isWanted = modelMatcher(hosts, question.model);
    const canEnd = (gpu) => gpu.ends !== null && isLarge(gpu, question.gb);
    const isSoon = (gpu) => !gpu.isSlice && isWanted(gpu) && (gpu.isOffered ? hasMemory(gpu, question.gb) : canEnd(gpu));
    const at = (gpu) => (gpu.isOffered ? 0 : Math.max(gpu.ends, now));
    const found = hosts
      .filter(isFresh)
      .flatMap((host) => byVendor(host.gpus.filter(isSoon)).map((gpus) => ({ host, gpus })))
      .map(({ host, gpus }) => ({ host, gpus: gpus.sort((one, two) => at(one) - at(two)).slice(0, question.n) }))
      .filter(({ gpus }) => gpus.length === question.n)
      .map((answer) => ({ ...answer, at: at(answer.gpus.at(-1)) }))
      .filter((answer) => answer.at > 0);
    return found.reduce((best, one) => (best && best.at <= one.at ? best : one), null);
  }

  gpumon.offers = { offers, soonest, modelMatcher, hasMemory, isLarge };
})();
