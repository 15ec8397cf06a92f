// A host as a panel: its facts and GPUs, its last day, week and month, who used it, and what happened to it.
(() => {
  "use strict";
  const { element } = gpumon;
  const things = gpumon.things;
  const MOST_EVENTS = 15;

  // driver 550.90.07, RAM 120 / 512 GB, up 23 d: what the host's header on Now shows, as name and value.
  function told(host) {
    const header = document.getElementById(host.anchor)?.querySelector("header");
    const parts = [...(header?.querySelectorAll(".about li, p.about, .meters li, .meter") ?? [])];
    const texts = parts.flatMap((part) => part.textContent.replace(/\s+/g, " ").trim().split(" · "));
    const swapped = texts.filter((text) => !/^\d+ of /.test(text)).map((text) => text.replace(/^(\d+) (CPUs?)$/, "$2 $1"));
    const found = swapped.map((text) => /^(.*?) ([\d≥].*)$/.exec(text)).filter(Boolean);
    return found.map(([, name, value]) => [name[0].toUpperCase() + name.slice(1), value]);
  }

  function factsOf(host, place) {
    const [up, known] = things.read().up?.[place] ?? [];
    const free = host.gpus.filter((gpu) => gpu.kind === "free").length;
    const pairs = host.gpus.length ? [["GPUs", `${free} of ${host.gpus.length} free`]] : [];
    if (host.group) pairs.push(["Group", host.group]);
    pairs.push(...told(host));
    if (up !== undefined) pairs.push(["Answered, 30 d", up === null ? "–" : `${up} %`, element("span", { className: "unit" }, `, ${known} % of the time known`)]);
    return things.facts(pairs);
  }

  function charts(host, place, holder) {
    const range = things.range();
    const past = gpumon.past();
    const machine = things.read().machine;
    const [top, ...series] = machine?.hosts[place] ?? [];
    const mine = series[Object.keys(things.RANGES).indexOf(range)] ?? [];
    const there = { first: machine?.first[range], step: machine?.step[range], count: machine?.count[range] };
    const gpu = { first: past?.first[range], step: past?.step[range], count: past?.count[range] };
    const levels = past?.hosts[place]?.[1][range] ?? [];
    const wanted = [
      { title: "GPU utilization", letters: levels[0], top: 100, unit: "%", ...gpu },
      { title: "GPU memory in use", letters: levels[1], top: 100, unit: "%", ...gpu },
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
    const rows = things.read().used?.[place] ?? [];
    if (!rows.length) return [];
    const cells = rows.map(([user, hours, idle]) => [things.link("user", [user], user), things.hours(hours), things.hours(idle)]);
    return [things.section("Who used it in 30 days", things.table("Table of users", ["User", "#GPU hours", "#of these idle"], cells))];
  }

  function events(place) {
    const { events: known = [], kinds = [] } = things.read();
    const all = known.filter((row) => row[2] === place && kinds[row[1]] !== "gpu-freed");
    if (!all.length) return [];
    const rows = all.slice(0, MOST_EVENTS).map(([at, , , what]) => [things.when(at), element("bdi", {}, what)]);
    const more = all.length > MOST_EVENTS ? [things.quiet(`The last ${MOST_EVENTS} of ${all.length}.`)] : [];
    return [things.section("What happened", things.table("Table of events", ["When", "What"], rows), ...more)];
  }

  function open(name, body) {
    const host = gpumon.hosts.find((one) => one.name === name) ?? gpumon.hosts.find((one) => one.short === name);
    if (!host) return null;
    const place = host.place;
    if (host.note) body.append(element("p", { className: "note" }, host.note));
    if (host.status) body.append(element("p", { className: "fault" }, element("i", { className: "icon i-failed" }), " ", reasonOf(host)));
    body.append(factsOf(host, place));
    if (host.gpus.length) body.append(things.section("GPUs", things.gpus(host.gpus)));
    const there = things.jobs().filter((job) => job.places.some((one) => one.host === host));
    if (there.length) body.append(things.section("Jobs", things.jobTable(there)));
    const [section, draw] = past(host, place);
    body.append(section, ...used(place), ...events(place));
    draw();
    return host.short;
  }

  function reasonOf(host) {
    const notice = document.getElementById(host.anchor)?.querySelector(".notice");
    const parts = [".state", "code", ".reason"].map((part) => notice?.querySelector(part)?.textContent.trim());
    return parts.filter(Boolean).join(" · ") || host.status;
  }

  gpumon.places.register({ place: "host", tab: "now", open });
})();
