// "Where can I run?", asked and answered; the rule is in offers.js.
(() => {
  "use strict";
  const FIRST = 3;
  const MOST = 30;
  const form = document.getElementById("picker");
  const list = document.getElementById("answers");
  const more = document.getElementById("more-answers");
  let showsAll = false;
  let fresh = 0;
  if (!form) return;

  const { element, gigabytes, count } = gpumon;
  const { offers, modelMatcher, mib } = gpumon.offers;

  function asked() {
    const gb = Math.max(0, Number(form.elements.gb.value) || 0);
    return { n: Math.max(1, Math.floor(Number(form.elements.n.value)) || 1), gb, mib: mib(gb), model: form.elements.pick.value };
  }

  function copyButton(label, text) {
    const icon = element("i", { className: "icon i-copy" });
    const button = element("button", { type: "button", title: text }, icon, element("span", { className: "spoken" }, "copy "), label);
    button.dataset.copy = text;
    return button;
  }

  // CUDA devices, HIP devices: as the variable is called.
  function devices(gpus) {
    const [{ environment }] = gpus;
    const kind = environment.match(/([A-Z]+)_VISIBLE/)?.[1] ?? "";
    return copyButton(`${kind} devices`.trim(), environment + gpus.map((gpu) => gpu.device).join(","));
  }

  function item({ host, gpus, tight, isMixed }) {
    const least = gpus.some((gpu) => gpu.free === null) ? null : Math.min(...gpus.map((gpu) => gpu.free));
    const models = isMixed ? "several models" : `${gpus[0].model}, ${gigabytes(least)} GB`;
    const made = element(
      "li",
      {},
      element("a", { href: `#${host.anchor}`, title: host.name }, host.short),
      `GPU ${gpus.map((gpu) => gpu.index).join(", ")}`,
      element("span", { className: "quiet" }, models),
      copyButton("ssh", host.port ? `ssh -p ${host.port} ${host.name}` : `ssh ${host.name}`),
      devices(gpus),
    );
    if (host.note) made.append(element("span", { className: "quiet note" }, host.note));
    if (tight.length) made.append(element("span", { className: "tight" }, `⚠ ${tight.join(", ")}`));
    return made;
  }

  function stale() {
    const age = gpumon.duration(gpumon.clock.age());
    return element("li", { className: "quiet none" }, `The data is ${age} old: what was free then may be taken now, so nothing is offered.`);
  }

  function none(question, nearest) {
    const wanted = `${count(question.n, question.model ? `free ${question.model}` : "free GPU")}${
      question.gb ? ` with ${question.gb} GB` : ""
    }`;
    const closest = nearest?.fits.length ? ` Closest: ${nearest.host.short} with ${nearest.fits.length}.` : "";
    return element("li", { className: "quiet none" }, `No host has ${wanted} now.${closest}`, ...idle(question));
  }

  // Who could be asked: GPUs of the wanted kind that are held and do nothing.
  function idle({ mib, model }) {
    const isWanted = modelMatcher(gpumon.hosts, model);
    const held = gpumon.hosts
      .flatMap((host) => host.gpus)
      .filter((gpu) => gpu.kind === "held" && isWanted(gpu) && (gpu.total ?? 0) >= mib);
    const named = held.slice(0, FIRST).flatMap((gpu, place) => [
      place ? ", " : " Held idle: ",
      element("a", { href: `#${gpu.host.anchor}` }, `${gpu.host.short} GPU ${gpu.index}`),
      gpu.names.length ? ` (${gpu.names.join(", ")})` : "",
    ]);
    return held.length > FIRST ? [...named, ` and ${held.length - FIRST} more`] : named;
  }

  // How far a host may be behind the newest data, which has an age itself. Stale data offers nothing.
  const oldest = () => Number(document.body.dataset.staleAfter) - gpumon.clock.age();
  const countFresh = () => gpumon.hosts.filter((host) => host.behind <= oldest()).length;

  function answer() {
    const question = asked();
    fresh = countFresh();
    const { able, nearest } = offers(gpumon.hosts, question, oldest());
    const shown = able.slice(0, showsAll ? MOST : FIRST).map(item);
    if (!able.length) shown.push(oldest() < 0 ? stale() : none(question, nearest));
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
  gpumon.on("age", () => countFresh() !== fresh && answer());
  start();
})();
