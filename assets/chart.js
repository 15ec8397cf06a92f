// Small charts from letters, in our own SVG: lines with gaps, axes with units, the value under the pointer.
//
// takes: element times
// gives: chart
(() => {
  "use strict";
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const NS = "http://www.w3.org/2000/svg";
  const DAY = 86400;
  const LABEL = 52; // wide, with a little room beside it

  // A letter is a level from 0 to top; a space, or nothing, is a gap. A number before ~ is as many spaces, one before * as
  // many of the letter that follows.
  function decode(written, count, top) {
    const gap = written.indexOf("~");
    const known = written.slice(gap + 1).replace(/^(\d+)\*(.)/, (_, length, letter) => letter.repeat(Math.min(count, Number(length))));
    const letters = " ".repeat(gap < 0 ? 0 : Number(written.slice(0, gap))) + known;
    return Array.from({ length: count }, (_, place) => {
      const level = LETTERS.indexOf(letters[place] ?? " ");
      return level < 0 ? null : (level * top) / (LETTERS.length - 1);
    });
  }

  function svg(tag, attributes, ...children) {
    const made = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  const { hour: clock, date } = gpumon.times;

  function label(seconds, step) {
    const time = new Date(seconds * 1000);
    if (step < 3600) return clock(time);
    return step < DAY ? `${date(time)}, ${clock(time)}` : `${date(time)} ${time.getFullYear()}`;
  }

  // Round times of day, days or months, in the reader's zone. `width`: of all points together.
  function ticks(first, step, count, width) {
    const [start, end] = [first * step, (first + count) * step];
    const found = [];
    const time = new Date(start * 1000);
    time.setMinutes(0, 0, 0);
    if (end - start > 1.5 * DAY) time.setHours(0);
    if (end - start > 60 * DAY) time.setDate(1);
    const isNext = () => {
      if (end - start <= 1.5 * DAY) time.setHours(time.getHours() + 4 - (time.getHours() % 4));
      else if (end - start <= 10 * DAY) time.setDate(time.getDate() + 1);
      else if (end - start <= 60 * DAY) time.setDate(time.getDate() + 7);
      else time.setMonth(time.getMonth() + 2);
      return time / 1000 < end;
    };
    while (isNext()) {
      const text = end - start <= 1.5 * DAY ? clock(time) : end - start <= 60 * DAY ? date(time)
        : time.toLocaleDateString("en-GB", { month: "short" });
      found.push([(time / 1000 - start) / (end - start), text]);
    }
    // Few enough that they do not run into each other.
    const apart = found.length > 1 ? (found[1][0] - found[0][0]) * width : LABEL;
    const every = Math.ceil(LABEL / apart);
    return found.filter((_, place) => place % every === 0);
  }

  function path(values, x, y) {
    let pen = false;
    const parts = values.map((value, place) => {
      if (value === null) {
        pen = false;
        return "";
      }
      const spot = `${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
      const alone = !pen && (values[place + 1] ?? null) === null;
      const part = alone ? `M${spot}h1` : `${pen ? "L" : "M"}${spot}`;
      pen = true;
      return part;
    });
    return parts.join("");
  }

  // lines: [{ name, values, unit, className }]; all are drawn on one axis from 0 to top.
  function draw({ lines, first, step, top, unit, height = 140, width = 640, describe, steps = 4 }) {
    const count = lines[0].values.length;
    const [left, bottom, right] = [48, 20, 8];
    const x = (place) => left + ((place + 0.5) / count) * (width - left - right);
    const y = (value) => 6 + (1 - value / (top || 1)) * (height - bottom - 6);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": describe });
    for (let mark = 0; mark <= steps; mark += 1) {
      const value = (top * mark) / steps;
      if (top < steps && value % 1) continue;
      picture.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
      const text = svg("text", { x: left - 6, y: y(value) + 4, class: "axis end" });
      text.append(`${Math.round(value)}${mark === steps && unit ? ` ${unit}` : ""}`);
      picture.append(text);
    }
    for (const [share, text] of ticks(first, step, count, width - left - right)) {
      const at = left + share * (width - left - right);
      picture.append(svg("line", { class: "tick", x1: at, x2: at, y1: height - bottom, y2: height - bottom + 4 }));
      if (at > left + 12 && at < width - 16) {
        const made = svg("text", { x: at, y: height - 4, class: "axis middle" });
        made.append(text);
        picture.append(made);
      }
    }
    // The first line is the most important one, and drawn over the others.
    for (const line of [...lines].reverse()) {
      line.path = svg("path", { d: path(line.values, x, y), class: `line ${line.className}` });
      picture.append(line.path);
    }
    return withHover(picture, { lines, first, step, width, left, right, count, height, bottom, y });
  }

  // Of many lines, those that are described: the first, and the one nearest to the pointer, or the highest.
  function describePoint(lines, place, level) {
    if (lines.length <= 2) return lines;
    const distance = ({ values }) => (values[place] === null ? Infinity : Math.abs(values[place] - level));
    const nearest = lines.slice(1).reduce((best, line) => (distance(line) < distance(best) ? line : best));
    return [lines[0], nearest];
  }

  function withHover(picture, { lines, first, step, width, left, right, count, height, bottom, y }) {
    const rule = svg("line", { class: "rule", y1: 6, y2: height - bottom, x1: 0, x2: 0, visibility: "hidden" });
    picture.append(rule);
    const output = gpumon.element("p", { className: "readout", ariaLive: "off" });
    const holder = gpumon.element("div", { className: "plot" }, picture, output);
    let chosen = null;

    function show(place, level = Number.MAX_SAFE_INTEGER) {
      chosen = place;
      rule.setAttribute("visibility", place === null ? "hidden" : "visible");
      output.replaceChildren();
      picture.querySelector(".near")?.classList.remove("near");
      if (place === null) return;
      const shown = describePoint(lines, place, level);
      if (lines.length > 2) shown[1].path.classList.add("near");
      const at = left + ((place + 0.5) / count) * (width - left - right);
      rule.setAttribute("x1", at);
      rule.setAttribute("x2", at);
      output.append(label((first + place) * step, step), " ");
      for (const line of shown) {
        const value = line.values[place];
        const amount = value === null ? "–" : `${line.digits ? value.toFixed(1) : Math.round(value)} ${line.unit ?? ""}`;
        output.append(gpumon.element("span", {}, `${line.name} `, gpumon.element("b", {}, amount.trim())), " ");
      }
    }

    holder.tabIndex = 0;
    holder.setAttribute("role", "group");
    holder.ariaLabel = `${picture.getAttribute("aria-label")} Arrow keys read single values.`;
    holder.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const spot = ((event.clientX - box.left) / box.width) * width;
      const place = Math.floor(((spot - left) / (width - left - right)) * count);
      const tall = ((event.clientY - box.top) / box.height) * height;
      show(place >= 0 && place < count ? place : null, (y(0) - tall) / (y(0) - y(1)));
    });
    holder.addEventListener("pointerleave", () => show(null));
    holder.addEventListener("blur", () => show(null));
    holder.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move) return;
      event.preventDefault();
      output.ariaLive = "polite";
      show(Math.max(0, Math.min(count - 1, (chosen ?? (move > 0 ? -1 : count)) + move)));
    });
    return holder;
  }

  function mean(values) {
    const known = values.filter((value) => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
  }

  gpumon.chart = { decode, draw, svg, mean, label, LETTERS };
})();
