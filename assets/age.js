// Times in the reader's zone, and how old the data is. When two runs are missing, the page reports it, loses its colours and
// offers nothing. Ages go by the server's clock where it is known: a reader's own may be wrong.
(() => {
  "use strict";
  const root = document.documentElement;
  const places = document.getElementsByClassName("data-time");
  const banner = document.querySelector(".banner");
  let ahead = 0; // the server's clock of the reader's, in milliseconds

  // The page cannot have been made after now, whatever a clock says.
  const now = () => Math.max(Date.now() + ahead, Date.parse(document.body.dataset.made));
  const seconds = (time) => Math.max(0, (now() - Date.parse(time.dateTime)) / 1000);
  const newest = () => document.querySelector(".masthead .data-time time");

  // An answer of the server has its clock's time; `sent`: when it was asked.
  function learn(answer, sent) {
    const there = Date.parse(answer.headers.get("Date") ?? "");
    if (Number.isNaN(there)) return;
    // A header has whole seconds: half of one more is the best guess. A cache in between says how long it kept the answer.
    const kept = 1000 * (Number(answer.headers.get("Age")) || 0);
    ahead = there + kept + 500 - (sent + Date.now()) / 2;
    update();
  }

  function words(age) {
    return age < 60 ? "just now" : `${gpumon.duration(age)} ago`;
  }

  function say(...parts) {
    const text = banner?.querySelector("span");
    const said = parts.map((part) => part.textContent ?? part).join("");
    // Only a change is worth being read aloud.
    if (text && text.textContent !== said) text.replaceChildren(...parts);
  }

  const two = (number) => String(number).padStart(2, "0");
  const clock = (time) => `${two(time.getHours())}:${two(time.getMinutes())}`;
  const date = (time) => `${time.getDate()} ${time.toLocaleDateString("en-GB", { month: "short" })}`;

  function since(then) {
    const made = new Date(document.body.dataset.made);
    const days = Math.round((made.setHours(0, 0, 0, 0) - new Date(then).setHours(0, 0, 0, 0)) / 86400000);
    return `since ${days <= 0 ? clock(then) : days === 1 ? "yesterday" : date(then)}`;
  }

  // 16:10, Tue 16:10 or 3 Dec 16:10: a time to come.
  function by(then) {
    const made = new Date(document.body.dataset.made);
    const days = Math.round((new Date(then).setHours(0, 0, 0, 0) - made.setHours(0, 0, 0, 0)) / 86400000);
    if (days <= 0) return clock(then);
    return `${days < 6 ? then.toLocaleDateString("en-GB", { weekday: "short" }) : date(then)} ${clock(then)}`;
  }

  const ends = (then) => `ends by ${by(then)}`;

  // The server writes UTC, which stays as the title; here times are the reader's, and the zone is named once.
  // Of the cards, dress.js asks for it, host by host.
  function localise(within) {
    for (const mark of within.querySelectorAll("time[datetime]")) {
      const then = new Date(mark.dateTime);
      const words = mark.classList.contains("since") ? since : mark.classList.contains("ends") ? ends : mark.classList.contains("by") ? by : null;
      const utc = then.toISOString();
      mark.title = `${utc.slice(0, 10)} ${utc.slice(11, 16)} UTC`;
      const text = words ? `${words === since && mark.closest(".card") ? "busy " : ""}${mark.dataset.word ? `${mark.dataset.word}, ` : ""}${words(then)}` : `${date(then)} ${then.getFullYear()}, ${clock(then)}`;
      if (mark.textContent !== text) mark.textContent = text;
    }
  }

  function nameZone() {
    const zone = document.querySelector(".masthead .zone");
    const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(now());
    if (zone) zone.textContent = `(${parts.find(({ type }) => type === "timeZoneName").value})`;
  }

  function update() {
    const oldAfter = Number(document.body.dataset.staleAfter);
    for (const place of places) {
      const age = seconds(place.querySelector("time"));
      place.querySelector(".age").textContent = words(age);
      place.classList.toggle("old", age > oldAfter);
    }
    const time = newest();
    const isStale = time !== null && seconds(time) > oldAfter;
    root.classList.toggle("stale", isStale);
    // What was free then may be taken now.
    const headline = document.querySelector(".free-count strong + span");
    const said = headline?.textContent.replace(/(were )?free/, isStale ? "were free" : "free");
    if (headline && headline.textContent !== said) headline.textContent = said;
    if (isStale) {
      const missed = Math.floor(seconds(time) / Number(document.body.dataset.interval));
      const age = gpumon.element("b", { className: "age" }, `${gpumon.duration(seconds(time))} old`);
      say("The data is ", age, `: ${missed} updates were missed. What you see was true at ${time.textContent}.`);
    } else if (root.classList.contains("offline")) {
      say("This page could not be refreshed: the server does not answer.");
    }
    gpumon.tell("age");
  }

  function start() {
    for (const part of document.querySelectorAll(".masthead, .banner, .place:not(#now), footer")) localise(part);
    nameZone();
    update();
  }

  gpumon.clock = { learn, localise, by, hasData: () => newest() !== null, age: () => (newest() ? seconds(newest()) : 0) };
  start();
  setInterval(update, 5000);
  document.addEventListener("visibilitychange", update);
  gpumon.on("update", start);
  gpumon.on("offline", update);
})();
