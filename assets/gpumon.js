// The one global, and what every other script needs: events between them, elements, the browser's memory.
//
// Each script in assets/ states in its first lines what it takes from this global and what it gives to it:
//
//   takes: names of members that must be there when it is loaded, or when its functions are called
//   gives: names of members that it adds
//
// The order in which scripts are put into the page follows from that (publish/page/html.py), and tests/publish/page/test_scripts.py
// checks that the statements are true. What changes while the page is open is in state.js, and nowhere else on this global.
//
// gives: on tell element count byName memory inSlices
const gpumon = {};
(() => {
  "use strict";
  const parts = new EventTarget();

  const memory = {
    get(name) {
      try {
        return localStorage.getItem(`gpumon.${name}`);
      } catch {
        return null;
      }
    },
    set(name, value) {
      try {
        value ? localStorage.setItem(`gpumon.${name}`, value) : localStorage.removeItem(`gpumon.${name}`);
      } catch {
        // Nothing is kept, and nothing else is lost.
      }
    },
  };

  // Work on many things, a few at a time: the page is the reader's in between. Ends early when isOver() says so.
  const SLICE_MS = 12;
  async function inSlices(list, work, isOver = () => false) {
    let until = performance.now() + SLICE_MS;
    for (const one of list) {
      work(one);
      if (performance.now() < until) continue;
      await new Promise((done) => setTimeout(done));
      if (isOver()) return;
      until = performance.now() + SLICE_MS;
    }
  }

  gpumon.memory = memory;
  gpumon.inSlices = inSlices;
  gpumon.on = (what, action) => parts.addEventListener(what, action);
  gpumon.tell = (what) => parts.dispatchEvent(new Event(what));
  gpumon.element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  gpumon.count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  gpumon.byName = new Intl.Collator("en", { numeric: true }).compare;
})();
