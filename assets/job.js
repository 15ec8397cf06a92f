// A job as a panel: whose it is, since when, whether its GPUs work, and their last day.
//
// takes: element amounts duration clock chart bands past things sentences places
(() => {
  "use strict";
  const { element, things } = gpumon;
  const HOURS = 24;
  const HOUR_S = 3600;
  const LEAST_HOURS = 6;
  const MOST_ROWS = 40;

  function factsOf(job) {
    const pairs = [
      ["User", ...job.users.flatMap((name, place) => [place ? ", " : "", things.link("user", [name], name)])],
      ["GPUs", things.size(job)],
      ["Utilization", things.amount(job.utilization, "%")],
      ["Memory", job.memory === null ? "–" : things.amount(gpumon.amounts.gigabytes(job.memory), "GB")],
      ["Started", job.since === null ? "–" : things.when(job.since)],
      ["Running for", job.since === null ? "–" : gpumon.duration(Math.max(0, gpumon.clock.made() / 1000 - job.since))],
    ];
    if (job.ends !== null) pairs.push(["Ends by", things.by(job.ends), " at the latest"]);
    if (job.unused.length) pairs.splice(2, 0, ["Unused", `${things.gpuCount(job.unused)} of ${things.gpuCount(job.places)} allocated: `, ...things.where(job.unused)]);
    for (const name of ["partition", "account"]) {
      if (job[name]) pairs.push([name === "account" ? "Account" : "Partition", element("bdi", {}, job[name])]);
    }
    if (job.id) pairs.unshift(["Job", element("bdi", {}, job.id)]);
    return things.facts(pairs);
  }

  // From the hour in which it began, or 24 hours ago; of a new job a few hours, so that there is an axis.
  function spanOf({ since }) {
    const { hour } = gpumon.past.read();
    const first = since === null ? hour : Math.max(hour, Math.min(Math.floor(since / HOUR_S), hour + HOURS - LEAST_HOURS));
    return { first, from: first - hour, count: HOURS - (first - hour) };
  }

  // A box for each hour, as tall as the GPU was busy.
  function rowOf(gpu, { since }, { first, from }) {
    const values = gpumon.chart.decode(gpumon.past.of(gpu)?.utilization ?? "", HOURS, 100).slice(from);
    const boxes = values.flatMap((value, place) => {
      if (value === null || (since !== null && (first + place + 1) * HOUR_S <= since)) return [];
      const title = `${gpumon.chart.label((first + place) * HOUR_S, HOUR_S)}: ${Math.round(value)} %`;
      return [{ from: place, to: place + 1, title, kind: "under" }, { from: place, to: place + 1, share: value / 100, title, kind: "work" }];
    });
    return { name: `${gpu.host.short} ${gpu.index}`, boxes };
  }

  function chart(gpus, job, holder) {
    const span = spanOf(job);
    const words = gpumon.sentences.verdict(gpus, job.utilization);
    holder.append(gpumon.bands({
      rows: gpus.slice(0, MOST_ROWS).map((gpu) => rowOf(gpu, job, span)),
      first: span.first, count: span.count, step: HOUR_S, width: Math.max(280, holder.clientWidth), className: "work-bands",
      describe: `Utilization of its GPUs by the hour.${words ? ` ${words}.` : ""}`,
    }));
    if (gpus.length > MOST_ROWS) holder.append(things.quiet(`+ ${gpus.length - MOST_ROWS} more GPUs`));
  }

  function open(address, body) {
    const job = things.job(address);
    if (!job) return null;
    const gpus = job.places.flatMap(({ host, cards }) => host.gpus.filter((gpu) => cards.includes(gpu.index)));
    const isKnown = gpus.some((gpu) => gpumon.past.of(gpu));
    const holder = isKnown ? things.section("How busy its GPUs were, by the hour") : null;
    body.append(gpumon.sentences.job(job, gpus), factsOf(job), things.row(holder, things.section("GPUs", things.gpus(gpus))));
    if (holder) chart(gpus, job, holder);
    return job.id ? `${job.program ?? "Job"} · ${job.id}` : `${job.program ?? "Job"} of ${job.users[0]}`;
  }

  gpumon.places.register({ place: "job", tab: "people", open });
})();
