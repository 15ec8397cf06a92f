// How old the data is, seen from the reader's clock; what is older than the page allows is marked.
(() => {
  "use strict";
  const oldAfter = Number(document.body.dataset.oldAfter);
  const places = document.querySelectorAll(".data-time");

  function words(seconds) {
    const minutes = Math.floor(seconds / 60);
    const hours = Math.floor(minutes / 60);
    const days = Math.floor(hours / 24);
    if (minutes < 1) return "just now";
    if (hours < 1) return `${minutes} min ago`;
    if (days < 1) return `${hours} h ago`;
    return hours % 24 && days < 100 ? `${days} d ${hours % 24} h ago` : `${days} d ago`;
  }

  function update() {
    for (const place of places) {
      const seconds = (Date.now() - Date.parse(place.querySelector("time").dateTime)) / 1000;
      place.querySelector(".age").textContent = words(seconds);
      place.classList.toggle("old", seconds > oldAfter);
    }
  }

  update();
  setInterval(update, 10000);
  document.addEventListener("visibilitychange", update);
})();
