// How old the data is, seen from the reader's clock. When two runs are missing, the page says so and loses its colours.
(() => {
  "use strict";
  const root = document.documentElement;
  const places = document.getElementsByClassName("data-time");
  const banner = document.querySelector(".banner");

  const seconds = (time) => Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000);

  function words(age) {
    return age < 60 ? "just now" : `${gpumon.duration(age)} ago`;
  }

  function say(...parts) {
    const text = banner?.querySelector("span");
    const said = parts.map((part) => part.textContent ?? part).join("");
    // Only a change is worth being read aloud.
    if (text && text.textContent !== said) text.replaceChildren(...parts);
  }

  function update() {
    const oldAfter = Number(document.body.dataset.staleAfter);
    for (const place of places) {
      const age = seconds(place.querySelector("time"));
      place.querySelector(".age").textContent = words(age);
      place.classList.toggle("old", age > oldAfter);
    }
    const time = document.querySelector(".masthead .data-time time");
    const isStale = time !== null && seconds(time) > oldAfter;
    root.classList.toggle("stale", isStale);
    if (isStale) {
      const missed = Math.floor(seconds(time) / Number(document.body.dataset.interval));
      const age = gpumon.element("b", { className: "age" }, `${gpumon.duration(seconds(time))} old`);
      say("The data is ", age, `: ${missed} updates were missed. What you see was true at ${time.textContent}.`);
    } else if (root.classList.contains("offline")) {
      say("This page could not be refreshed: the server does not answer.");
    }
  }

  update();
  setInterval(update, 5000);
  document.addEventListener("visibilitychange", update);
  gpumon.on("update", update);
  gpumon.on("offline", update);
})();
