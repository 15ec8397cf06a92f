// Where can I run? Hosts with enough free GPUs: those with room for the rest of a job first, then the best fit.
(() => {
  "use strict";
  const SLACK_MIB = 512; // a card sold as 80 GB has a little less
  const RAM_PER_GPU_MIB = 8 * 1024;
  const LEAST_DISK_PERCENT = 5;
  const FIRST = 3;
  const MOST = 30;
  const form = document.getElementById("picker");
  const list = document.getElementById("answers");
  const more = document.getElementById("more-answers");
  let showsAll = false;
  if (!form) return;

  const { element, gigabytes, count } = gpumon;
  const asked = () => ({
    n: Math.max(1, Math.floor(Number(form.elements.n.value)) || 1),
    gb: Math.max(0, Number(form.elements.gb.value) || 0),
    model: form.elements.pick.value,
  });

  // n GPUs of one model, the smallest that will do; slices only for one, since a program can use no more than one.
  function choose(host, { n, gb, model }) {
    const fits = host.gpus.filter(
      (gpu) =>
        gpu.usable && gpu.free >= gb * 1024 - SLACK_MIB && (!model || gpu.model === model) && (n === 1 || !gpu.uuid),
    );
    const models = Map.groupBy(fits, (gpu) => gpu.model);
    const enough = [...models.values()].filter((gpus) => gpus.length >= n).sort((one, two) => one[0].total - two[0].total);
    if (enough.length) return { fits, gpus: enough[0].slice(0, n), isMixed: false };
    return { fits, gpus: fits.length >= n ? fits.slice(0, n) : [], isMixed: true };
  }

  function tightness(host, { n, gb }) {
    const needed = n * Math.max(gb * 1024, RAM_PER_GPU_MIB);
    const tight = [];
    if (host.ram !== null && host.ram < needed) tight.push(`only ${gigabytes(host.ram)} GB of RAM free`);
    if (host.disk !== null && host.disk < LEAST_DISK_PERCENT) tight.push(`disk ${100 - host.disk} % full`);
    if (host.faults) tight.push("needs attention");
    return tight;
  }

  function rank(question) {
    const answers = gpumon.hosts.map((host) => ({ host, ...choose(host, question), tight: tightness(host, question) }));
    const able = answers.filter((answer) => answer.gpus.length);
    able.sort(
      (one, two) =>
        one.tight.length - two.tight.length ||
        one.isMixed - two.isMixed ||
        (question.gb ? one.gpus[0].total - two.gpus[0].total : 0) ||
        two.fits.length - one.fits.length ||
        (one.host.load ?? 1) - (two.host.load ?? 1) ||
        gpumon.byName(one.host.name, two.host.name),
    );
    const nearest = answers.sort((one, two) => two.fits.length - one.fits.length)[0];
    return { able, nearest };
  }

  function copyButton(label, text) {
    const icon = element("i", { className: "icon i-copy" });
    const button = element("button", { type: "button", title: text }, icon, element("span", { className: "spoken" }, "copy "), label);
    button.dataset.copy = text;
    return button;
  }

  function devices(gpus) {
    return `CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=${gpus.map((gpu) => gpu.uuid ?? gpu.index).join(",")}`;
  }

  function item({ host, gpus, tight, isMixed }) {
    const models = isMixed ? "several models" : `${gpus[0].model}, ${gigabytes(Math.min(...gpus.map((gpu) => gpu.free)))} GB`;
    const made = element(
      "li",
      {},
      element("a", { href: `#${host.anchor}`, title: host.name }, host.short),
      `GPU ${gpus.map((gpu) => gpu.index).join(", ")}`,
      element("span", { className: "quiet" }, models),
      copyButton("ssh", host.port ? `ssh -p ${host.port} ${host.name}` : `ssh ${host.name}`),
      copyButton("CUDA devices", devices(gpus)),
    );
    if (tight.length) made.append(element("span", { className: "tight" }, `⚠ ${tight.join(", ")}`));
    return made;
  }

  function none(question, nearest) {
    const wanted = `${count(question.n, question.model ? `free ${question.model}` : "free GPU")}${
      question.gb ? ` with ${question.gb} GB` : ""
    }`;
    const closest = nearest?.fits.length ? ` Closest: ${nearest.host.short} with ${nearest.fits.length}.` : "";
    return element("li", { className: "quiet none" }, `No host has ${wanted} now.${closest}`, ...idle(question));
  }

  // Who could be asked: GPUs of the wanted kind that are held and do nothing.
  function idle({ gb, model }) {
    const held = gpumon.hosts
      .flatMap((host) => host.gpus)
      .filter((gpu) => gpu.kind === "held" && (!model || gpu.model === model) && gpu.total >= gb * 1024 - SLACK_MIB);
    const named = held.slice(0, FIRST).flatMap((gpu, place) => [
      place ? ", " : " Held idle: ",
      element("a", { href: `#${gpu.host.anchor}` }, `${gpu.host.short} GPU ${gpu.index}`),
      gpu.names.length ? ` (${gpu.names.join(", ")})` : "",
    ]);
    return held.length > FIRST ? [...named, ` and ${held.length - FIRST} more`] : named;
  }

  function answer() {
    const question = asked();
    const { able, nearest } = rank(question);
    const shown = able.slice(0, showsAll ? MOST : FIRST).map(item);
    if (!able.length) shown.push(none(question, nearest));
    const rest = Math.min(able.length, MOST) - FIRST;
    more.hidden = rest <= 0;
    more.textContent = showsAll ? "fewer" : `+ ${count(rest, "more host")}`;
    more.ariaExpanded = String(showsAll);
    list.replaceChildren(...shown);
  }

  function options() {
    const select = form.elements.pick;
    const chosen = select.value || gpumon.params.get("pick");
    select.length = 1;
    for (const model of [...gpumon.models].sort(gpumon.byName)) select.add(new Option(model, model));
    select.value = chosen;
    if (select.selectedIndex < 0) select.value = "";
  }

  function start() {
    form.elements.n.value = gpumon.params.get("n") || "1";
    form.elements.gb.value = gpumon.params.get("gb");
    options();
    answer();
  }

  form.addEventListener("input", () => {
    showsAll = false;
    const { n, gb, model } = asked();
    gpumon.params.set({ n: n > 1 ? String(n) : "", gb: gb ? String(gb) : "", pick: model });
    answer();
  });
  more.addEventListener("click", () => {
    showsAll = !showsAll;
    answer();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  gpumon.on("update", () => {
    options();
    answer();
  });
  start();
})();
