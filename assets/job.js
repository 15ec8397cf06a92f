// A job as a panel: whose it is, since when, and the GPUs it runs on.
//
// takes: element amounts duration clock things places
(() => {
  "use strict";
  const { element, things } = gpumon;

  function open(address, body) {
    const job = things.job(address);
    if (!job) return null;
    const gpus = job.places.flatMap(({ host, cards }) => host.gpus.filter((gpu) => cards.includes(gpu.index)));
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
    body.append(things.facts(pairs), things.section("GPUs", things.gpus(gpus)));
    return job.id ? `${job.program ?? "Job"} · ${job.id}` : `${job.program ?? "Job"} of ${job.users[0]}`;
  }

  gpumon.places.register({ place: "job", tab: "people", open });
})();
