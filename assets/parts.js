// A site of several pages: addresses of hosts and GPUs lead to the page that has them, through the overview, which knows
// them all; on the overview, the hosts that a question finds are listed by name.
//
// takes: on element count state link
(() => {
  "use strict";
  const MOST = 60;
  const SENT = "gpumon.sent";
  const { home } = document.body.dataset;
  const { element, count } = gpumon;
  if (!home && !gpumon.state.isOverview) return;

  const session = {
    get: () => { try { return sessionStorage.getItem(SENT); } catch { return null; } },
    set: (hash) => { try { sessionStorage.setItem(SENT, hash); } catch { /* A page that lacks the host says so. */ } },
  };

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  // #host/NAME, #gpu/NAME/INDEX, #host-NAME:INDEX
  function hostOf(hash) {
    const [, name] = /^#(?:host|gpu)\/([^/]+)/.exec(hash) ?? [];
    const wanted = name && decoded(name);
    const anchor = hash.slice(1).split(":")[0];
    return { isHost: Boolean(name) || anchor.startsWith("host-"), host: gpumon.state.hosts.find((one) => (name ? one.name === wanted : one.anchor === anchor)) };
  }

  // The address of what is on another page; null for what is on this one, or nowhere.
  function elsewhere(hash) {
    const { isHost, host } = hostOf(hash);
    if (host) return host.page ? host.page + hash : null;
    if (!home) return null;
    // A host that the overview has just sent here, and that is not here, is not sent back.
    return hash === "#supply" || (isHost && session.get() !== hash) ? home + hash : null;
  }

  function leave(how, hash, event) {
    const to = elsewhere(hash);
    if (!to) return;
    event?.preventDefault();
    if (gpumon.state.isOverview) session.set(hash);
    location[how](to);
  }

  document.addEventListener("click", (event) => {
    const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    const link = event.target.closest?.("a[href^='#']:not(.skip)");
    if (link && isPlain) leave("assign", link.getAttribute("href"), event);
  }, true);
  addEventListener("hashchange", () => leave("replace", location.hash));
  if (location.hash) leave("replace", location.hash);

  function item(host) {
    const free = host.matched.filter((gpu) => gpu.kind === "free").length;
    const models = [...new Set(host.matched.map((gpu) => gpu.model))].slice(0, 3).join(", ");
    const summary = host.gpus.length ? `${free} of ${count(host.matched.length, "GPU")} free · ${models}` : [host.notice?.word, host.notice?.status].filter(Boolean).join(" ");
    const link = element("a", { href: host.page + gpumon.link("host", host.name) }, element("bdi", {}, host.short));
    return element("li", {}, link, " ", element("span", { className: "quiet" }, [host.group, summary].filter(Boolean).join(" · ")));
  }

  // The rest is added on demand, as many at a time.
  function list(most = MOST) {
    const holder = document.getElementById("found-hosts");
    if (!holder) return;
    const found = gpumon.state.isFiltered ? gpumon.state.ordered.filter((host) => host.shown) : [];
    holder.hidden = !found.length;
    holder.replaceChildren(...found.slice(0, most).map(item));
    if (found.length <= most) return;
    const more = element("button", { type: "button" }, `+ ${count(found.length - most, "more host")}`);
    more.addEventListener("click", () => {
      list(most + MOST);
      holder.children[most]?.querySelector("a").focus();
    });
    holder.append(element("li", {}, more));
  }

  if (gpumon.state.isOverview) {
    gpumon.on("filter", () => list());
  }
})();
