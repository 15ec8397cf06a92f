// "Where can I run?", answered; the question is in question.js, the rule in offers.js.
//
// takes: on element count byName amounts times state tallied link clock offers usual question
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

  const { element, amounts, count, state, question } = gpumon;
  const { offers, soonest, modelMatcher, isLarge } = gpumon.offers;

  const asked = () => ({ n: question.wanted(), gb: question.least(), model: state.asked.model ?? "" });

  // Who is searched for by name: where to run does not depend on it.
  function person() {
    const word = (state.asked.q ?? "").trim().toLowerCase();
    const gpus = word ? state.hosts.flatMap((host) => host.gpus).filter((gpu) => gpu.logins.includes(word)) : [];
    const [name] = gpus.flatMap((gpu) => gpu.names).filter((one) => one.toLowerCase() === word || gpus.every((gpu) => gpu.names.includes(one)));
    return gpus.length ? { name: name ?? word, gpus } : null;
  }

  // Group and words are no part of the rule: they say which hosts and GPUs are asked.
  function narrowing() {
    const isPerson = person() !== null;
    return question.conditions().filter(({ name }) => name === "group" || name === "vendor" || (name === "q" && !isPerson));
  }

  function among() {
    const narrow = narrowing();
    if (!narrow.length) return state.hosts;
    return state.hosts.map((host) => ({ ...host, gpus: question.matching(host, narrow) ?? [] }));
  }

  function copyButton(label, text) {
    const icon = element("i", { className: "icon i-copy" });
    const button = element("button", { type: "button", title: text }, icon, element("span", { className: "spoken" }, "copy "), label);
    button.dataset.copy = text;
    return button;
  }

  // As survey/offers.py builds them: one line that works in any shell, for whoever is not there yet, and for whoever is.
  function sshButtons(host, gpus) {
    const [{ environment }] = gpus;
    const devices = `env ${environment}${gpus.map((gpu) => gpu.device).join(",")} $SHELL`;
    const kind = environment.match(/([A-Z]+)_VISIBLE/)?.[1] ?? "devices"; // CUDA, HIP: as the variable is called
    return [copyButton("ssh", `ssh -t ${host.port ? `-p ${host.port} ` : ""}${host.name} '${devices} -l'`), copyButton(kind, devices)];
  }

  function slurmButtons([gres, node], number) {
    const options = `--gres=${gres}:${number} --nodelist=${node}`;
    return [copyButton("srun", `srun ${options} --pty bash`), copyButton("sbatch", `#SBATCH ${options}`)];
  }

  // By 16:10 at the latest, if nobody in the queue is before you: 2 x A100 80G on vision-01 (the job of user3 ends).
  function expected(asking) {
    const found = soonest(among(), asking, Date.now() / 1000, gpumon.clock.freshness());
    if (!found) return [];
    const ending = found.gpus.filter((gpu) => !gpu.isOffered);
    const names = [...new Set(ending.flatMap((gpu) => gpu.names))];
    const why = names.length ? `the job of ${names.join(", ")} ends` : "a job ends";
    const models = [...new Set(found.gpus.map((gpu) => gpu.model))];
    const at = new Date(found.at * 1000);
    const time = element("time", { className: "by", dateTime: at.toISOString() }, gpumon.times.by(at, gpumon.clock.made()));
    const link = element("a", { href: `#${found.host.anchor}` }, found.host.short);
    return ["by ", time, ` at the latest, if nobody in the queue is before you: ${asking.n} x ${models.length === 1 ? models[0] : "GPU"} on `, link, ` (${why})`];
  }

  const least = (gpus) => gpus.reduce((low, gpu) => (low && (low.free === null || gpu.free === null || low.free <= gpu.free) ? low : gpu), null);

  function item({ host, gpus, tight, isMixed }) {
    const { free, total } = least(gpus);
    const memory = element("span", { title: amounts.exact(free) }, `${amounts.gigabytes(free, total)} GB`);
    const made = element(
      "li",
      {},
      element("a", { href: `#${host.anchor}`, title: host.name }, host.short),
      element("span", { className: "gpus" }, `: ${gpus.map((gpu) => gpu.index).join(", ")}`),
      element("span", { className: "quiet" }, ...(isMixed ? ["several models"] : [`${gpus[0].model}, `, memory])),
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
    if (!state.hosts.some((host) => host.gpus.length)) return empty();
    const wanted = `${count(asking.n, asking.model ? `free ${asking.model}` : "free GPU")}${asking.gb ? ` with ${asking.gb} GB` : ""}`;
    const closest = nearest?.fits.length ? ` ${nearest.host.short} comes closest, with ${nearest.fits.length} of ${asking.n}.` : "";
    const where = narrowing().map(({ text }) => text).join(", ");
    const rows = [["When", expected(asking)], ["Ask", holders(asking)], ["Held idle", idle(asking)], ["Usually", usual(asking)]].filter(([, words]) => words.length);
    const list = element("dl", { className: "ways" });
    for (const [name, words] of rows) list.append(element("div", {}, element("dt", {}, name), " ", element("dd", {}, ...words)));
    return quiet(element("p", {}, `No host has ${wanted} now${where && ` (${where})`}.${closest}`), ...(rows.length ? [list] : []));
  }

  // Who has most of what is wanted.
  function holders({ gb, model }) {
    const isWanted = modelMatcher(state.hosts, model);
    const taken = among().flatMap((host) => host.gpus).filter((gpu) => (gpu.kind === "busy" || gpu.kind === "held") && isWanted(gpu) && isLarge(gpu, gb));
    const counts = new Map();
    for (const name of taken.flatMap((gpu) => gpu.names)) counts.set(name, (counts.get(name) ?? 0) + 1);
    const most = [...counts].sort((one, two) => two[1] - one[1] || gpumon.byName(one[0], two[0])).slice(0, FIRST);
    const listed = most.flatMap(([name, number], place) => [
      place ? ", " : "",
      element("a", { href: gpumon.link("user", name) }, element("bdi", {}, name)),
      ` (has ${number})`,
    ]);
    return listed;
  }

  // From the last weeks, where the page has them: of all GPUs of a model, whatever their group.
  function usual({ gb, model }) {
    if (narrowing().length) return [];
    const isWanted = modelMatcher(state.hosts, model);
    const wanted = new Set(state.hosts.flatMap((host) => host.gpus.filter((gpu) => isWanted(gpu) && isLarge(gpu, gb)).map((gpu) => gpu.model)));
    const hour = gpumon.usual((name) => wanted.has(name));
    return hour ? [`most are free around ${hour.at}: ${hour.free} of ${hour.size}`] : [];
  }

  // The message that Health has for them, or else the address of People.
  function contact(name) {
    const link = name && gpumon.link("user", name);
    const row = link && [...document.querySelectorAll(".idle tr, .people tr")].find((one) => one.querySelector(".write") && one.querySelector(".who a")?.getAttribute("href") === link);
    return row ? [" ", element("a", { href: row.querySelector(".write").href, rel: "noreferrer", ariaLabel: `write to ${name}` }, "write")] : [];
  }

  // Who could be asked: GPUs of the wanted kind that are held and do nothing.
  function idle({ gb, model }) {
    const isWanted = modelMatcher(state.hosts, model);
    const held = among()
      .flatMap((host) => host.gpus)
      .filter((gpu) => gpu.kind === "held" && isWanted(gpu) && isLarge(gpu, gb));
    const named = held.slice(0, FIRST).flatMap((gpu, place) => [
      place ? ", " : "",
      element("a", { href: `#${gpu.host.anchor}` }, `${gpu.host.short} GPU ${gpu.index}`),
      gpu.names.length ? ` (${gpu.names.join(", ")})` : "",
      ...contact(gpu.names[0]),
    ]);
    return held.length > FIRST ? [...named, ` and ${held.length - FIRST} more`] : named;
  }

  // What an answer depends on beside the question; it changes with the clock.
  const belief = () => `${state.hosts.filter(gpumon.clock.freshness()).length} ${gpumon.clock.stale()}`;

  // jonas holds 6 GPUs on 2 hosts.
  function whose({ name, gpus }) {
    const hosts = new Set(gpus.map((gpu) => gpu.host)).size;
    const link = element("a", { href: gpumon.link("user", name) }, element("bdi", {}, name));
    return quiet(link, ` holds ${gpumon.tallied(gpus)} on ${count(hosts, "host")}.`);
  }

  function answer() {
    const asking = asked();
    believed = belief();
    const { able, nearest } = offers(among(), asking, gpumon.clock.freshness());
    const shown = able.slice(0, showsAll ? MOST : FIRST).map(item);
    const why = gpumon.clock.stale();
    if (!able.length) shown.push(why ? stale(why) : none(asking, nearest));
    const found = person();
    if (found) shown.unshift(whose(found));
    const rest = able.length - FIRST;
    if (showsAll && able.length > MOST) shown.push(quiet(`and ${count(able.length - MOST, "more host")}: the cards below show them`));
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
    if (!state.isUpdating) showsAll = false;
    answer();
  });
  gpumon.on("age", () => believed && belief() !== believed && answer());
})();
