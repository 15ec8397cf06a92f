// What is known of one GPU, as elements: its faults, users, processes and facts, for its tooltip and its panel.
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
    const name = element("td", { className: "name" }, element("bdi", {}, program));
    const known = jobs.find(({ id }) => id === job);
    if (job) name.append(" ", small(known ? things.link("job", [known.address], job) : job));
    if (line) name.append(" ", Object.assign(small(line), { className: "line" }));
    const cells = [element("td", {}, pid), element("td", { className: "user" }, person(owner)), name];
    cells.push(element("td", { title: amounts.exact(mib) }, amounts.text(mib, total)), element("td", {}, duration(elapsed)));
    return element("tr", { className: ended ? "gone" : "" }, ...cells);
  }

  function table({ processes, moreProcesses }, jobs, total) {
    const heads = ["PID", "User", "Process", "Memory", "Runtime"].map((title) => element("th", { scope: "col" }, title));
    const rows = processes.map((one) => processRow(one, jobs, total));
    if (moreProcesses) {
      rows.push(element("tr", { className: "rest" }, element("td", { colSpan: 5 }, `+ ${moreProcesses} more`)));
    }
    return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  }

  // busy 14 h 20 min, free 9 h 40 min: the parts of the last 24 hours, which add up to them.
  function lastDay(spent) {
    const rest = DAY_MIN - spent.reduce((sum, minutes) => sum + minutes, 0);
    // Each part is rounded to a minute: a rest of one is none.
    const parts = [...SPENT.map((word, place) => [word, spent[place]]), ["unknown", rest > 1 ? rest : 0]];
    return parts.filter(([, minutes]) => minutes > 0).map(([word, minutes]) => `${word} ${clockTime(minutes)}`).join(", ");
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

  function memoryFree({ free, total }) {
    if (free === null) return "–";
    return element("span", { title: `${free} / ${total} MiB` }, `${amounts.gigabytes(free, total)} / ${amounts.gigabytes(total, total)} GB`);
  }

  function facts(gpu, { uuid, fan, limit, slowdown, facts: more, job }, jobs) {
    const spent = gpumon.past?.of(gpu)?.spent;
    const power = gpu.power === null || limit === null ? unit(gpu.power, "W") : `${gpu.power} / ${limit} W`;
    const found = [
      ["Memory free", memoryFree(gpu)],
      ...jobFacts(jobs),
      ...(job ? slurmFacts(job) : []),
      ...more,
      ["Temperature", gpu.temperature === null || slowdown === null ? unit(gpu.temperature, "°C") : `${gpu.temperature} / ${slowdown} °C`],
      ["Fan", unit(fan, "%")],
      ["Power", power],
      ...(spent ? [["Last 24 h", lastDay(spent)]] : []),
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
    const { known } = gpu;
    const jobs = things.jobsAt(gpu);
    const parts = [];
    if (known.faults.length) parts.push(element("ul", { className: "health" }, ...known.faults.map(faultItem)));
    if (known.users.length) {
      const rest = known.moreUsers ? [element("li", { className: "rest" }, `+ ${known.moreUsers} more`)] : [];
      parts.push(element("ul", { className: "users" }, ...known.users.map((user) => userItem(user, gpu.total)), ...rest), table(known, jobs, gpu.total));
    } else parts.push(element("p", {}, known.sentence || "No processes."));
    return [...parts, facts(gpu, known, jobs)];
  }

  gpumon.details = { make };
})();
