// Times in the reader's zone, and how old the data is. When two runs are missing, the page reports it, loses its colours and
// offers nothing; so it does with data that is dated ahead of the clock. Ages go by the server's clock where it is known: a
// reader's own may be wrong. Where it is not, nobody can know which of the two is wrong, and nothing is offered.
//
// takes: age duration times element on tell
// gives: clock

(() => {
  "use strict";
  const { times } = gpumon;
  const root = document.documentElement;
  const places = document.getElementsByClassName("data-time");
  const banner = document.querySelector(".banner");
  const PATIENCE_MS = 5000;
  let ahead = null; // the server's clock of the reader's, in milliseconds
  let isAsked = Number(document.body.dataset.refresh) > 0 && location.protocol !== "file:"; // the server, for its clock

  const madeAt = () => Number(made());
  // Until the server has answered, a reader's clock that is behind is not believed.
  const clock = () => (ahead === null && isAsked ? Math.max(Date.now(), madeAt()) : Date.now() + (ahead ?? 0));
  const whose = () => (ahead === null ? "your clock" : "the web server's clock");
  const newest = () => document.querySelector(".masthead .data-time time");

  // Of a time in milliseconds. A page cannot have been made after now: what was stale then is so by any clock.
  function age(time) {
    const limit = Number(document.body.dataset.staleAfter);
    const found = gpumon.age((clock() - time) / 1000, limit);
    return found.isAhead ? found : gpumon.age((Math.max(clock(), madeAt()) - time) / 1000, limit);
  }

  const ageOf = (mark) => age(Date.parse(mark.dateTime));

  // An answer of the server has its clock's time; `sent`: when it was asked.
  function learn(answer, sent) {
    const there = Date.parse(answer.headers.get("Date") ?? "");
    if (Number.isNaN(there)) return;
    // A header has whole seconds: half of one more is the best guess. A cache in between says how long it kept the answer.
    const kept = 1000 * (Number(answer.headers.get("Age")) || 0);
    ahead = there + kept + 500 - (sent + Date.now()) / 2;
    update();
  }

  // Before the first refresh nothing is known of the server's clock.
  async function ask() {
    const sent = Date.now();
    const options = { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) };
    const answer = await fetch(location.pathname, options).catch(() => null);
    isAsked = false;
    if (answer) learn(answer, sent);
    update();
  }

  function say(...parts) {
    const text = banner?.querySelector("span");
    const current = parts.map((part) => part.textContent ?? part).join("");
    // Only a change is worth being read aloud.
    if (text && text.textContent !== current) text.replaceChildren(...parts);
  }

  const made = () => new Date(document.body.dataset.made);

  // What a time is of is its class; of a card it follows the word of its state.
  function inWords(mark, then) {
    const [kind] = ["since", "ends", "by"].filter((name) => mark.classList.contains(name));
    if (!kind) return times.whole(then);
    const isCard = Boolean(mark.closest(".card"));
    if (kind === "since") return `${isCard ? "busy " : ""}${times.since(then, made())}`;
    const by = times.by(then, made());
    if (isCard) return `${mark.dataset.word ?? "busy"} · until ${by}`;
    return kind === "ends" ? `ends by ${by}` : by;
  }

  // The server writes UTC, which stays as the title; here times are the reader's, and the zone is named once.
  // Of the cards, dress.js asks for it, host by host.
  function localise(within) {
    for (const mark of within.querySelectorAll("time[datetime]")) {
      const then = new Date(mark.dateTime);
      mark.title = times.utc(then);
      const text = inWords(mark, then);
      if (mark.textContent !== text) mark.textContent = text;
    }
  }

  function nameZone() {
    const zone = document.querySelector(".masthead .zone");
    const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(Math.max(clock(), madeAt()));
    if (zone) zone.textContent = `(${parts.find(({ type }) => type === "timeZoneName").value})`;
  }

  function update() {
    for (const place of places) {
      const own = ageOf(place.querySelector("time"));
      place.querySelector(".age").textContent = own.words;
      place.classList.toggle("old", own.isStale);
    }
    const time = newest();
    const { seconds, isStale, isAhead, words } = time ? ageOf(time) : {};
    root.classList.toggle("stale", Boolean(isStale));
    const marked = (text) => gpumon.element("b", { className: "age" }, text);
    if (isAhead) {
      say("The data is ", marked(words), ` of ${whose()}: one of the clocks is wrong, and nothing is offered. What you see is dated ${time.textContent}.`);
    } else if (isStale) {
      const missed = Math.floor(seconds / Number(document.body.dataset.interval));
      say("The data is ", marked(`${gpumon.duration(seconds)} old`), `: ${missed} updates were missed. What you see was true at ${time.textContent}.`);
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

  // Whether a host may be offered, which is so many seconds behind the newest data; that alone makes all of it stale.
  function freshness() {
    const time = newest();
    if (!time || ageOf(time).isStale) return () => false;
    return ({ behind }) => !age(Date.parse(time.dateTime) - 1000 * behind).isStale;
  }

  // Why nothing is offered; empty where the data can be believed.
  function stale() {
    const found = newest() && ageOf(newest());
    if (!found?.isStale) return "";
    return found.isAhead ? `${found.words} of ${whose()}` : `${gpumon.duration(found.seconds)} old`;
  }

  // When a host was read, which is so many seconds behind the newest data; in seconds since 1970.
  const readAt = ({ behind }) => (newest() ? Date.parse(newest().dateTime) : madeAt()) / 1000 - behind;

  gpumon.clock = { learn, localise, made, readAt, freshness, stale, hasData: () => newest() !== null };
  start();
  if (isAsked) ask();
  setInterval(update, 5000);
  document.addEventListener("visibilitychange", update);
  gpumon.on("update", start);
  gpumon.on("offline", update);
})();
