// One tooltip at a time, beside its card and inside the window; opened by pointer or focus, closed by Escape.
// It is made when asked for, by details.js. No listener per card: thousands would be felt.
//
// takes: element gpuAt link details lastDay
// gives: tooltip
(() => {
  "use strict";
  const GAP = 4;
  const EDGE = 8;
  const DELAY = 80;
  const sheet = matchMedia("(max-width: 599px)");
  let open = null;
  let tip = null;
  let dismissed = null;
  let timer = 0;

  // A card, a slice in one, or a row of the table view that stands for either.
  const ownerOf = (node) => (node instanceof Element ? node.closest(".card[tabindex], .slice[tabindex], tr[data-card]") : null);
  const placeOf = (owner) => (owner.dataset.card ? owner.cells[1] : owner);
  const focused = () => ownerOf(document.activeElement);
  const within = (low, value, high) => Math.max(low, Math.min(value, high));

  function make(owner) {
    const gpu = gpumon.gpuAt(owner.dataset.card ?? owner.id);
    if (!gpu) return null;
    const address = gpumon.link("gpu", gpu.host.name, gpu.index);
    const [index, slice] = gpu.index.split(":");
    const name = `${gpu.host.name} · GPU ${index}${slice ? ` · slice ${slice}` : ""}`;
    const title = gpumon.element("p", { className: "tip-title" }, gpumon.element("a", { href: address, title: "Open" }, name));
    title.append(" ", gpumon.element("bdi", {}, gpu.name));
    const made = gpumon.element("div", { className: "tip", role: "tooltip" }, title, ...gpumon.details.make(gpu));
    gpumon.lastDay(made, gpu);
    return made;
  }

  // Under the card, else over it; a tall one beside it; where even that is too narrow, the larger side and scrolling.
  function spot(card, box, width, height) {
    const below = height - card.bottom - GAP - EDGE;
    const above = card.top - GAP - EDGE;
    const under = box.height <= below || below >= above;
    const left = within(EDGE, card.left, width - box.width - EDGE);
    if (box.height > Math.max(below, above)) {
      const room = height - 4 * EDGE; // as much as tooltip.css allows
      const top = within(EDGE, card.top, height - Math.min(box.height, room) - EDGE);
      if (card.right + GAP + box.width + EDGE <= width) return { left: card.right + GAP, top, room };
      if (card.left - GAP - box.width >= EDGE) return { left: card.left - GAP - box.width, top, room };
    }
    const room = Math.max(under ? below : above, height / 3);
    const tall = Math.min(box.height, room);
    const top = under ? card.bottom + GAP : card.top - GAP - tall;
    return { left, top: within(EDGE, top, height - tall - EDGE), room };
  }

  function place() {
    const style = tip.style;
    style.left = style.top = style.right = style.bottom = style.maxHeight = "";
    if (sheet.matches) return;
    const { clientWidth, clientHeight } = document.documentElement;
    const found = spot(placeOf(open).getBoundingClientRect(), tip.getBoundingClientRect(), clientWidth, clientHeight);
    style.right = style.bottom = "auto";
    style.left = `${found.left}px`;
    style.top = `${found.top}px`;
    style.maxHeight = `${found.room}px`;
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
    tip.id = "tip";
    tip.popover = "manual";
    open = owner;
    owner.removeAttribute("title");
    placeOf(owner).append(tip);
    owner.setAttribute("aria-describedby", "tip");
    tip.showPopover();
    place();
    if (sheet.matches) reveal();
  }

  // The sheet covers the lower half of a phone, and must not cover what was asked about.
  function reveal() {
    const covered = placeOf(open).getBoundingClientRect().bottom + EDGE - tip.getBoundingClientRect().top;
    if (covered > 0) scrollBy(0, covered);
  }

  function dismiss() {
    dismissed = open;
    if (tip.contains(document.activeElement)) open.focus();
    show(null);
  }

  // The same card, or the row of the same card, when it has been made anew.
  function finder(owner) {
    const { id, dataset } = owner ?? {};
    if (dataset?.card) return () => document.querySelector(`tr[data-card="${CSS.escape(dataset.card)}"]`);
    return () => (id ? document.getElementById(id) : null);
  }

  // After a refresh the card is a new one: its tooltip opens again where it was, as far scrolled as it was.
  function keep(change) {
    const [again, scrolled] = [finder(open), tip?.scrollTop ?? 0];
    const focus = finder(focused());
    close();
    change();
    focus()?.focus({ preventScroll: true });
    const owner = again();
    if (!owner || owner.hidden) return;
    show(owner);
    tip.classList.add("still");
    tip.scrollTop = scrolled;
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
    // Who comes back to a card by a finger did not ask for it.
    if (!sheet.matches || event.target.matches(":focus-visible")) show(ownerOf(event.target));
  });
  document.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !ownerOf(event.relatedTarget)) show(null);
  });
  // A click opens the card itself.
  document.addEventListener("click", (event) => {
    if (!tip?.contains(event.target)) show(null);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && open) {
      event.preventDefault();
      dismiss();
    }
    if (!tip || (event.key !== "PageDown" && event.key !== "PageUp")) return;
    if (tip.scrollHeight <= tip.clientHeight) return;
    event.preventDefault();
    tip.scrollBy(0, (event.key === "PageDown" ? 0.8 : -0.8) * tip.clientHeight);
  });
  document.addEventListener("scroll", (event) => open && event.target === document && place(), { passive: true });
  addEventListener("resize", () => open && place());

  gpumon.tooltip = { keep, host: () => open?.closest(".host") ?? null, isOpen: () => open !== null };
})();
