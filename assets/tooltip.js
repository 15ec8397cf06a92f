// One tooltip at a time, beside its card and inside the window; opened by pointer, focus or tap, closed by Escape.
// No listener per card: thousands of them would be felt.
(() => {
  "use strict";
  const GAP = 4;
  const EDGE = 8;
  const DELAY = 80;
  const sheet = matchMedia("(max-width: 599px)");
  let open = null;
  let dismissed = null;
  let timer = 0;

  const cardOf = (node) => (node instanceof Element ? node.closest(".card[aria-describedby]") : null);
  const tipOf = (card) => card.querySelector(".tip");
  const focused = () => cardOf(document.activeElement);

  const within = (low, value, high) => Math.max(low, Math.min(value, high));

  // Under the card, else over it; a tall one beside it; where even that is too narrow, the larger side and scrolling.
  function spot(card, tip, width, height) {
    const below = height - card.bottom - GAP - EDGE;
    const above = card.top - GAP - EDGE;
    const under = tip.height <= below || below >= above;
    const left = within(EDGE, card.left, width - tip.width - EDGE);
    if (tip.height > Math.max(below, above)) {
      const room = height - 2 * EDGE;
      const top = within(EDGE, card.top, height - Math.min(tip.height, room) - EDGE);
      if (card.right + GAP + tip.width + EDGE <= width) return { left: card.right + GAP, top, room };
      if (card.left - GAP - tip.width >= EDGE) return { left: card.left - GAP - tip.width, top, room };
    }
    const room = Math.max(under ? below : above, height / 3);
    const tall = Math.min(tip.height, room);
    const top = under ? card.bottom + GAP : card.top - GAP - tall;
    return { left, top: within(EDGE, top, height - tall - EDGE), room };
  }

  function place() {
    const tip = tipOf(open);
    const style = tip.style;
    style.left = style.top = style.right = style.bottom = style.maxHeight = "";
    if (sheet.matches) return;
    const { clientWidth, clientHeight } = document.documentElement;
    const found = spot(open.getBoundingClientRect(), tip.getBoundingClientRect(), clientWidth, clientHeight);
    style.right = style.bottom = "auto";
    style.left = `${found.left}px`;
    style.top = `${found.top}px`;
    style.maxHeight = `${found.room}px`;
  }

  function show(card) {
    clearTimeout(timer);
    if (card === open || (card && card === dismissed)) return;
    open?.classList.remove("open");
    open = card;
    if (!card) return;
    card.classList.add("open");
    place();
  }

  function dismiss() {
    dismissed = open;
    show(null);
  }

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const card = cardOf(event.target);
    if (card !== dismissed) dismissed = null;
    clearTimeout(timer);
    timer = setTimeout(() => show(card || focused()), DELAY);
  });
  document.documentElement.addEventListener("pointerleave", () => show(focused()));
  document.addEventListener("focusin", (event) => {
    dismissed = null;
    show(cardOf(event.target));
  });
  document.addEventListener("focusout", (event) => {
    if (!cardOf(event.relatedTarget)) show(null);
  });
  document.addEventListener("click", (event) => {
    dismissed = null;
    show(cardOf(event.target));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && open) dismiss();
  });
  document.addEventListener("scroll", (event) => open && event.target === document && place(), { passive: true });
  addEventListener("resize", () => open && place());

  document.documentElement.classList.add("js");
})();
