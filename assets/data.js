// What the page knows, read from its JSON block, and how its parts tell each other of changes.
const gpumon = (() => {
  "use strict";
  // The order of both lists, and of the values below, is that of publish/page/data.py.
  const KINDS = ["free", "busy", "held", "unknown", "failed", "waiting", "held"];
  const WORDS = ["free", "busy", "held idle", "unknown", "failed", "not fetched yet", "allocated"];
  const JOB = 9; // in a DETAIL
  const parts = new EventTarget();

  // Thousands are made at each refresh: what few of them are asked for is worked out then.
  class Gpu {
    constructor(host, row, place, data) {
      const [index, kind, model, utilization, used, total, held, runtime, temperature, power, offered, device, detail] = row;
      const [short, name, environment] = data.models[model];
      const word = WORDS[kind];
      Object.assign(this, { host, index, place, kind: KINDS[kind], word, model: short, name, utilization, used, total, runtime, temperature, power });
      if (runtime === 0 && detail[4]) this.runtime = detail[4][0][4] ?? null;
      this.isOffered = Boolean(offered);
      this.isSlice = index.includes(":");
      this.free = total === null || used === null ? null : total - used;
      this.anchor = `${host.anchor}:${index.replace(":", ".")}`;
      // What chooses it for a program, which differs by vendor.
      Object.assign(this, { environment, device: device || index });
      this.held = held;
      this.detail = detail;
      const [, ends = null, isOfferedThen] = detail[JOB] || [];
      this.ends = isOfferedThen ? ends : null;
      this.data = data;
    }

    get names() {
      return Array.isArray(this.held) ? this.held.map((place) => this.data.users[place]) : [];
    }

    get users() {
      return Array.isArray(this.held) ? this.held.length : this.held;
    }

    // Who has a name to show is found by login too. A user may be called "constructor".
    get logins() {
      const { logins } = this.data;
      const loginsOf = (name) => (Object.hasOwn(logins, name) ? logins[name].split(" ") : []);
      return this.names.flatMap((name) => [name, ...loginsOf(name)]).map((name) => name.toLowerCase());
    }

    get text() {
      return (this.words ??= `${this.host.text} ${this.model} ${this.name} ${this.logins.join(" ")} ${this.word} ${this.kind}`.toLowerCase());
    }
  }

  // The few numbers that an overview has of GPUs, as rows; publish/page/split/overview_data.py has the order.
  function spread([kinds, models = 0, totals = 0, offered = 0, indexes = 0, ends = 0]) {
    const at = (values, place) => (Array.isArray(values) ? values[place] : values);
    const rows = [...kinds].map((kind, place) => {
      const index = indexes ? indexes[place] : String(place);
      const detail = [...Array(JOB).fill(null), ["", at(ends, place) || null, 1]];
      return [index, Number(kind), at(models, place), null, null, at(totals, place) || null, 0, null, null, null, 0, 0, detail];
    });
    for (const [place, used, device] of offered || []) [rows[place][4], rows[place][10], rows[place][11]] = [used, 1, device];
    return rows;
  }

  function readHost(row, place, data) {
    const [anchor, name, group, note, status, port, load, ram, against, behind, gpus, slurm, part] = row;
    const short = name.includes(":") || /^\d+\./.test(name) ? name : name.split(".")[0];
    const host = { anchor, name, short, place, group, note, status, port, load, ram, against, behind, slurm: slurm || null };
    host.page = data.parts ? data.parts[part][1] : ""; // the file with its cards, where that is another one
    host.text = `${name} ${group} ${note} ${status}`.toLowerCase();
    const rows = data.parts ? spread(gpus) : gpus;
    host.gpus = rows.map((gpu, number) => new Gpu(host, gpu, number, data));
    return host;
  }

  const readHosts = (data) => data.hosts.map((row, place) => readHost(row, place, data));

  function take(data, hosts) {
    // Cards that the search has hidden stay so until it looks again.
    const before = new Map((self.hosts ?? []).map((host) => [host.anchor, host]));
    for (const host of hosts) host.isPart = before.get(host.anchor)?.isPart ?? false;
    self.models = [...new Set(data.models.map(([short]) => short))];
    self.isOverview = Boolean(data.parts);
    self.hosts = hosts; // in the order of the JSON blocks, which refer to them by their place
    self.ordered = [...hosts];
  }

  // Work on many things, a few at a time: the page is the reader's in between. Ends early when isOver() says so.
  const SLICE_MS = 12;
  async function inSlices(list, work, isOver = () => false) {
    let until = performance.now() + SLICE_MS;
    for (const one of list) {
      work(one);
      if (performance.now() < until) continue;
      await new Promise((done) => setTimeout(done));
      if (isOver()) return;
      until = performance.now() + SLICE_MS;
    }
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

  const memoryText = (mib) => (mib === null ? "–" : mib > 0 && mib < 100 ? `${mib} MB` : `${gigabytes(mib)} GB`);

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
    memory,
    gigabytes,
    memoryText,
    duration,
    element,
    count: (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`,
    byName: new Intl.Collator("en", { numeric: true }).compare,
    on: (what, action) => parts.addEventListener(what, action),
    tell: (what) => parts.dispatchEvent(new Event(what)),
    parsed: JSON.parse,
    readHost,
    readHosts,
    take,
    inSlices,
    gpuAt,
    tally,
    tallied,
  };
  const data = JSON.parse(document.getElementById("data").textContent);
  take(data, readHosts(data));
  return self;
})();
