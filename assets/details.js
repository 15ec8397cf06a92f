// What is known of one GPU, as elements: its faults, users, processes and facts, for its tooltip and its panel.
(() => {
  "use strict";
  const { element, count, memoryText, duration } = gpumon;
  const OF_RIBBON = { b: "busy", h: "held idle", f: "free" };
  const SLOT_S = 900;
  const DAY_S = 86400;
  const MOST_JOBS = 3;

  // The order is that of publish/page/data.py.
  function read(gpu) {
    const [packed = null, fan = null, limit = null, slowdown = null, rows, sentence, facts, faults, more, job] = gpu.detail;
    const { owners, programs } = gpu.data;
    const processes = (rows || []).map(([pid, owner, program, mib = null, elapsed = null, job, ended, line]) => ({
      pid, owner: owners[owner], program: programs[program], mib, elapsed, job, ended, line,
    }));
    const [moreProcesses, moreUsers, listed] = more || [0, 0, null];
    const users = listed ? listed.map(([owner, mib, isLeast, number]) => ({ owner: owners[owner], mib, isLeast, number })) : summed(processes);
    return { uuid: unpacked(packed), fan, limit, slowdown, processes, users, moreProcesses, moreUsers, sentence, facts: facts || [], faults: faults || [], job: job || null };
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
    const users = [...found.values()].map((user) => ({ ...user, isLeast: user.unknown > 0 && user.unknown < user.number }));
    return users.sort((one, two) => (two.mib ?? 0) - (one.mib ?? 0) || gpumon.byName(one.owner[0], two.owner[0]));
  }

  const person = ([name, isName]) => (isName ? gpumon.things.link("user", [name], name) : element("bdi", { className: "nobody" }, name));
  const small = (...content) => element("small", {}, element("bdi", {}, ...content));

  function faultItem([word, detail, explanation, isFault]) {
    const item = element("li", { className: isFault ? "broken" : "" });
    if (isFault) item.append(element("i", { className: "icon i-failed" }), " ");
    item.append(element("b", {}, word));
    if (detail) item.append(" ", element("bdi", {}, detail));
    if (explanation) item.append(element("small", {}, explanation));
    return item;
  }

  function userItem({ owner, mib, isLeast, number }) {
    const amount = element("b", {}, `${isLeast ? "≥ " : ""}${memoryText(mib)}`);
    return element("li", {}, person(owner), " ", amount, " ", element("small", {}, `${number} ${number === 1 ? "process" : "processes"}`));
  }

  function processRow({ pid, owner, program, mib, elapsed, job, ended, line }, jobs) {
    const name = element("td", { className: "name" }, element("bdi", {}, program));
    const known = jobs.find(({ id }) => id === job);
    if (job) name.append(" ", small(known ? gpumon.things.link("job", [known.address], job) : job));
    if (line) name.append(" ", Object.assign(small(line), { className: "line" }));
    const cells = [element("td", {}, pid), element("td", { className: "user" }, person(owner)), name];
    cells.push(element("td", {}, memoryText(mib)), element("td", {}, duration(elapsed)));
    return element("tr", { className: ended ? "gone" : "" }, ...cells);
  }

  function table({ processes, moreProcesses }, jobs) {
    const heads = ["PID", "User", "Process", "Memory", "Runtime"].map((title) => element("th", { scope: "col" }, title));
    const rows = processes.map((one) => processRow(one, jobs));
    if (moreProcesses) {
      rows.push(element("tr", { className: "rest" }, element("td", { colSpan: 5 }, `+ ${moreProcesses} more`)));
    }
    return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  }

  // busy 14 h, free 9 h, unknown 1 h: the ribbon in words.
  function lastDay(ribbon) {
    const seconds = { busy: 0, "held idle": 0, free: 0 };
    for (const [, letter, length] of ribbon.matchAll(/([a-z ])(\d+)/g)) {
      if (letter in OF_RIBBON) seconds[OF_RIBBON[letter]] += length * SLOT_S;
    }
    const known = Object.values(seconds).reduce((sum, length) => sum + length, 0);
    const parts = Object.entries({ ...seconds, unknown: DAY_S - known });
    return parts.filter(([, length]) => length >= SLOT_S).map(([word, length]) => `${word} ${duration(length)}`).join(", ");
  }

  const unit = (number, text) => (number === null ? "–" : `${number} ${text}`);

  // Of jobs that run elsewhere too: 6 GPUs on 2 hosts.
  function jobFacts(jobs) {
    const { size, link } = gpumon.things;
    const large = jobs.filter(({ places }) => places.length > 1 || places[0].cards.length > 1);
    return large.slice(0, MOST_JOBS).map((job) => ["Part of a job", link("job", [job.address], size(job))]);
  }

  function slurmFacts([words, ends = null]) {
    return [["Slurm job", words], ...(ends === null ? [] : [["Ends by", gpumon.things.when(ends), " at the latest"]])];
  }

  function facts(gpu, { uuid, fan, limit, slowdown, facts: more, job }, jobs) {
    const { gigabytes } = gpumon;
    const ribbon = document.getElementById(gpu.anchor)?.dataset.r;
    const power = gpu.power === null || limit === null ? unit(gpu.power, "W") : `${gpu.power} / ${limit} W`;
    const found = [
      ["Memory free", gpu.free === null ? "–" : `${gigabytes(gpu.free)} / ${gigabytes(gpu.total)} GB`],
      ...jobFacts(jobs),
      ...(job ? slurmFacts(job) : []),
      ...more,
      ["Temperature", gpu.temperature === null || slowdown === null ? unit(gpu.temperature, "°C") : `${gpu.temperature} / ${slowdown} °C`],
      ["Fan", unit(fan, "%")],
      ["Power", power],
      ...(ribbon ? [["Last 24 h", lastDay(ribbon)]] : []),
    ].map(([label, ...value]) => element("div", {}, element("dt", {}, label), element("dd", {}, element("bdi", {}, ...value))));
    const copied = element("dd", {}, element("bdi", {}, uuid ?? "–"));
    if (uuid) {
      const button = element("button", { type: "button", ariaLabel: `Copy ${uuid}` }, "copy");
      button.dataset.copy = uuid;
      copied.append(" ", button);
    }
    return element("dl", {}, ...found, element("div", {}, element("dt", {}, "UUID"), copied));
  }

  function make(gpu) {
    const known = read(gpu);
    const jobs = gpumon.things.jobsAt(gpu);
    const parts = [];
    if (known.faults.length) parts.push(element("ul", { className: "health" }, ...known.faults.map(faultItem)));
    if (known.users.length) {
      const rest = known.moreUsers ? [element("li", { className: "rest" }, `+ ${known.moreUsers} more`)] : [];
      parts.push(element("ul", { className: "users" }, ...known.users.map(userItem), ...rest), table(known, jobs));
    } else parts.push(element("p", {}, known.sentence || "No processes."));
    return [...parts, facts(gpu, known, jobs)];
  }

  // Users, processes, jobs, UUID and faults, for the search.
  function words(gpu) {
    const { uuid, processes, users, faults, facts: more, job } = read(gpu);
    const told = processes.flatMap(({ pid, program, job, line }) => [pid, program, job || "", line || ""]);
    const parts = [uuid ?? "", ...users.map(({ owner }) => owner[0]), ...told, ...more.flat(), job?.[0] ?? "", ...faults.flatMap(([word, detail]) => [word, detail])];
    return parts.join(" ").toLowerCase();
  }

  gpumon.details = { make, read, words };
})();
