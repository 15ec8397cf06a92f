// The past: charts of the whole and of hosts, free GPUs by model, a week's habits, and the last day of a GPU.
//
// takes: on element named state clock params chart
// gives: past usual lastDay
(() => {
  "use strict";
  const { decode, draw, svg, mean } = gpumon.chart;
  const WORDS = { "24h": "the last 24 hours", "7d": "the last 7 days", "30d": "the last 30 days", "1y": "the last year" };
  const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
  const MOST_MODELS = 12;
  const EACH = "*";
  const { element, named, state } = gpumon;
  let past = null;
  let version = 0;
  const asked = () => gpumon.params.get("range") || "24h";
  let range = asked();
  let host = "";
  let model = "";

  const holder = (name) => document.getElementById(`history-${name}`);
  const percent = (value) => (value === null ? "–" : `${Math.round(value)} %`);

  // The JSON block of publish/page/past_data.py, read when it is first asked for after a refresh.
  function read() {
    if (version === state.version) return past;
    version = state.version;
    const text = document.getElementById("past")?.textContent.trim();
    past = text ? JSON.parse(text) : null;
    if (!past) return null;
    const { columns } = past;
    const byRange = (levels) => Object.fromEntries(Object.entries(levels).map(([key, row]) => [key, named(columns.levels, row)]));
    past.cluster = byRange(past.cluster);
    past.hosts = past.hosts.map((row) => named(columns.host, row)).map(({ name, levels }) => ({ name, levels: byRange(levels) }));
    past.models = past.models.map((row) => named(columns.model, row));
    return past;
  }

  // A year of which a month is known is drawn as that month.
  function gap() {
    if (range === "24h") return 0;
    const known = Object.values(past.cluster[range]).map((letters) => decode(letters, past.count[range], 1).findIndex((value) => value !== null));
    const first = Math.min(...known.filter((place) => place >= 0), past.count[range]);
    return first === past.count[range] ? 0 : Math.min(first, past.count[range] - 2);
  }

  const frame = () => ({ first: past.first[range] + gap(), step: past.step[range] });
  const points = (letters, top) => decode(letters, past.count[range], top).slice(gap());
  const words = () => (gap() ? `the last ${Math.round(((past.count[range] - gap()) * past.step[range]) / 86400)} days` : WORDS[range]);

  function drawLevels() {
    const chosen = past.hosts.filter(({ name }) => host === EACH || name === host);
    const sources = [["all GPUs", past.cluster[range]], ...chosen.map(({ name, levels }) => [name, levels[range]])];
    for (const [name, what] of [["utilization", "Utilization"], ["memory", "Memory in use"]]) {
      const lines = sources.map(([whose, series], number) => ({
        name: whose,
        values: points(series[name], 100),
        unit: "%",
        className: !number ? "main" : host === EACH ? "each" : "other",
      }));
      const average = mean(lines[0].values);
      const describe = `${what} of ${whose(chosen)} over ${words()}: on average ${percent(average)}.${extremes(lines)}`;
      holder(name).replaceChildren(
        element("h3", {}, what, " ", element("span", { className: "unit" }, `on average ${percent(average)}`)),
        draw({ lines, top: 100, unit: "%", describe, width: wide(holder(name)), ...frame() }),
      );
    }
  }

  const whose = (chosen) => ["all GPUs", ...(host === EACH ? [`each of ${chosen.length} hosts`] : chosen.map(({ name }) => name))].join(" and ");

  function extremes(lines) {
    if (host !== EACH) return "";
    const known = lines.slice(1).map(({ name, values }) => [name, mean(values)]).filter(([, level]) => level !== null);
    if (!known.length) return "";
    known.sort((one, two) => two[1] - one[1]);
    const summary = ([name, level]) => `${name} with ${percent(level)}`;
    return ` Highest ${summary(known[0])}, lowest ${summary(known.at(-1))}.`;
  }

  // As wide as they are shown, so that their text has its size. The columns are those of history.css.
  const wide = (place, columns = 1, gap = 32) => Math.max(240, (place.clientWidth + gap) / columns - gap || 640);

  function drawModels() {
    const columns = Math.max(1, Math.floor((holder("models").clientWidth + 32) / (260 + 32)));
    const width = wide(holder("models"), columns);
    const charts = past.models.slice(0, MOST_MODELS).map(({ name, size, free }) => {
      const values = points(free[range], size);
      const average = mean(values);
      const summary = average === null ? "not known" : `${average.toFixed(1)} of ${size}`;
      const describe = `Free ${name} over ${words()}: on average ${summary}.`;
      const lines = [{ name: "free", values, unit: `of ${size}`, className: "free", digits: range !== "24h" }];
      return element(
        "div",
        {},
        element("h3", {}, element("bdi", {}, name), " ", element("span", { className: "unit" }, average === null ? summary : `${summary} free`)),
        draw({ lines, top: size, height: 96, width, steps: 2, describe, ...frame() }),
      );
    });
    const more = past.models.length - charts.length;
    holder("models").replaceChildren(...charts, ...(more > 0 ? [element("p", {}, `+ ${more} more models`)] : []));
  }

  // The hours of a week come in the collector's zone, each as its clock was then.
  function inReadersZone(week) {
    const shift = Math.round((-gpumon.clock.made().getTimezoneOffset() - past.zone) / 60);
    return week.map((_, place) => week[(place - shift + week.length) % week.length]);
  }

  const hours = (hour) => `${String(hour).padStart(2, "0")}:00`;

  const ofDay = (week) => Array.from({ length: 24 }, (_, hour) => mean(DAYS.map((_, day) => week[day * 24 + hour])) ?? 0);
  const isHabit = (byHour, size) => Math.max(...byHour) - Math.min(...byHour) >= Math.max(0.5, 0.05 * size);

  // Of the models that are wanted: the hour of the day at which most are free. Null where no hour stands out.
  gpumon.usual = (isWanted) => {
    const chosen = (read()?.models ?? []).filter(({ name }) => isWanted(name));
    const size = chosen.reduce((sum, one) => sum + one.size, 0);
    const weeks = chosen.map((one) => ofDay(inReadersZone(decode(one.week, 168, one.size))));
    const byHour = Array.from({ length: 24 }, (_, hour) => weeks.reduce((sum, week) => sum + week[hour], 0));
    if (!chosen.length || !isHabit(byHour, size)) return null;
    const most = Math.max(...byHour);
    return { at: hours(byHour.indexOf(most)), free: most.toFixed(1), size };
  };

  // The longest time of a day, on most days, at which at least half as many more than usual are free.
  function habit(values, size) {
    const usual = mean(values);
    if (usual === null) return "Nothing is known of these weeks yet.";
    const byHour = ofDay(values);
    const best = byHour.indexOf(Math.max(...byHour));
    const worst = byHour.indexOf(Math.min(...byHour));
    const summary = `On average ${usual.toFixed(1)} of ${size} are free`;
    if (!isHabit(byHour, size)) return `${summary}, at any time of day about the same.`;
    return `${summary}; most around ${hours(best)} (${byHour[best].toFixed(1)}), fewest around ${hours(worst)} (${byHour[worst].toFixed(1)}).`;
  }

  function drawWeek() {
    const { name, size, week } = past.models.find((one) => one.name === model) ?? past.models[0];
    const values = inReadersZone(decode(week, 168, size));
    const picture = svg("svg", { viewBox: "0 0 640 178", class: "chart week", role: "img" });
    const text = (content, attributes) => {
      const made = svg("text", attributes);
      made.append(content);
      picture.append(made);
    };
    for (const hour of [0, 4, 8, 12, 16, 20]) text(hours(hour), { x: 40 + hour * 25, y: 174, class: "axis" });
    DAYS.forEach((day, row) => {
      text(day, { x: 34, y: row * 22 + 17, class: "axis end" });
      for (let hour = 0; hour < 24; hour += 1) {
        const value = values[row * 24 + hour];
        const box = { x: 40 + hour * 25, y: row * 22 + 1, width: 23, height: 20, rx: 2 };
        if (value === null) picture.append(svg("rect", { ...box, class: "gap" }));
        else {
          picture.append(svg("rect", { ...box, class: "under" }));
          // Height as well as shade: it is read without colours too.
          const tall = Math.max(0.5, (value / size) * 20);
          const cell = svg("rect", { ...box, y: row * 22 + 21 - tall, height: tall, class: "cell" });
          picture.append(cell);
        }
        const label = value === null ? "not known" : `${value.toFixed(1)} of ${size} free`;
        const over = svg("rect", { ...box, class: "over" });
        over.append(svg("title", {}, `${day} ${hours(hour)}: ${label}`));
        picture.append(over);
      }
    });
    const summary = habit(values, size);
    picture.setAttribute("aria-label", `Free ${name} by hour of the week. ${summary}`);
    holder("week").replaceChildren(picture, element("p", { className: "explained" }, summary));
  }

  function choose(select, options, chosen) {
    select.replaceChildren(...options.map(([text, value]) => new Option(text, value)));
    select.value = (options.find(([, value]) => value === chosen) ?? options[0])?.[1] ?? "";
  }

  function show() {
    const section = document.getElementById("history");
    if (!section || !read()) return;
    for (const input of section.querySelectorAll("[name=range]")) input.checked = input.value === range;
    const hosts = [["all hosts", ""], ["a line for each", EACH], ...past.hosts.map(({ name }) => [name, name])];
    choose(section.querySelector("[name=host]"), hosts, host);
    choose(section.querySelector("[name=week]"), past.models.map(({ name }) => [name, name]), model);
    drawLevels();
    drawModels();
    if (past.models.length) drawWeek();
  }

  // Charts are drawn when their tab is opened, wherever on it they are: on most visits they are not looked at.
  let isWanted = false;

  const section = document.getElementById("history");
  if (section) {
    new IntersectionObserver((entries, watcher) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      isWanted = true;
      show();
    }, { rootMargin: "1000000px" }).observe(section);
    // A printed page has all of it.
    addEventListener("beforeprint", () => {
      isWanted = true;
      show();
    });
    section.addEventListener("input", (event) => {
      const { name, value } = event.target;
      if (name === "range") {
        range = value;
        gpumon.params.set({ range: range === "24h" ? "" : range });
        drawLevels();
        drawModels();
      }
      if (name === "host") {
        host = value;
        drawLevels();
      }
      if (name === "week") {
        model = value;
        drawWeek();
      }
    });
  }

  function bands(pairs, start, whole) {
    const picture = svg("svg", { viewBox: `0 0 ${whole} 18`, class: "chart bands" });
    let last = "";
    for (let place = 0; place < pairs.length; place += 2) {
      const [from, owner] = [pairs[place], pairs[place + 1]];
      const to = pairs[place + 2] ?? 96;
      if (owner < 0) continue;
      const [x, width] = [(from / 96) * whole, ((to - from) / 96) * whole];
      const name = past.users[owner];
      const box = svg("rect", { x, y: 1, width: Math.max(1, width - 1), height: 16, rx: 2 });
      box.append(svg("title", {}, `${name} from ${gpumon.chart.label((start + from) * 900, 900)}`));
      picture.append(box);
      if (name === last) continue;
      const hasRoom = width > 9 * name.length + 8;
      if (hasRoom) {
        const made = svg("text", { x: x + 5, y: 13, class: "axis" });
        made.append(name);
        picture.append(made);
      }
      last = hasRoom ? name : "";
    }
    return picture;
  }

  // The last day of one GPU, at the end of its panel.
  gpumon.lastDay = (panel, gpu) => {
    const day = gpumon.past.of(gpu);
    if (!day) return;
    const { utilization, memory, temperature, power, top: most, bands: pairs, peaks } = day;
    const { limit, slowdown } = gpu.known;
    const watts = most || limit;
    // Letters are levels of the scale they were written with; the axis goes to the limit of the card.
    const wanted = [
      ["Utilization", utilization, 100, 100, "%"],
      ["Memory", memory, 100, 100, "%"],
      ["Temperature", temperature, 100, slowdown ?? 100, "°C"],
      ["Power", power, watts, Math.max(limit ?? 0, watts), "W"],
    ]
      .map(([name, letters, scale, top, unit], place) => [name, decode(letters, 24, scale), top, unit, peaks[place]])
      .filter(([, values]) => values.some((value) => value !== null));
    if (!wanted.length) return;
    const holder = element("div", { className: "detail" });
    panel.append(element("section", { className: "part" }, element("h3", {}, "The last 24 hours"), holder));
    const room = holder.clientWidth;
    const width = wide(holder, getComputedStyle(holder).gridTemplateColumns.split(" ").length);
    if (pairs.some((value, place) => place % 2 && value >= 0)) {
      holder.append(element("div", { className: "owners" }, element("h4", {}, "Held by"), bands(pairs, past.slot, room)));
    }
    holder.append(...wanted.map(([name, values, top, unit, peak]) => {
      const known = values.filter((value) => value !== null);
      const average = Math.round(mean(values));
      return element(
        "div",
        {},
        element("h4", {}, name, " ", element("span", { className: "unit" }, `≈ ${average}, at most ${peak} ${unit}`)),
        draw({
          lines: [{ name: "", values, unit, className: "main" }],
          first: past.hour, step: 3600, top: Math.max(top, ...known), unit, height: 120, width, steps: 1,
          describe: `${name} by the hour over the last 24 hours: about ${average} on average, at most ${peak} ${unit} in one reading.`,
        }),
      );
    }));
  };

  // [slot, owner, slot, owner, ...]: of owners in the order in which they came, and the ribbon of the card; -1 is nobody.
  function held(owners, ribbon) {
    const found = [];
    let [at, next, owner] = [0, 0, -1];
    for (const [, letter, length] of ribbon.matchAll(/([a-z ])(\d+)/g)) {
      for (const end = at + Number(length); at < end; at += 1) {
        if (owners[next] === at) [owner, next] = [owners[next + 1], next + 2];
        const now = letter === "b" || letter === "h" ? owner : -1;
        if (now !== (found.at(-1) ?? -1)) found.push(at, now);
      }
    }
    return found;
  }

  gpumon.past = {
    read,
    of(gpu) {
      const row = read()?.gpus[gpu.host.place]?.[gpu.place];
      if (!row) return null;
      const day = named(past.columns.gpu, row);
      return { ...day, get bands() { return held(day.bands, document.getElementById(gpu.anchor)?.dataset.r ?? ""); } };
    },
  };

  let timer = 0;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => isWanted && show(), 150);
  });
  addEventListener("popstate", () => {
    if (range === asked()) return;
    range = asked();
    if (isWanted) show();
  });
  gpumon.on("update", () => isWanted && show());
})();
