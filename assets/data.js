// Rows of the page's data as records, read by the names of columns that come with them; publish/page/columns.py declares them.
//
// takes: byName
// gives: named readHost readHosts readDetail
(() => {
  "use strict";
  function named(columns, row) {
    const record = {};
    for (let place = 0; place < columns.length; place += 1) record[columns[place]] = row[place];
    return record;
  }

  // Thousands are made at each refresh: what few of them are asked for is worked out then.
  class Gpu {
    constructor(host, record, place, data) {
      const { index, kind, model, utilization, used, total, temperature, power, offered, device, since, users, runtime, detail, ends } = record;
      Object.assign(this, { host, index, place, utilization, used, total, temperature, power, since, detail, data });
      const [mark, word] = data.states[kind];
      Object.assign(this, { kind: mark, word, held: users, ran: runtime, endsAt: ends });
      this.isOffered = Boolean(offered);
      this.isSlice = index.includes(":");
      this.free = total === null || used === null ? null : total - used;
      this.anchor = `${host.anchor}:${index.replace(":", ".")}`;
      this.device = device || index; // what chooses it for a program
      const { short, name, environment, vendor } = modelOf(data, model);
      Object.assign(this, { model: short, name, environment, vendor });
    }

    get known() {
      return (this.details ??= readDetail(this));
    }

    get runtime() {
      return this.ran === 0 ? (this.known.processes[0]?.elapsed ?? null) : this.ran;
    }

    // By when its Slurm job ends, in seconds since 1970, where it is offered then.
    get ends() {
      if (this.endsAt !== undefined) return this.endsAt;
      const { job } = this.known;
      return job?.offered ? (job.ends ?? null) : null;
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
  }

  const models = new WeakMap();
  function modelOf(data, place) {
    if (!models.has(data)) models.set(data, data.models.map((row) => named(data.columns.model, row)));
    return models.get(data)[place];
  }

  function unpacked(uuid) {
    if (!uuid?.startsWith("~")) return uuid;
    const digits = [...atob(uuid.slice(1))].map((byte) => byte.charCodeAt(0).toString(16).padStart(2, "0")).join("");
    return `GPU-${digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")}`;
  }

  function summed(processes) {
    const found = new Map();
    for (const { owner, mib } of processes) {
      const user = found.get(owner) ?? { owner, mib: null, unknown: 0, number: 0 };
      user.number += 1;
      if (mib === null) user.unknown += 1;
      else user.mib = (user.mib ?? 0) + mib;
      found.set(owner, user);
    }
    const users = [...found.values()].map((user) => ({ ...user, least: user.unknown > 0 && user.unknown < user.number }));
    return users.sort((one, two) => (two.mib ?? 0) - (one.mib ?? 0) || gpumon.byName(one.owner[0], two.owner[0]));
  }

  function readJob(row, { columns, whose }) {
    const { id, whose: place, ...times } = named(columns.job, row);
    return { ...times, id, words: [id, whose[place ?? 0]].filter(Boolean).join(" ") || "yes" };
  }

  // What only its tip and its panel show. An owner is a name, and whether it is that of a user.
  function readDetail({ detail, data, used }) {
    const { columns, owners, programs } = data;
    const row = named(columns.detail, detail);
    const slurm = row.job ? readJob(row.job, data) : null;
    const processes = (row.processes || []).map((values) => {
      const { rest = 0, elapsed = null, owner, program, job, ...others } = named(columns.process, values);
      const mib = rest === "" ? null : (used ?? 0) - rest;
      return { ...others, mib, elapsed, job: job === 1 ? `slurm:${slurm.id}` : job, owner: owners[owner ?? 0], program: programs[program ?? 0] };
    });
    const more = row.more ? named(columns.more, row.more) : { processes: 0, users: 0 };
    const listed = more.listed?.map((values) => named(columns.user, values)).map((user) => ({ ...user, owner: owners[user.owner] }));
    const { fan = null, limit = null, slowdown = null } = row;
    return {
      uuid: unpacked(row.uuid) ?? null, fan, limit, slowdown, processes,
      sentence: row.sentence, facts: row.facts || [],
      users: listed ?? summed(processes), moreProcesses: more.processes, moreUsers: more.users,
      faults: (row.faults || []).map((values) => named(columns.fault, values)),
      job: slurm,
    };
  }

  // The few numbers that an overview has of all GPUs of a host; split/overview_data.py has them.
  function spread(columns, row) {
    const { kinds, models: places = 0, totals = 0, offered = 0, indexes = 0, ends = 0 } = named(columns.gpus, row);
    const at = (values, place) => (Array.isArray(values) ? values[place] : values);
    const unknown = { utilization: null, used: null, users: 0, runtime: null, temperature: null, power: null, since: null, detail: [] };
    const records = [...kinds].map((kind, place) => ({
      ...unknown, kind: Number(kind), index: indexes ? indexes[place] : String(place),
      model: at(places, place), total: at(totals, place) || null, ends: at(ends, place) || null,
    }));
    for (const values of offered || []) {
      const { place, used, device } = named(columns.offered, values);
      Object.assign(records[place], { used, device, offered: 1 });
    }
    return records;
  }

  function readHost(row, place, data) {
    const { columns } = data;
    const { gpus, slurm, part = 0, notice, facts, ...rest } = named(columns.host, row);
    const { name } = rest;
    const host = { ...rest, place, slurm: slurm || null };
    host.facts = (facts || []).map(([label, value]) => [data.labels[label], value]);
    host.notice = notice ? named(columns.notice, notice) : null; // why it shows no GPUs
    host.short = name.includes(":") || /^\d+\./.test(name) ? name : name.split(".")[0];
    host.page = data.parts ? data.parts[part][1] : ""; // the file with its cards, where that is another one
    const records = data.parts ? spread(columns, gpus) : gpus.map((values) => named(columns.gpu, values));
    host.gpus = records.map((gpu, number) => new Gpu(host, gpu, number, data));
    return host;
  }

  gpumon.named = named;
  gpumon.readHost = readHost;
  gpumon.readHosts = (data) => data.hosts.map((row, place) => readHost(row, place, data));
  gpumon.readDetail = readDetail;
})();
