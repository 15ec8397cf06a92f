// The query of the address: it carries the view, so that a link shares it. What it asks and the page does not know is
// ignored, and named in a line on top.
//
// gives: params link
(() => {
  "use strict";
  const isNumber = (text) => Number(text) > 0 && Number(text) < Infinity;
  const isOneOf = (...values) => (text) => values.includes(text);
  const isSwitch = [isOneOf("0", "1"), "is neither 0 nor 1"];
  const isAmount = [isNumber, "is not an amount in GB"];
  // Any text may be a model, a group or a word to search for: where it is none, nothing matches, and the page says so.
  const KNOWN = {
    n: [(text) => isNumber(text) && Number(text) >= 1, "is not a number of GPUs"],
    mem: isAmount,
    gb: isAmount,
    free: isSwitch,
    mine: isSwitch,
    kiosk: isSwitch,
    embed: isSwitch,
    state: [isOneOf("busy", "held", "unknown", "failed"), "is not a state"],
    sort: [isOneOf("free", "load"), "is not an order"],
    view: [isOneOf("cards", "compact", "table"), "is not a view"],
    range: [isOneOf("24h", "7d", "30d", "1y"), "is not a range of time"],
    supply: [isOneOf("7d", "30d", "90d", "1y"), "is not a range of time"],
  };
  const notes = {};

  const get = (name) => new URLSearchParams(location.search).get(name) ?? "";
  // Without a value it is on, as ?kiosk is.
  const isOn = (name) => ["", "1"].includes(new URLSearchParams(location.search).get(name));

  function set(values) {
    const search = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(values)) value ? search.set(name, value) : search.delete(name);
    const query = search.toString().replace(/=(?=&|$)/g, "");
    history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash);
  }

  function note(about, text) {
    notes[about] = text;
    const line = document.getElementById("ignored");
    if (!line) return;
    line.textContent = Object.values(notes).filter(Boolean).join(" · ");
    line.hidden = !line.textContent;
  }

  // What is not known is dropped, so that nobody who reads the query has to look twice.
  function check() {
    const wrong = Object.keys(KNOWN).filter((name) => get(name) && !KNOWN[name][0](get(name)));
    if (!wrong.length) return;
    note("query", wrong.map((name) => `${name}=${get(name).slice(0, 80)} ${KNOWN[name][1]}: ignored`).join(" · "));
    set(Object.fromEntries(wrong.map((name) => [name, ""])));
  }

  gpumon.params = { get, set, isOn, check, note };
  // The address of a thing, for href: link("gpu", "vision-01", "3").
  gpumon.link = (place, ...names) => `#${[place, ...names].map((name) => encodeURIComponent(name).replaceAll("%3A", ":")).join("/")}`;
})();
