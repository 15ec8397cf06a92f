// Rows of boxes over time, one row for each GPU: what a user held, how a job works.
//
// takes: chart
// gives: bands
(() => {
  "use strict";
  const { svg, label } = gpumon.chart;
  const ROW = 24;
  const TALL = 18;
  const AXIS = 22;
  const DAY_S = 86400;

  // rows: [{ name, boxes: [{ from, to, share, title }] }], in slots of `step` seconds from the slot `first` since 1970 on.
  gpumon.bands = ({ rows, first, count, step, width, describe, className = "" }) => {
    const left = Math.min(150, width / 3);
    const x = (slot) => left + (slot / count) * (width - left - 8);
    const height = rows.length * ROW + AXIS;
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: `chart bands ${className}`, role: "img", "aria-label": describe });
    const every = count * step > DAY_S / 2 ? 6 : 2; // hours
    for (let slot = 0; slot < count; slot += 1) {
      const time = new Date((first + slot) * step * 1000);
      if (time.getHours() % every || time.getMinutes()) continue;
      picture.append(svg("line", { class: "grid", x1: x(slot), x2: x(slot), y1: 0, y2: height - AXIS + 2 }));
      picture.append(svg("text", { class: "axis middle", x: x(slot), y: height - 4 }, label((first + slot) * step, 900)));
    }
    rows.forEach(({ name, boxes }, place) => {
      picture.append(svg("text", { class: "axis name", x: 0, y: place * ROW + 16 }, name));
      for (const { from, to, share = 1, title, kind = "" } of boxes) {
        const tall = Math.max(1, share * TALL);
        const box = svg("rect", { class: kind, x: x(from), y: place * ROW + 2 + TALL - tall, width: Math.max(1, x(to) - x(from) - 1), height: tall, rx: 1 });
        box.append(svg("title", {}, title));
        picture.append(box);
      }
    });
    return picture;
  };
})();
