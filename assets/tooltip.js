// The tip of a card: at most five lines, beside it and inside the window; opened by pointer or focus, closed by Escape. It
// begins below the card's first line, and covers the first line of no other one. It is made when asked for; a click opens
// the panel, which has the rest. No listener per card: thousands would be felt.
//
// takes: on element amounts duration gpuAt past things details
// gives: tooltip
(() => {
  "use strict";
  const { element, amounts, duration } = gpumon;
  const GAP = 4;
  const EDGE = 8;
  const FIRST_LINE = 34; // of a card, with what is above it; a tip of five lines ends before the next row's
  const DELAY = 80;
  const MOST_USERS = 3;
  const MOST_LINES = 5;
  const touched = matchMedia("(hover: none)");
  let open = null;
  let tip = null;
  let dismissed = null;
  let timer = 0;

  // A card, a slice in one, or a row of the table view that stands for either.
  const ownerOf = (node) => (node instanceof Element ? node.closest(".card[tabindex], .slice[tabindex], tr[data-card]") : null);
  const placeOf = (owner) => (owner.dataset.card ? owner.cells[1] : owner);
  const focused = () => ownerOf(document.activeElement);
  const within = (low, value, high) => Math.max(low, Math.min(value, high));
  const line = (...content) => element("p", {}, ...content);

  // jonas  18.2 GB  python3  5 h
  function userLine({ owner, mib, least }, { known, total }) {
    const { program = "", elapsed = null } = known.processes.find((one) => one.owner === owner) ?? {};
    const parts = [owner[0], `${least ? "≥ " : ""}${amounts.text(mib, total)}`, program, elapsed === null ? "" : duration(elapsed)];
    return element("li", {}, ...parts.map((text) => element("bdi", {}, text)));
  }

  function userLines(gpu) {
    const { users, moreUsers, sentence } = gpu.known;
    if (!users.length) return [line(sentence || "No processes.")];
    const all = users.length + moreUsers;
    const shown = users.slice(0, all > MOST_USERS ? MOST_USERS - 1 : MOST_USERS);
    const rest = all > shown.length ? [element("li", { className: "rest" }, `+ ${all - shown.length} more users`)] : [];
    return [element("ul", { className: "tip-users" }, ...shown.map((user) => userLine(user, gpu)), ...rest)];
  }

  // 71 °C · 310 of 350 W · until 14:30
  function measured({ temperature, power, known: { limit, job } }) {
    const parts = [];
    if (temperature !== null) parts.push([`${temperature} °C`]);
    if (power !== null) parts.push([limit === null ? `${power} W` : `${power} of ${limit} W`]);
    if (job?.ends) parts.push(["until ", gpumon.things.by(job.ends)]);
    return parts.length ? [line(...parts.flatMap((part, place) => [place ? " · " : "", ...part]))] : [];
  }

  function faultLine({ known: { faults } }) {
    const [first] = faults;
    if (!first) return [];
    const more = faults.length > 1 ? ` + ${faults.length - 1} more` : "";
    return [element("p", { className: first.broken ? "fault" : "" }, first.broken ? element("i", { className: "icon i-failed" }) : "", `${first.word} ${first.detail}${more}`)];
  }

  function lastDay(gpu) {
    const spent = gpumon.past?.of(gpu)?.spent;
    return spent ? [line(`24 h: ${gpumon.details.spent(spent)}`)] : [];
  }

  // Read aloud after the name of the card, as one sentence.
  function sentence(gpu, lines) {
    const { users, sentence: none } = gpu.known;
    const who = users.slice(0, MOST_USERS).map(({ owner, mib }) => `${owner[0]} ${amounts.text(mib, gpu.total)}`).join(", ");
    const rest = lines.slice(1).map((one) => one.textContent);
    return element("p", { id: "tip-sentence", className: "spoken" }, [who || (none || "no processes").replace(/\.$/, ""), ...rest].join("; "));
  }

  function make(owner) {
    const gpu = gpumon.gpuAt(owner.dataset.card ?? owner.id);
    if (!gpu) return null;
    const lines = [...userLines(gpu), ...measured(gpu), ...faultLine(gpu)];
    const used = lines.length - 1 + (lines[0].children.length || 1);
    if (used < MOST_LINES) lines.push(...lastDay(gpu));
    return element("div", { className: "tip", id: "tip", role: "tooltip" }, ...lines, sentence(gpu, lines));
  }

  // Beside the card, over its own lower lines where the window is narrow; else below or above it.
  function spots(owner, box) {
    const around = (owner.closest(".card") ?? placeOf(owner)).getBoundingClientRect();
    const { left, top, bottom } = placeOf(owner).getBoundingClientRect();
    const below = { left, top: bottom + GAP };
    const above = { left, top: top - GAP - box.height };
    if (owner.dataset.card) return [below, above];
    const beside = [around.right + GAP, around.left - GAP - box.width].map((x) => ({ left: x, top: around.top + FIRST_LINE }));
    const over = around.height > 2 * FIRST_LINE ? [{ left: around.left, top: around.top + FIRST_LINE }] : [];
    const onTop = { left: around.left, top: around.top + 6 - box.height };
    return [...beside, ...over, below, above, onTop];
  }

  // The first lines of the cards that are in sight, and the names of their hosts.
  function firstLines(height) {
    const hosts = [...document.querySelectorAll("#hosts > .host:not([hidden])")].filter((host) => {
      const { top, bottom } = host.getBoundingClientRect();
      return bottom > 0 && top < height;
    });
    const first = hosts.flatMap((host) => [...host.querySelectorAll("h2, .card > bdi, .card > .state, .slice > bdi")]);
    return first.map((one) => one.getBoundingClientRect());
  }

  function place() {
    const { clientWidth, clientHeight } = document.documentElement;
    const { width, height } = tip.getBoundingClientRect();
    const lines = firstLines(clientHeight);
    const covers = ({ left, top }) => lines.filter((one) => one.left < left + width && left < one.right && one.top < top + height && top < one.bottom).length;
    const inside = ({ left, top }) => ({ left: within(EDGE, left, clientWidth - width - EDGE), top: within(EDGE, top, clientHeight - height - EDGE) });
    const all = spots(open, { width, height });
    // One that has to be moved aside would lie on its card.
    const free = all.filter(({ left }, number) => open.dataset.card || number > 1 || inside({ left, top: 0 }).left === left);
    const [best] = free.map(inside).map((spot) => [covers(spot), spot]).sort(([one], [two]) => one - two);
    Object.assign(tip.style, { left: `${best[1].left}px`, top: `${best[1].top}px` });
  }

  function close() {
    open?.removeAttribute("aria-describedby");
    tip?.remove();
    open = tip = null;
  }

  function show(owner) {
    clearTimeout(timer);
    if (owner === open || (owner && owner === dismissed)) return;
    close();
    if (!owner) return;
    tip = make(owner);
    if (!tip) return;
    tip.popover = "manual";
    open = owner;
    owner.removeAttribute("title");
    placeOf(owner).append(tip);
    owner.setAttribute("aria-describedby", "tip-sentence");
    tip.showPopover();
    place();
  }

  // The same card, or the row of the same card, when it has been made anew.
  function finder(owner) {
    const { id, dataset } = owner ?? {};
    if (dataset?.card) return () => document.querySelector(`tr[data-card="${CSS.escape(dataset.card)}"]`);
    return () => (id ? document.getElementById(id) : null);
  }

  // After a refresh the card is a new one: its tip opens again where it was.
  function keep(change) {
    const again = finder(open);
    const focus = finder(focused());
    close();
    change();
    focus()?.focus({ preventScroll: true });
    const owner = again();
    if (!owner || owner.hidden) return;
    show(owner);
    tip?.classList.add("still");
  }

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const owner = ownerOf(event.target);
    if (owner !== dismissed) dismissed = null;
    clearTimeout(timer);
    timer = setTimeout(() => show(owner || focused()), DELAY);
  });
  document.documentElement.addEventListener("pointerleave", () => show(focused()));
  document.addEventListener("focusin", (event) => {
    dismissed = null;
    // A reader who comes back to a card by a finger did not ask for it.
    if (!touched.matches || event.target.matches(":focus-visible")) show(ownerOf(event.target));
  });
  document.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !ownerOf(event.relatedTarget)) show(null);
  });
  document.addEventListener("click", (event) => tip?.contains(event.target) || show(null));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !open) return;
    event.preventDefault();
    dismissed = open;
    show(null);
  });
  document.addEventListener("scroll", (event) => open && event.target === document && place(), { passive: true });
  addEventListener("resize", () => open && place());

  gpumon.on("place", () => show(null));
  gpumon.tooltip = { keep, host: () => open?.closest(".host") ?? null, isOpen: () => open !== null };
})();
