// A click, a tap or Enter opens a card as a panel. Arrows move between the cards of a host and from host to host, Tab goes by
// hosts, / searches.
//
// takes: gpuAt link places
(() => {
  "use strict";
  const CARD = ".card[tabindex], .slice[tabindex]"; // dress.js makes them so
  const shown = (cards) => [...cards].filter((card) => card.tabIndex !== undefined && !card.hidden);
  const cardsOf = (host) => shown(host.querySelectorAll(CARD));

  // Where Tab has been in a host is its one stop from then on.
  function stopAt(card) {
    for (const other of card.closest(".host").querySelectorAll(CARD)) other.tabIndex = other === card ? 0 : -1;
  }

  function neighbour(card, down) {
    const place = cardsOf(card.closest(".host")).indexOf(card);
    let host = card.closest(".host");
    do host = down ? host.nextElementSibling : host.previousElementSibling;
    while (host && (host.hidden || !cardsOf(host).length));
    const cards = host ? cardsOf(host) : [];
    return cards[Math.min(place, cards.length - 1)];
  }

  function target(key, card) {
    const cards = cardsOf(card.closest(".host"));
    const place = cards.indexOf(card);
    if (key === "ArrowRight") return cards[place + 1];
    if (key === "ArrowLeft") return cards[place - 1];
    if (key === "Home") return cards[0];
    if (key === "End") return cards.at(-1);
    if (key === "ArrowDown" || key === "ArrowUp") return neighbour(card, key === "ArrowDown");
    return undefined;
  }

  function open(card) {
    const gpu = gpumon.gpuAt(card.dataset.card ?? card.id);
    if (gpu) gpumon.places.open(gpumon.link("gpu", gpu.host.name, gpu.index), card);
  }

  // Text that is being selected is not the card.
  document.addEventListener("click", (event) => {
    const card = event.target.closest?.(`${CARD}, tr[data-card]`);
    if (card && !event.target.closest("a, button") && !getSelection().toString()) open(card);
  });

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const active = document.activeElement;
    if (event.key === "/" && !active.matches("input, select, textarea")) {
      event.preventDefault();
      document.querySelector("#find [name=q]")?.focus();
    } else if (active.matches(`${CARD}, tr[data-card]`) && event.key === "Enter") {
      open(active);
    } else if (active.matches(CARD)) {
      const next = target(event.key, active);
      if (!next) return;
      event.preventDefault();
      next.focus();
      next.scrollIntoView({ block: "nearest" });
    }
  });
  document.addEventListener("focusin", (event) => event.target.matches(CARD) && stopAt(event.target));
})();
