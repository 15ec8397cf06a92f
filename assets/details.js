// What is known of one GPU, as the parts of its panel: its faults, users, processes and facts.
//
// takes: element amounts duration past things
// gives: details
(() => {
  "use strict";
  const { element, amounts, duration, things } = gpumon;
  const SPENT = ["busy", "held idle", "free"];
  const DAY_MIN = 1440;
  const MOST_JOBS = 3;

  const person = ([name, isName]) => (isName ? things.link("user", [name], name) : element("bdi", { className: "nobody" }, name));
  const small = (...content) => element("small", {}, element("bdi", {}, ...content));

  function faultItem({ word, detail, explanation, broken }) {
    const item = element("li", { className: broken ? "broken" : "" });
    if (broken) item.append(element("i", { className: "icon i-failed" }), " ");
    item.append(element("b", {}, word));
    if (detail) item.append(" ", element("bdi", {}, detail));
    if (explanation) item.append(element("small", {}, explanation));
    return item;
  }

  function userItem({ owner, mib, least, number }, total) {
    const amount = element("b", { title: amounts.exact(mib) }, `${least ? "≥ " : ""}${amounts.text(mib, total)}`);
    return element("li", {}, person(owner), " ", amount, " ", element("small", {}, `${number} ${number === 1 ? "process" : "processes"}`));
  }

  function processRow({ pid, owner, program, mib, elapsed, job, ended, line }, jobs, total) {
    const name = [element("bdi", { className: ended ? "gone" : "" }, program)];
    const known = jobs.find(({ id }) => id === job);
    if (job) name.push(" ", small(known ? things.link("job", [known.address], job) : job));
    if (line) name.push(" ", Object.assign(small(line), { className: "line" }));
    return [String(pid), person(owner), name, element("span", { title: amounts.exact(mib) }, amounts.text(mib, total)), duration(elapsed)];
  }

  function processes({ known, total }, jobs) {
    const { users, moreUsers, moreProcesses } = known;
    if (!users.length) return things.section("Processes", element("p", {}, known.sentence || "No processes."));
    const rest = moreUsers ? [element("li", { className: "rest" }, `+ ${moreUsers} more`)] : [];
    const list = element("ul", { className: "users" }, ...users.map((user) => userItem(user, total)), ...rest);
    const rows = known.processes.map((one) => processRow(one, jobs, total));
    const made = things.table("Table of processes", ["PID", "User", "Process", "#Memory", "#Runtime"], rows);
    return things.section("Processes", list, made, ...(moreProcesses ? [things.quiet(`+ ${moreProcesses} more`)] : []));
  }

  // busy 14 h 20 min, free 9 h 40 min: the parts of the last 24 hours, which add up to them.
  function spent(parts) {
    const rest = DAY_MIN - parts.reduce((sum, minutes) => sum + minutes, 0);
    // Each part is rounded to a minute: a rest of one is none.
    const named = [...SPENT.map((word, place) => [word, parts[place]]), ["unknown", rest > 1 ? rest : 0]];
    return named.filter(([, minutes]) => minutes > 0).map(([word, minutes]) => `${word} ${clockTime(minutes)}`).join(", ");
  }

  const clockTime = (minutes) => [[Math.floor(minutes / 60), "h"], [minutes % 60, "min"]].filter(([number]) => number).map((part) => part.join(" ")).join(" ");

  const unit = (number, text) => (number === null ? "–" : `${number} ${text}`);

  // Of jobs that run elsewhere too: 6 GPUs on 2 hosts.
  function jobFacts(jobs) {
    const { size, link } = things;
    const large = jobs.filter(({ places }) => places.length > 1 || places[0].cards.length > 1);
    return large.slice(0, MOST_JOBS).map((job) => ["Part of a job", link("job", [job.address], size(job))]);
  }

  function slurmFacts({ words, ends = null }) {
    return [["Slurm job", words], ...(ends === null ? [] : [["Ends by", things.by(ends), " at the latest"]])];
  }

  // With the exact numbers: what a vendor sells as 80 GB is not 80 GiB.
  function memoryFree({ free, total }) {
    if (free === null) return ["–"];
    const exact = element("span", { className: "unit" }, ` ${free.toLocaleString("en")} of ${total.toLocaleString("en")} MiB`);
    return [`${amounts.gigabytes(free, total)} / ${amounts.gigabytes(total, total)} GB`, exact];
  }

  function copied(uuid) {
    if (!uuid) return ["–"];
    const button = element("button", { type: "button", ariaLabel: `Copy ${uuid}` }, "copy");
    button.dataset.copy = uuid;
    return [element("bdi", {}, uuid), " ", button];
  }

  function facts(gpu, jobs) {
    const { uuid, fan, limit, slowdown, facts: more, job } = gpu.known;
    const day = gpumon.past?.of(gpu)?.spent;
    const of = (value, most, text) => (value === null || most === null ? unit(value, text) : `${value} / ${most} ${text}`);
    return things.facts([
      ["Model", element("bdi", {}, gpu.name)],
      ["Memory free", ...memoryFree(gpu)],
      ...jobFacts(jobs),
      ...(job ? slurmFacts(job) : []),
      ...more.map(([label, value]) => [label, element("bdi", {}, value)]),
      ["Temperature", of(gpu.temperature, slowdown, "°C")],
      ["Fan", unit(fan, "%")],
      ["Power", of(gpu.power, limit, "W")],
      ...(day ? [["Last 24 h", spent(day)]] : []),
      ["UUID", ...copied(uuid)],
    ]);
  }

  function make(gpu) {
    const jobs = things.jobsAt(gpu);
    const { faults } = gpu.known;
    const sick = faults.length ? [element("ul", { className: "health" }, ...faults.map(faultItem))] : [];
    return [...sick, things.row(processes(gpu, jobs), things.section("Readings", facts(gpu, jobs)))];
  }

  gpumon.details = { make, spent };
})();
