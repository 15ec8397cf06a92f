// "Where can I run?", answered; the question is in question.js, the rule in offers.js.
(() => {
  "use strict";
  const FIRST = 3;
  const MOST = 30;
  const list = document.getElementById("answers");
  const more = document.getElementById("more-answers");
  const tellMe = document.getElementById("tell-me");
  let showsAll = false;
  let believed = "";
  if (!list) return;

  const { element, gigabytes, count, question } = gpumon;
  const { offers, soonest, modelMatcher, mib } = gpumon.offers;

  function asked() {
    const { mem, model } = question.state;
    return { n: question.wanted(), gb: Number(mem) || 0, mib: question.least(), model: model ?? "" };
  }

  // Group and words are no part of the rule: they say which hosts and GPUs are asked.
  const narrowing = () => question.conditions().filter(({ name }) => name === "group" || name === "q");

  function among() {
    const narrow = narrowing();
    if (!narrow.length) return gpumon.hosts;
    return gpumon.hosts.map((host) => ({ ...host, gpus: question.matching(host, narrow) ?? [] }));
  }

  function copyButton(label, text) {
    const icon = element("i", { className: "icon i-copy" });
    const button = element("button", { type: "button", title: text }, icon, element("span", { className: "spoken" }, "copy "), label);
    button.dataset.copy = text;
    return button;
  }

  // CUDA, HIP: as the variable is called.
  function devices(gpus) {
    const [{ environment }] = gpus;
    const kind = environment.match(/([A-Z]+)_VISIBLE/)?.[1] ?? "";
    return copyButton(kind || "devices", environment + gpus.map((gpu) => gpu.device).join(","));
  }

  const sshButtons = (host, gpus) => [
    copyButton("ssh", host.port ? `ssh -p ${host.port} ${host.name}` : `ssh ${host.name}`),
    devices(gpus),
  ];

  function slurmButtons([gres, node], number) {
    const options = `--gres=${gres}:${number} --nodelist=${node}`;
    return [copyButton("srun", `srun ${options} --pty bash`), copyButton("sbatch", `#SBATCH ${options}`)];
  }

  // 2 x A100 80G on vision-01 by 16:10 at the latest (the job of user3 ends)
  function expected(question) {
    const found = soonest(among(), question, Date.now() / 1000, gpumon.clock.freshness());
    if (!found) return [];
    const ending = found.gpus.filter((gpu) => !gpu.isOffered);
    const names = [...new Set(ending.flatMap((gpu) => gpu.names))];
    const why = names.length ? `the job of ${names.join(", ")} ends` : "a job ends";
    const models = [...new Set(found.gpus.map((gpu) => gpu.model))];
    const time = element("time", { className: "by", dateTime: new Date(found.at * 1000).toISOString() }, gpumon.clock.by(new Date(found.at * 1000)));
    const link = element("a", { href: `#${found.host.anchor}` }, found.host.short);
    return [` ${question.n} x ${models.length === 1 ? models[0] : "GPU"} on `, link, " by ", time, ` at the latest (${why}).`];
  }

  function item({ host, gpus, tight, isMixed }) {
    const least = gpus.some((gpu) => gpu.free === null) ? null : Math.min(...gpus.map((gpu) => gpu.free));
    const models = isMixed ? "several models" : `${gpus[0].model}, ${gigabytes(least)} GB`;
    const made = element(
      "li",
      {},
      element("a", { href: `#${host.anchor}`, title: host.name }, host.short),
      element("span", { className: "gpus" }, `: ${gpus.map((gpu) => gpu.index).join(", ")}`),
      element("span", { className: "quiet" }, models),
      element("span", { className: "copies" }, ...(host.slurm ? slurmButtons(host.slurm, gpus.length) : sshButtons(host, gpus))),
    );
    if (host.note) made.append(element("span", { className: "quiet note" }, host.note));
    if (tight.length) made.append(element("span", { className: "tight" }, `⚠ ${tight.join(", ")}`));
    return made;
  }

  const quiet = (...content) => element("li", { className: "quiet none" }, ...content);

  const stale = (why) => quiet(`The data is ${why}: what was free then may be taken now, so nothing is offered.`);

  // Nothing is known of any GPU: before the first fetch, or where no host answers.
  function empty() {
    if (gpumon.clock.hasData()) return quiet("No GPU was read: nothing can be offered.");
    return quiet("No data yet: run ", element("code", {}, "gpumon-static fetch"), ", then ", element("code", {}, "render"), ".");
  }

  function none(asking, nearest) {
    if (!gpumon.hosts.some((host) => host.gpus.length)) return empty();
    const wanted = `${count(asking.n, asking.model ? `free ${asking.model}` : "free GPU")}${
      asking.gb ? ` with ${asking.gb} GB` : ""
    }`;
    const closest = nearest?.fits.length ? ` Closest: ${nearest.host.short} with ${nearest.fits.length}.` : "";
    const where = narrowing().map(({ text }) => text).join(", ");
    return quiet(`No host has ${wanted} now${where && ` (${where})`}.${closest}`, ...expected(asking), ...holders(asking), ...usual(asking), ...idle(asking));
  }

  const isLarge = (gpu, mib) => (gpu.total ?? 0) >= mib;

  // Who has most of what is wanted.
  function holders({ mib, model }) {
    const isWanted = modelMatcher(gpumon.hosts, model);
    const taken = among().flatMap((host) => host.gpus).filter((gpu) => (gpu.kind === "busy" || gpu.kind === "held") && isWanted(gpu) && isLarge(gpu, mib));
    const counts = new Map();
    for (const name of taken.flatMap((gpu) => gpu.names)) counts.set(name, (counts.get(name) ?? 0) + 1);
    const most = [...counts].sort((one, two) => two[1] - one[1] || gpumon.byName(one[0], two[0])).slice(0, FIRST);
    const named = most.flatMap(([name, number], place) => [
      place ? ", " : " Most is held by ",
      element("a", { href: gpumon.places.link("user", name) }, element("bdi", {}, name)),
      ` (${number})`,
    ]);
    return named.length ? [...named, "."] : [];
  }

  // From the last weeks, where the page has them: of all GPUs of a model, whatever their group.
  function usual({ model }) {
    if (narrowing().length) return [];
    const isWanted = modelMatcher(gpumon.hosts, model);
    const wanted = new Set(gpumon.hosts.flatMap((host) => host.gpus.filter(isWanted).map((gpu) => gpu.model)));
    const hour = gpumon.usual?.((name) => wanted.has(name));
    return hour ? [` Usually most are free around ${hour.at}: ${hour.free} of ${hour.size}.`] : [];
  }

  // Who could be asked: GPUs of the wanted kind that are held and do nothing.
  function idle({ mib, model }) {
    const isWanted = modelMatcher(gpumon.hosts, model);
    const held = among()
      .flatMap((host) => host.gpus)
      .filter((gpu) => gpu.kind === "held" && isWanted(gpu) && isLarge(gpu, mib));
    const named = held.slice(0, FIRST).flatMap((gpu, place) => [
      place ? ", " : " Held idle: ",
      element("a", { href: `#${gpu.host.anchor}` }, `${gpu.host.short} GPU ${gpu.index}`),
      gpu.names.length ? ` (${gpu.names.join(", ")})` : "",
    ]);
    return held.length > FIRST ? [...named, ` and ${held.length - FIRST} more`] : named;
  }

  // What an answer depends on beside the question; it changes with the clock.
  const belief = () => `${gpumon.hosts.filter(gpumon.clock.freshness()).length} ${gpumon.clock.stale()}`;

  function answer() {
    const asking = asked();
    believed = belief();
    const { able, nearest } = offers(among(), asking, gpumon.clock.freshness());
    const shown = able.slice(0, showsAll ? MOST : FIRST).map(item);
    const why = gpumon.clock.stale();
    if (!able.length) shown.push(why ? stale(why) : none(asking, nearest));
    const rest = Math.min(able.length, MOST) - FIRST;
    more.hidden = rest <= 0;
    more.textContent = showsAll ? "fewer" : `+ ${count(rest, "more host")}`;
    more.ariaExpanded = String(showsAll);
    list.replaceChildren(...shown);
    if (tellMe) tellMe.hidden = !gpumon.clock.hasData();
  }

  more.addEventListener("click", () => {
    showsAll = !showsAll;
    answer();
  });
  gpumon.on("filter", () => {
    if (!gpumon.isUpdating) showsAll = false;
    answer();
  });
  gpumon.on("past", answer);
  gpumon.on("age", () => belief() !== believed && answer());
  answer();
})();
