// Durations, ages, and times of day in the reader's zone, as words. The day that "today" means is an argument.
//
// gives: duration age times
(() => {
  "use strict";
  const DAY_MS = 86400000;
  const two = (number) => String(number).padStart(2, "0");

  function duration(seconds) {
    if (seconds === null) return "–";
    const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
    if (minutes < 1) return `${Math.floor(seconds)} s`;
    if (hours < 1) return `${minutes} min`;
    if (days < 1) return `${hours} h`;
    return hours % 24 && days < 100 ? `${days} d ${hours % 24} h` : `${days} d`;
  }

  // The rule of `Age` in times.py: two clocks may differ a little, and what is dated further ahead is as untrue as what is old.
  function age(seconds, limit) {
    const isAhead = seconds < -limit;
    const words = isAhead ? `dated ${duration(-seconds)} ahead` : seconds < 60 ? "just now" : `${duration(seconds)} ago`;
    return { seconds, isAhead, isStale: isAhead || seconds > limit, words };
  }

  const hour = (time) => `${two(time.getHours())}:${two(time.getMinutes())}`;
  const date = (time) => `${time.getDate()} ${time.toLocaleDateString("en-GB", { month: "short" })}`;
  const weekday = (time) => time.toLocaleDateString("en-GB", { weekday: "short" });
  const midnight = (time) => new Date(time).setHours(0, 0, 0, 0);
  const days = (from, to) => Math.round((midnight(to) - midnight(from)) / DAY_MS);

  function since(then, today) {
    const ago = days(then, today);
    return `since ${ago <= 0 ? hour(then) : ago === 1 ? "yesterday" : date(then)}`;
  }

  // 16:10, Tue 16:10 or 3 Dec 16:10: a time to come.
  function by(then, today) {
    const ahead = days(today, then);
    if (ahead <= 0) return hour(then);
    return `${ahead < 6 ? weekday(then) : date(then)} ${hour(then)}`;
  }

  // 16:10 of today, else 3 Dec, 16:10; the year where it is another one.
  function at(then, today) {
    if (days(then, today) === 0) return hour(then);
    const year = then.getFullYear() === today.getFullYear() ? "" : ` ${then.getFullYear()}`;
    return `${date(then)}${year}, ${hour(then)}`;
  }

  // Sat 14 Nov, 19:24 to Sun 04:24; of what goes on, only when it began.
  function span(then, until, today) {
    const year = then.getFullYear() === today.getFullYear() ? "" : ` ${then.getFullYear()}`;
    const from = `${days(then, today) === 0 ? "today" : `${weekday(then)} ${date(then)}${year}`}, ${hour(then)}`;
    if (!until) return from;
    return `${from} to ${days(then, until) === 0 ? "" : `${weekday(until)} ${days(then, until) < 6 ? "" : `${date(until)} `}`}${hour(until)}`;
  }

  const whole = (then) => `${date(then)} ${then.getFullYear()}, ${hour(then)}`;

  function utc(then) {
    const text = then.toISOString();
    return `${text.slice(0, 10)} ${text.slice(11, 16)} UTC`;
  }

  gpumon.duration = duration;
  gpumon.age = age;
  gpumon.times = { hour, date, since, by, at, span, whole, utc };
})();
