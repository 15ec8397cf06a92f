// What the panels of hosts, users and jobs are built from, and with: the JSON block of publish/page/things_data.py.
//
// takes: element count amounts duration named times state tallied link clock chart
// gives: things
(() => {
  "use strict";
  const { amounts, element, named, state, times } = gpumon;
  const { decode, draw, mean } = gpumon.chart;
  const SAME_S = 90; // as in survey/jobs.py
  const MOST_EVENTS = 15;
  const RANGES = { "24h": "24 h", "7d": "7 d", "30d": "30 d" };
  const EMPTY = { columns: {}, jobs: [], given: [], usage: [], used: {}, kinds: [], events: [], up: {}, machine: null };
  let data = EMPTY;
  let version = 0;
  let range = "24h";

  // The block is read when it is first asked for after a refresh.
  function read() {
    if (version === state.version) return data;
    version = state.version;
    const text = document.getElementById("things")?.textContent;
    data = text ? { ...EMPTY, ...JSON.parse(text) } : EMPTY;
    const { columns } = data;
    const records = (kind, rows) => rows.map((row) => named(columns[kind], row));
    for (const kind of ["given", "usage"]) data[kind] = records(kind, data[kind]);
    data.events = records("event", data.events).map((event) => ({ ...event, kind: data.kinds[event.kind], host: state.hosts[event.host] }));
    data.jobs = records("job", data.jobs).map(toJob);
    data.usedAt = (place) => records("use", data.used[place] ?? []);
    data.upAt = (place) => (data.up[place] ? named(columns.up, data.up[place]) : null);
    data.machineAt = (place) => (data.machine?.hosts[place] ? named(columns.machine, data.machine.hosts[place]) : null);
    return data;
  }

  // 0–3, 5, 6: as survey/jobs.py writes it.
  function listed(cards) {
    const runs = [];
    for (const card of cards) {
      const last = runs.at(-1);
      if (last && /^\d+$/.test(card) && Number(card) === Number(last.at(-1)) + 1) last.push(card);
      else runs.push([card]);
    }
    return runs.map((run) => (run.length > 2 ? `${run[0]}–${run.at(-1)}` : run.join(", "))).join(", ");
  }

  const toPlaces = (list) => list.map(([host, ...cards]) => ({ host: state.hosts[host], gpus: listed(cards), cards }));
  const toJob = ({ is_id: isId, places, unused, ...rest }) => ({
    ...rest,
    id: isId ? rest.address : null,
    places: toPlaces(places),
    unused: toPlaces(unused),
  });
  const jobs = () => read().jobs;

  const jobsAt = ({ host, index }) => jobs().filter((one) => one.places.some((there) => there.host === host && there.cards.includes(index)));

  // 6 GPUs on 2 hosts
  function size({ places }) {
    const gpus = places.flatMap(({ host, cards }) => host.gpus.filter((gpu) => cards.includes(gpu.index)));
    return `${gpumon.tallied(gpus)} on ${gpumon.count(places.length, "host")}`;
  }

  // A job without an id is called by the minute of its start, which differs a little from run to run.
  function job(address) {
    const all = jobs();
    const exact = all.find((one) => one.address === address);
    const cut = address.lastIndexOf(",");
    const at = Date.parse(address.slice(cut + 1)) / 1000;
    if (exact || cut < 0 || Number.isNaN(at)) return exact ?? null;
    const isSame = (one) => !one.id && one.since !== null && one.address.startsWith(address.slice(0, cut + 1));
    const near = all.filter(isSame).sort((one, two) => Math.abs(one.since - at) - Math.abs(two.since - at));
    return near.length && Math.abs(near[0].since - at) <= SAME_S ? near[0] : null;
  }

  function when(seconds) {
    const time = new Date(seconds * 1000);
    return element("time", { dateTime: time.toISOString(), title: times.utc(time) }, times.at(time, gpumon.clock.made()));
  }

  // A time to come, as cards have it: Wed 23:55.
  function by(seconds) {
    const time = new Date(seconds * 1000);
    return element("time", { dateTime: time.toISOString(), title: times.utc(time) }, times.by(time, gpumon.clock.made()));
  }

  const link = (place, names, text) => element("a", { href: gpumon.link(place, ...names) }, element("bdi", {}, text));
  const where = (places) => places.flatMap(({ host, gpus: there }, place) => [place ? ", " : "", link("host", [host.name], host.short), `: ${there}`]);
  const section = (title, ...children) => element("section", { className: "part" }, element("h3", {}, title), ...children);
  // Beside each other where there is room: two, or one as wide as both.
  const row = (...parts) => element("div", { className: "row" }, ...parts.filter(Boolean));
  const quiet = (text) => element("p", { className: "explained" }, text);
  const amount = (value, unit) => (value === null || value === undefined ? "–" : element("span", {}, String(value), element("span", { className: "unit" }, ` ${unit}`)));

  // heads: texts; one that starts with # is of numbers.
  function table(label, heads, rows) {
    const isNumber = heads.map((head) => head.startsWith("#"));
    const cell = (tag, content, place, more = {}) => {
      const made = element(tag, { className: isNumber[place] ? "number" : "", ...more });
      made.append(...[content].flat());
      return made;
    };
    const head = element("tr", {}, ...heads.map((text, place) => cell("th", text.replace("#", ""), place, { scope: "col" })));
    const body = rows.map((row) => element("tr", {}, ...row.map((content, place) => {
      const made = cell("td", content, place);
      made.dataset.label = heads[place].replace("#", "");
      return made;
    })));
    const made = element("table", { className: "list" }, element("thead", {}, head), element("tbody", {}, ...body));
    const scroll = element("div", { className: "scroll", tabIndex: 0, ariaLabel: label }, made);
    scroll.setAttribute("role", "region");
    return scroll;
  }

  function facts(pairs) {
    const list = element("dl", { className: "facts" });
    for (const [name, ...value] of pairs) list.append(element("div", {}, element("dt", {}, name), element("dd", {}, ...value)));
    return list;
  }

  const hours = (value) => amount(value < 100 ? value.toFixed(1) : Math.round(value), "h");
  const users = (gpu) => gpu.names.flatMap((name, place) => [place ? ", " : "", link("user", [name], name)]);

  const memoryOf = ({ used, total }) => {
    const made = amount(`${amounts.gigabytes(used, total)} / ${amounts.gigabytes(total, total)}`, "GB");
    return Object.assign(made, { title: `${used ?? "–"} / ${total ?? "–"} MiB` });
  };

  function gpus(list) {
    const row = (gpu) => [
      link("gpu", [gpu.host.name, gpu.index], `${gpu.host.short} ${gpu.index}`),
      element("bdi", {}, gpu.model),
      element("span", { className: `state ${gpu.kind}` }, gpu.word),
      amount(gpu.utilization, "%"),
      gpu.used === null && gpu.total === null ? "–" : memoryOf(gpu),
      gpu.names.length ? users(gpu) : gpu.users ? gpumon.count(gpu.users, "user") : "",
    ];
    return table("Table of GPUs", ["GPU", "Model", "State", "#Utilization", "#Memory", "User"], list.map(row));
  }

  const gpuCount = (places) => places.reduce((sum, { cards }) => sum + cards.length, 0);

  // What only Slurm knows has columns where it is known of any job.
  function jobTable(list) {
    const [unused, ends] = [list.some((one) => one.unused.length), list.some((one) => one.ends !== null)];
    const row = (one) => [
      [link("job", [one.address], one.program ?? "–"), ...(one.id ? [" ", element("span", { className: "unit" }, one.id)] : [])],
      one.users.slice(0, 3).flatMap((name, place) => [place ? ", " : "", link("user", [name], name)]),
      where(one.places),
      ...(unused ? [String(gpuCount(one.unused) || "")] : []),
      amount(one.utilization, "%"),
      one.since === null ? "–" : when(one.since),
      ...(ends ? [one.ends === null ? "–" : by(one.ends)] : []),
    ];
    const heads = ["Job", "User", "Where", ...(unused ? ["#Unused"] : []), "#Utilization", "Started", ...(ends ? ["Ends by"] : [])];
    return table("Table of jobs", heads, list.map(row));
  }

  // The ranges above charts; the choice is kept from panel to panel.
  function ranges(again) {
    const made = element("fieldset", { className: "views" }, element("legend", { className: "spoken" }, "Time"));
    for (const [key, text] of Object.entries(RANGES)) {
      const input = element("input", { type: "radio", name: "thing-range", value: key, checked: key === range });
      input.addEventListener("input", () => {
        range = key;
        again();
      });
      made.append(element("label", {}, input, text));
    }
    return made;
  }

  function chart(holder, { title, letters, count, top, unit, first, step, digits = 0 }) {
    const values = decode(letters ?? "", count, top);
    if (!values.some((value) => value !== null)) return null;
    const most = Math.max(...values.filter((value) => value !== null));
    const summary = `${mean(values).toFixed(digits)}${unit && ` ${unit}`} on average, means of ${gpumon.duration(step)} up to ${most.toFixed(digits)}${unit && ` ${unit}`}`;
    const columns = getComputedStyle(holder).gridTemplateColumns.split(" ").length;
    const width = Math.max(240, (holder.clientWidth + 32) / columns - 32);
    const describe = `${title}: ${summary}.`;
    const lines = [{ name: "", values, unit, className: "main", digits }];
    return element("div", {}, element("h4", {}, title, " ", element("span", { className: "unit" }, summary)),
      draw({ lines, first, step, top, unit, height: 104, width, steps: 2, describe }));
  }

  // What happened to a host, or to one GPU of it.
  function record(host, isWanted = () => true) {
    const all = read().events.filter((event) => event.host === host && event.kind !== "gpu-freed" && isWanted(event));
    if (!all.length) return [];
    const rows = all.slice(0, MOST_EVENTS).map(({ at, what }) => [when(at), element("bdi", {}, what)]);
    const more = all.length > MOST_EVENTS ? [quiet(`The last ${MOST_EVENTS} of ${all.length}.`)] : [];
    return [section("What happened", table("Table of events", ["When", "What"], rows), ...more)];
  }

  gpumon.things = { read, jobs, jobsAt, job, when, by, link, where, size, listed, gpuCount, section, row, record, quiet, amount, hours, table, facts, gpus, jobTable, ranges, chart, range: () => range, RANGES };
})();
