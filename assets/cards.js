// Keys: arrows move between the cards of a host and from host to host, Enter opens a card, Tab goes by hosts, / searches.
(() => {
  "use strict";
  const CARD = ".card[tabindex], .slice[tabindex]";
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

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const active = document.activeElement;
    if (event.key === "/" && !active.matches("input, select, textarea")) {
      event.preventDefault();
      document.querySelector("#find [name=q]")?.focus();
    } else if (active.matches(`${CARD}, tr[data-card]`) && event.key === "Enter") {
      const gpu = gpumon.gpuAt(active.dataset.card ?? active.id);
      if (gpu) location.hash = gpumon.places.link("gpu", gpu.host.name, gpu.index);
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
