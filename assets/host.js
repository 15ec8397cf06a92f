// A host as a panel: its facts and GPUs, its last day, week and month, who used it, and what happened to it.
//
// takes: element duration state past things sentences places
(() => {
  "use strict";
  const { element, things } = gpumon;

  const capital = (text) => text[0].toUpperCase() + text.slice(1);

  function factsOf(host, place) {
    const up = things.read().upAt(place);
    const pairs = [];
    if (host.group) pairs.push(["Group", host.group]);
    pairs.push(...host.facts.map(([name, value]) => [capital(name), value]));
    if (up) pairs.push(["Answered, 30 d", up.answered === null ? "–" : `${up.answered} %`, element("span", { className: "unit" }, `, ${up.known} % of the time known`)]);
    return things.facts(pairs);
  }

  function charts(host, place, holder) {
    const range = things.range();
    const past = gpumon.past.read();
    const { machine, machineAt } = things.read();
    const { top, ranges = [] } = machineAt(place) ?? {};
    const mine = ranges[Object.keys(things.RANGES).indexOf(range)] ?? [];
    const there = { first: machine?.first[range], step: machine?.step[range], count: machine?.count[range] };
    const gpu = { first: past?.first[range], step: past?.step[range], count: past?.count[range] };
    const levels = past?.hosts[place]?.levels[range];
    const wanted = [
      { title: "GPU utilization", letters: levels?.utilization, top: 100, unit: "%", ...gpu },
      { title: "GPU memory in use", letters: levels?.memory, top: 100, unit: "%", ...gpu },
      { title: "CPU", letters: mine[0], top: 100, unit: "%", ...there },
      { title: "RAM in use", letters: mine[1], top: 100, unit: "%", ...there },
      { title: "Fullest disk", letters: mine[2], top: 100, unit: "%", ...there },
      { title: "Load", letters: mine[3], top, unit: "", digits: 1, ...there },
    ];
    const made = wanted.filter(({ letters, first }) => letters && first !== undefined).map((one) => things.chart(holder, one)).filter(Boolean);
    holder.replaceChildren(...(made.length ? made : [things.quiet("Nothing is known of this time.")]));
    const usual = { "24h": 900, "7d": 7200, "30d": 21600 }[range];
    for (const [what, { step }] of [["GPU utilization and memory", gpu], ["CPU, RAM, disks and load", there]]) {
      if (step > usual) holder.append(things.quiet(`${what} are means over ${gpumon.duration(step)}: the page has many hosts.`));
    }
  }

  function past(host, place) {
    const holder = element("div", { className: "panel-charts" });
    const again = () => charts(host, place, holder);
    const bar = element("div", { className: "history-bar" }, element("h3", {}, "The past"), things.ranges(again));
    return [element("section", { className: "part" }, bar, holder), again];
  }

  function used(place) {
    const rows = things.read().usedAt(place);
    if (!rows.length) return [];
    const cells = rows.map(({ user, hours, idle }) => [typeof user === "number" ? `and ${user} more` : things.link("user", [user], user), things.hours(hours), things.hours(idle)]);
    return [things.section("Who used it in 30 days", things.table("Table of users", ["User", "#GPU hours", "#of these idle"], cells))];
  }

  function open(name, body) {
    const host = gpumon.state.hosts.find((one) => one.name === name) ?? gpumon.state.hosts.find((one) => one.short === name);
    if (!host) return null;
    const place = host.place;
    body.append(gpumon.sentences.host(host));
    if (host.note) body.append(element("p", { className: "note" }, host.note));
    const reasons = host.notice ? (host.gpus.length ? [[host.notice.word, host.notice.status, host.notice.reason].filter(Boolean).join(" · ")] : []) : host.faults;
    for (const reason of reasons) body.append(element("p", { className: "fault" }, element("i", { className: "icon i-failed" }), " ", element("bdi", {}, reason)));
    body.append(factsOf(host, place));
    const there = things.jobs().filter((job) => job.places.some((one) => one.host === host));
    const gpus = host.gpus.length ? things.section("GPUs", things.gpus(host.gpus)) : null;
    body.append(things.row(gpus, there.length ? things.section("Jobs", things.jobTable(there)) : null));
    const [section, draw] = past(host, place);
    body.append(section, things.row(...used(place), ...things.record(host)));
    draw();
    return host.short;
  }

  gpumon.places.register({ place: "host", tab: "now", open });
})();
