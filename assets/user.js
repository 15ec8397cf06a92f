// A user as a panel: GPUs now, jobs, what they held in the last 24 hours, and GPU hours. "I am" makes it one's own page.
//
// takes: on element count duration state link chart bands past things sentences places
(() => {
  "use strict";
  const { element, state, things } = gpumon;
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
    const first = gpumon.past.read().slot;
    const clock = (slot) => gpumon.chart.label((first + slot) * SLOT_S, SLOT_S);
    const boxes = (parts) => parts.map(([from, to]) => ({ from, to, title: `${clock(from)} to ${to === SLOTS ? "now" : clock(to)}` }));
    const length = (parts) => parts.reduce((sum, [from, to]) => sum + to - from, 0) * SLOT_S;
    const words = rows.map(([gpu, parts]) => `${gpu.host.short} ${gpu.index} for ${gpumon.duration(length(parts))}`);
    return gpumon.bands({
      rows: rows.map(([gpu, parts]) => ({ name: `${gpu.host.short} ${gpu.index}`, boxes: boxes(parts) })),
      first, count: SLOTS, step: SLOT_S, width, className: "held-bands", describe: `Held in the last 24 hours: ${words.join(", ")}.`,
    });
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

  function open(name, body) {
    const now = state.hosts.flatMap((host) => host.gpus).filter((gpu) => gpu.names.includes(name));
    const jobs = things.jobs().filter((job) => job.users.includes(name));
    const rows = held(name);
    const hours = usage(name);
    if (!now.length && !jobs.length && !rows.length && !hours.length) return null;
    body.append(gpumon.sentences.user(now, jobs, things.read().usage.find(({ user }) => user === name)), ...given(name));
    body.append(things.row(jobs.length ? things.section("Jobs", things.jobTable(jobs)) : null, now.length ? things.section("GPUs now", things.gpus(now)) : null));
    const holder = rows.length ? things.section("Held in the last 24 hours") : null;
    body.append(things.row(holder, ...hours));
    if (holder) {
      holder.append(bands(rows.slice(0, MOST_BANDS), Math.max(280, holder.clientWidth)));
      if (rows.length > MOST_BANDS) holder.append(things.quiet(`+ ${rows.length - MOST_BANDS} more GPUs`));
    }
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
