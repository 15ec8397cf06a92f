// A user as a panel: GPUs now, jobs, what they held in the last 24 hours, and GPU hours. "I am" makes it one's own page.
//
// takes: on element count duration state tallied link chart past things places
(() => {
  "use strict";
  const { element, state, things } = gpumon;
  const { svg } = gpumon.chart;
  const SLOTS = 96;
  const SLOT_S = 900;
  const MOST_BANDS = 40;

  const isMe = (name) => {
    const me = state.me.toLowerCase();
    if (!me) return false;
    const known = state.hosts.flatMap((host) => host.gpus).find((gpu) => gpu.names.includes(name) && gpu.names.length === 1);
    return name.toLowerCase() === me || Boolean(known?.logins.includes(me));
  };

  // [GPU, [[from, to], ...]] in quarters of an hour; a shared GPU has a name such as "jonas, mira".
  function held(name) {
    const past = gpumon.past.read();
    if (!past) return [];
    const mine = new Set(past.users.flatMap((names, place) => (names === name || names.split(", ").includes(name) ? [place] : [])));
    if (!mine.size) return [];
    const found = [];
    for (const gpu of state.hosts.flatMap((host) => host.gpus)) {
      const pairs = gpumon.past.of(gpu)?.bands ?? [];
      const parts = [];
      for (let place = 0; place < pairs.length; place += 2) {
        if (mine.has(pairs[place + 1])) parts.push([pairs[place], pairs[place + 2] ?? SLOTS]);
      }
      if (parts.length) found.push([gpu, parts]);
    }
    const length = ([, parts]) => parts.reduce((sum, [from, to]) => sum + to - from, 0);
    return found.sort((one, two) => length(two) - length(one));
  }

  function bands(rows, width) {
    const start = gpumon.past.read().slot;
    const [left, row] = [Math.min(150, width / 3), 22];
    const x = (slot) => left + (slot / SLOTS) * (width - left - 8);
    const height = rows.length * row + 22;
    const told = rows.map(([gpu, parts]) => `${gpu.host.short} ${gpu.index} for ${gpumon.duration(parts.reduce((sum, [from, to]) => sum + to - from, 0) * SLOT_S)}`);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart bands held-bands", role: "img", "aria-label": `Held in the last 24 hours: ${told.join(", ")}.` });
    const clock = (slot) => gpumon.chart.label((start + slot) * SLOT_S, SLOT_S);
    for (let slot = 0; slot < SLOTS; slot += 1) {
      if (new Date((start + slot) * SLOT_S * 1000).getHours() % 6 || new Date((start + slot) * SLOT_S * 1000).getMinutes()) continue;
      picture.append(svg("line", { class: "grid", x1: x(slot), x2: x(slot), y1: 0, y2: height - 20 }));
      picture.append(svg("text", { class: "axis middle", x: x(slot), y: height - 4 }, clock(slot)));
    }
    rows.forEach(([gpu, parts], place) => {
      picture.append(svg("text", { class: "axis name", x: 0, y: place * row + 15 }, `${gpu.host.short} ${gpu.index}`));
      for (const [from, to] of parts) {
        const box = svg("rect", { x: x(from), y: place * row + 3, width: Math.max(2, x(to) - x(from)), height: 16, rx: 2 });
        box.append(svg("title", {}, `${clock(from)} to ${to === SLOTS ? "now" : clock(to)}`));
        picture.append(box);
      }
    });
    return picture;
  }

  function usage(name) {
    const row = things.read().usage.find(({ user }) => user === name);
    if (!row) return [];
    const cells = Object.values(things.RANGES).map((label, place) => {
      const [hours, idle, efficiency] = row.ranges[place];
      return [label, things.hours(hours), things.hours(idle), things.amount(efficiency, "%")];
    });
    return [things.section("GPU hours", things.table("Table of GPU hours", ["Last", "#GPU hours", "#of these idle", "#GPU active"], cells),
      things.quiet("Shared GPUs are split among their users. GPU active is sampled: the mean share of the time in which a kernel ran, in readings while the GPU was held; of a shared GPU it is the GPU's, not the person's."))];
  }

  // What Slurm has given to their jobs, and how much of it they use.
  function given(name) {
    const row = things.read().given.find(({ user }) => user === name);
    if (!row) return [];
    const { gpus, used, jobs, efficiency } = row;
    const inJobs = jobs === null ? "" : ` in ${gpumon.count(jobs, "job")}`;
    return [things.facts([
      ["Allocated by Slurm", `${gpumon.count(gpus, "GPU")}${inJobs}`],
      ["Used", `${used} of ${gpus}`],
      ["GPU active now", things.amount(efficiency, "%")],
    ])];
  }

  function summary(now, jobs) {
    const hosts = new Set(now.map((gpu) => gpu.host)).size;
    const parts = now.length ? [gpumon.tallied(now), gpumon.count(hosts, "host")] : ["nothing now"];
    if (jobs.length) parts.push(gpumon.count(jobs.length, "job"));
    return element("p", { className: "summary-line" }, parts.join(" · "));
  }

  function open(name, body) {
    const now = state.hosts.flatMap((host) => host.gpus).filter((gpu) => gpu.names.includes(name));
    const jobs = things.jobs().filter((job) => job.users.includes(name));
    const rows = held(name);
    const hours = usage(name);
    if (!now.length && !jobs.length && !rows.length && !hours.length) return null;
    body.append(summary(now, jobs), ...given(name));
    if (jobs.length) body.append(things.section("Jobs", things.jobTable(jobs)));
    if (now.length) body.append(things.section("GPUs now", things.gpus(now)));
    if (rows.length) {
      const holder = things.section("Held in the last 24 hours");
      body.append(holder);
      holder.append(bands(rows.slice(0, MOST_BANDS), Math.max(280, holder.clientWidth)));
      if (rows.length > MOST_BANDS) holder.append(things.quiet(`+ ${rows.length - MOST_BANDS} more GPUs`));
    }
    body.append(...hours);
    return isMe(name) ? `${name} (you)` : name;
  }

  // Beside "I am": the way to one's own page.
  function offer() {
    const input = document.querySelector("[name=me]");
    const old = document.getElementById("my-page");
    const name = input && [...new Set([...state.hosts.flatMap((host) => host.gpus.flatMap((gpu) => gpu.names)), ...things.read().usage.map(({ user }) => user)])].find(isMe);
    if (!name) return old?.remove();
    const made = old ?? element("a", { id: "my-page" }, "my page");
    made.href = gpumon.link("user", name);
    if (!old) input.closest("label")?.after(made);
  }

  gpumon.on("filter", offer);
  gpumon.places.register({ place: "user", tab: "people", open });
})();
