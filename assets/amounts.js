// Memory in words, in the GB that vendors sell: the rule of gpumon_static/text.py. tests/survey/test_amounts.py holds both to one answer.
//
// gives: amounts
(() => {
  "use strict";
  const SOLD = [1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 20, 24, 32, 36, 40, 48, 64, 80, 94, 96, 128, 141, 144, 180, 186, 192, 256, 279, 288];
  const SLACK = 0.015;
  const WITHHELD = 0.02; // what a driver may keep of a card that nobody uses
  const GB_IN_MIB = 1e9 / 1024 ** 2;

  // The size that a card of so many MiB is sold with: it lies between its GiB and its GB.
  function sold(mib) {
    const [least, most] = [(mib / 1024) * (1 - SLACK), (mib / GB_IN_MIB) * (1 + SLACK)];
    return SOLD.find((size) => least <= size && size <= most) ?? mib / 1024;
  }

  // `total`: of the card that it is a part of; without one, a GB is 1024 MiB, as RAM has them.
  const gb = (mib, total = null) => (total ? (mib / total) * sold(total) : mib / 1024);

  function number(amount) {
    if (amount === null) return "–";
    return amount < 0.05 ? "0" : amount.toFixed(amount < 9.95 ? 1 : 0);
  }

  const gigabytes = (mib, total) => (mib === null ? "–" : number(gb(mib, total)));

  // Whether a card has so many GB free; memory that is not known is not promised.
  function hasFree(free, total, wanted) {
    return !wanted || (free !== null && Boolean(total) && gb(free, total) + WITHHELD * sold(total) >= wanted);
  }

  gpumon.amounts = {
    sold,
    gb,
    number,
    gigabytes,
    hasFree,
    text: (mib, total) => (mib === null ? "–" : mib > 0 && mib < 100 ? `${mib} MB` : `${gigabytes(mib, total)} GB`),
    exact: (mib) => (mib === null ? "" : `${mib} MiB`),
    mib: (wanted) => wanted * GB_IN_MIB,
  };
})();
