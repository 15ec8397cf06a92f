// What happened: the events of a year as a timeline by kind, and as a list, of one host or kind where that is asked for.
//
// takes: on byName duration element times clock chart things
(() => {
  "use strict";
  const { element, things } = gpumon;
  const { svg } = gpumon.chart;
  const WORDS = { "host-down": "host down", "host-up": "host back", "gpu-fault": "GPU fault", "gpu-recovered": "GPU healthy again", "worker-down": "Dask worker lost", "worker-up": "Dask worker back", "gpu-freed": "GPU free after long use", "job-idle": "job leaves GPUs idle" };
  const DAY = 86400;
  const STEP = 50;
  const WORRIES = "worries";
  const asked = { host: "", kind: WORRIES, days: "30" };
  let most = STEP;

  // What people do with GPUs is no worry about a host, and happens every day.
  const OF_PEOPLE = ["gpu-freed", "job-idle"];
  const isAsked = (kind) => !asked.kind || kind === asked.kind || (asked.kind === WORRIES && !OF_PEOPLE.includes(kind));

  function chosen() {
    const since = gpumon.clock.made() / 1000 - Number(asked.days) * DAY;
    return things.read().events.filter(({ at, kind, host }) => at >= since && isAsked(kind) && (!asked.host || host?.name === asked.host));
  }

  function select(name, label, options) {
    const made = element("select", { name, ariaLabel: label }, ...options.map(([text, value]) => new Option(text, value)));
    made.value = asked[name];
    made.addEventListener("input", () => {
      asked[name] = made.value;
      most = STEP;
      show();
    });
    return made;
  }

  function tools() {
    const { events, kinds } = things.read();
    const hosts = [...new Set(events.map(({ host }) => host?.name).filter(Boolean))].sort(gpumon.byName);
    if (asked.host && !hosts.includes(asked.host)) asked.host = "";
    return [
      select("host", "Host", [["all hosts", ""], ...hosts.map((name) => [name, name])]),
      select("kind", "Kind", [["hosts and faults", WORRIES], ["everything", ""], ...kinds.map((kind) => [WORDS[kind] ?? kind, kind])]),
      select("days", "Time", [["7 days", "7"], ["30 days", "30"], ["90 days", "90"], ["a year", "365"]]),
    ];
  }

  function timeline(rows, width) {
    const { kinds } = things.read();
    const end = gpumon.clock.made() / 1000;
    const start = end - Number(asked.days) * DAY;
    const shown = kinds.filter((kind) => rows.some((row) => row.kind === kind));
    const [left, row] = [width < 500 ? 128 : 184, 24];
    const height = shown.length * row + 22;
    const x = (at) => left + ((at - start) / (end - start)) * (width - left - 8);
    const counts = shown.map((kind) => `${rows.filter((one) => one.kind === kind).length} × ${WORDS[kind] ?? kind}`);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart events-chart", role: "img", "aria-label": `Events by kind: ${counts.join(", ")}.` });
    const time = new Date(start * 1000);
    time.setHours(24, 0, 0, 0);
    const step = { 7: 1, 30: 7, 90: 14, 365: 61 }[asked.days];
    for (; time / 1000 < end; time.setDate(time.getDate() + step)) {
      const text = gpumon.times.date(time);
      picture.append(svg("line", { class: "grid", x1: x(time / 1000), x2: x(time / 1000), y1: 0, y2: height - 20 }));
      picture.append(svg("text", { class: "axis middle", x: Math.min(width - 20, Math.max(left + 16, x(time / 1000))), y: height - 4 }, text));
    }
    shown.forEach((kind, place) => {
      picture.append(svg("line", { class: "grid", x1: left, x2: width - 8, y1: place * row + 12, y2: place * row + 12 }));
      picture.append(svg("text", { class: "axis", x: 0, y: place * row + 16 }, WORDS[kind] ?? kind));
      const marks = rows.filter((one) => one.kind === kind).map(({ at }) => `M${x(at).toFixed(1)} ${place * row + 4}v16`);
      picture.append(svg("path", { d: marks.join(""), class: `mark ${kind}` }));
    });
    return picture;
  }

  // The newest first. A host that came back ends the row of its outage; as publish/page/tabs/outages.py.
  function withoutReturns(events) {
    const rows = [];
    const back = new Map();
    for (const event of events) {
      if (event.kind === "host-up") {
        if (back.has(event.host)) rows.push(back.get(event.host));
        back.set(event.host, event);
      } else if (event.kind === "host-down") {
        rows.push({ ...event, until: back.get(event.host)?.at });
        back.delete(event.host);
      } else rows.push(event);
    }
    return [...rows, ...back.values()].sort((one, two) => two.at - one.at);
  }

  function when({ at, until }) {
    const [from, to] = [at, until].map((seconds) => seconds && new Date(seconds * 1000));
    const words = gpumon.times.span(from, to, gpumon.clock.made());
    return element("time", { dateTime: from.toISOString(), title: gpumon.times.utc(from) }, words);
  }

  function list(events) {
    const rows = withoutReturns(events);
    const cells = rows.slice(0, most).map((row) => [
      when(row), row.until ? gpumon.duration(row.until - row.at) : "",
      row.host ? things.link("host", [row.host.name], row.host.short) : "", element("bdi", {}, row.what),
    ]);
    const made = things.table("", ["When", "#For", "Host", "What"], cells).firstElementChild;
    if (rows.length <= most) return [made];
    const more = element("button", { type: "button" }, `Show more of ${rows.length}`);
    more.addEventListener("click", () => {
      most += STEP * 4;
      show();
    });
    return [made, more];
  }

  function show() {
    const section = document.getElementById("events");
    if (!section) return;
    const rows = chosen();
    section.querySelector("#events-tools").replaceChildren(...tools());
    const chart = section.querySelector("#events-chart");
    chart.replaceChildren(rows.length ? timeline(rows, Math.max(280, chart.clientWidth || 640)) : things.quiet("Nothing happened in this time."));
    section.querySelector("#events-list").replaceChildren(...list(rows));
    section.querySelector("#events-more")?.remove();
  }

  // Drawn when the tab is opened: it has no width before.
  const isOpen = () => document.documentElement.dataset.place === "health";
  gpumon.on("place", () => isOpen() && show());
  addEventListener("DOMContentLoaded", () => isOpen() && show());
  gpumon.on("update", () => isOpen() && show());
  // On paper too it is what was asked for.
  addEventListener("beforeprint", show);
  let timer = 0;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => isOpen() && show(), 150);
  });
})();
