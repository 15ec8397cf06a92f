// What the page knows, read from its JSON block, and how its parts tell each other of changes.
const gpumon = (() => {
  "use strict";
  // The order of both lists, and of the values below, is that of publish/data.py.
  const KINDS = ["free", "busy", "held", "unknown", "failed", "waiting"];
  const WORDS = ["free", "busy", "held idle", "unknown", "failed", "not fetched yet"];
  const parts = new EventTarget();

  function readGpu(host, row, { models, users, logins }) {
    const [index, kind, model, utilization, used, total, held, runtime, temperature, power, offered, device] = row;
    const names = Array.isArray(held) ? held.map((place) => users[place]) : [];
    const [short, name, environment] = models[model];
    const gpu = { host, index, kind: KINDS[kind], word: WORDS[kind], model: short, name, utilization, used, total };
    // Who has a name to show is found by login too. A user may be called "constructor".
    const loginsOf = (name) => (Object.hasOwn(logins, name) ? logins[name].split(" ") : []);
    gpu.logins = [...names, ...names.flatMap(loginsOf)].map((name) => name.toLowerCase());
    Object.assign(gpu, { names, users: names.length || Number(held) || 0, runtime, temperature, power });
    gpu.isOffered = Boolean(offered);
    // What chooses it for a program, which differs by vendor.
    Object.assign(gpu, { environment, device: device ?? index });
    gpu.isSlice = index.includes(":");
    gpu.free = total === null || used === null ? null : total - used;
    gpu.anchor = `${host.anchor}:${index.replace(":", ".")}`;
    gpu.text = `${host.text} ${gpu.model} ${name} ${gpu.logins.join(" ")} ${gpu.word}`.toLowerCase();
    return gpu;
  }

  function readHost(row, place, data) {
    const [anchor, name, group, note, status, port, load, ram, against, behind, gpus] = row;
    const short = name.includes(":") || /^\d+\./.test(name) ? name : name.split(".")[0];
    const host = { anchor, name, short, place, group, note, status, port, load, ram, against, behind };
    host.text = `${name} ${group} ${note} ${status}`.toLowerCase();
    host.gpus = gpus.map((gpu) => readGpu(host, gpu, data));
    return host;
  }

  const readHosts = (data) => data.hosts.map((row, place) => readHost(row, place, data));

  function read() {
    const data = JSON.parse(document.getElementById("data").textContent);
    self.models = [...new Set(data.models.map(([short]) => short))];
    self.hosts = readHosts(data);
  }

  const gpuAt = (anchor) => {
    const host = self.hosts.find((one) => anchor.startsWith(`${one.anchor}:`));
    return host?.gpus.find((gpu) => gpu.anchor === anchor) ?? null;
  };

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

  function tallied(list) {
    const { gpus, slices } = tally(list);
    return `${self.count(gpus, "GPU")}${slices ? ` + ${self.count(slices, "slice")}` : ""}`;
  }

  // The URL carries the view, so that a link shares it.
  const params = {
    get: (name) => new URLSearchParams(location.search).get(name) ?? "",
    set(values) {
      const search = new URLSearchParams(location.search);
      for (const [name, value] of Object.entries(values)) value ? search.set(name, value) : search.delete(name);
      const query = search.toString().replace(/=(?=&|$)/g, "");
      history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash);
    },
  };

  const memory = {
    get(name) {
      try {
        return localStorage.getItem(`gpumon.${name}`);
      } catch {
        return null;
      }
    },
    set(name, value) {
      try {
        value ? localStorage.setItem(`gpumon.${name}`, value) : localStorage.removeItem(`gpumon.${name}`);
      } catch {
        // Nothing is kept, and nothing else is lost.
      }
    },
  };

  function gigabytes(mib) {
    if (mib === null) return "–";
    const amount = mib / 1024;
    return amount < 0.05 ? "0" : amount.toFixed(amount < 9.95 ? 1 : 0);
  }

  function duration(seconds) {
    if (seconds === null) return "–";
    const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
    if (minutes < 1) return `${Math.floor(seconds)} s`;
    if (hours < 1) return `${minutes} min`;
    if (days < 1) return `${hours} h`;
    return hours % 24 && days < 100 ? `${days} d ${hours % 24} h` : `${days} d`;
  }

  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  const self = {
    params,
    memory,
    gigabytes,
    duration,
    element,
    count: (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`,
    byName: new Intl.Collator("en", { numeric: true }).compare,
    on: (what, action) => parts.addEventListener(what, action),
    tell: (what) => parts.dispatchEvent(new Event(what)),
    read,
    readHosts,
    gpuAt,
    tally,
    tallied,
  };
  read();
  return self;
})();
