// The sentence under the title of a panel, which answers what is asked of a GPU, a host, a user or a job first.
//
// takes: element count duration tallied clock things
// gives: sentences
(() => {
  "use strict";
  const { element, count, duration, things } = gpumon;
  const MOST_NAMES = 3;
  const MOST_FREE = 16;
  const DAYS = { "24h": 0, "7d": 1 };

  // busy: the state as a word and a sign; then the sentence.
  const summary = (kind, word, ...content) => element("p", { className: `summary ${kind}` }, ...(word ? [element("span", { className: "state" }, word), " "] : []), ...content);
  const together = (parts) => parts.filter((part) => part.length).flatMap((part, place) => [place ? "; " : "", ...part]);

  // jonas, mira and 2 more
  function people(names, users = names.length) {
    if (!names.length) return users ? [count(users, "user")] : [];
    const rest = users - Math.min(names.length, MOST_NAMES);
    const listed = names.slice(0, MOST_NAMES).flatMap((name, place, all) => {
      const isLast = place === all.length - 1 && !rest;
      return [place ? (isLast ? " and " : ", ") : "", things.link("user", [name], name)];
    });
    return rest ? [...listed, ` and ${rest} more`] : listed;
  }

  const sinceOf = (at) => (at === null ? [] : [" since ", things.when(at)]);
  const untilOf = (ends) => (ends ? [", until ", things.by(ends)] : []);

  // Of its oldest process; else since when it has been in its state.
  function startOf({ host: there, runtime, since }) {
    if (runtime !== null) return gpumon.clock.readAt(there) - runtime;
    return since === null ? null : gpumon.clock.made() / 1000 - since * 60;
  }

  // jonas since 09:10, until 14:30; 93 % busy
  function gpu(one) {
    const { kind, word, since, utilization, known } = one;
    const inState = since === null ? "" : ` for ${duration(since * 60)}`;
    const who = people(one.names, one.users);
    const ends = untilOf(known.job?.ends);
    if (kind === "free") return summary(kind, word, `${inState.trim()}${one.isOffered ? "" : ", and not offered now"}`);
    if (kind !== "busy" && kind !== "held") return summary(kind, word, inState.trim());
    const holder = who.length ? [...who, ...sinceOf(startOf(one)), ...ends] : ["no visible process", ...ends];
    const work = kind === "held" ? [`idle${inState}`] : utilization === null ? [] : [`${utilization} % busy`];
    return summary(kind, word, ...together([holder, work]));
  }

  function cut(slices) {
    return summary("", "", `${slices.filter(({ kind }) => kind === "free").length} of ${count(slices.length, "slice")} free`);
  }

  // 3 of 8 GPUs free: 5–7; 4 busy; 1 held idle by tomoko
  function host({ gpus, notice }) {
    if (notice && !gpus.length) return summary(notice.kind, notice.word, [notice.status, notice.reason].filter(Boolean).join(": "));
    const of = (kind) => gpus.filter((one) => one.kind === kind);
    const [free, busy, held] = ["free", "busy", "held"].map(of);
    const where = free.length && free.length <= MOST_FREE ? `: ${things.listed(free.map(({ index }) => index))}` : "";
    const holders = [...new Set(held.flatMap((one) => one.names))];
    return summary("", "", ...together([
      [`${free.length} of ${gpumon.tallied(gpus)} free${where}`],
      busy.length ? [`${busy.length} busy`] : [],
      held.length ? [`${held.length} held idle`, ...(holders.length ? [" by ", ...people(holders)] : [])] : [],
    ]));
  }

  // 6 GPUs on 2 hosts in 1 job; 69 % busy; 522 GPU h in 7 d, 14 of them idle
  function user(gpus, jobs, usage) {
    const hosts = new Set(gpus.map((one) => one.host)).size;
    const known = gpus.map(({ utilization }) => utilization).filter((value) => value !== null);
    const [hours, idle] = usage?.ranges[DAYS["7d"]] ?? [0, 0];
    return summary("", "", ...together([
      [gpus.length ? `${gpumon.tallied(gpus)} on ${count(hosts, "host")}${jobs.length ? ` in ${count(jobs.length, "job")}` : ""}` : "No GPU now"],
      known.length ? [`${Math.round(known.reduce((sum, value) => sum + value, 0) / known.length)} % busy`] : [],
      hours ? [`${Math.round(hours)} GPU h in 7 d, ${Math.round(idle)} of them idle`] : [],
    ]));
  }

  const isIdle = ({ kind }) => kind === "held";
  const name = (one) => `${one.host.short} ${one.index}`;
  const idleFor = ({ since }) => (since === null ? "" : ` for ${duration(since * 60)}`);

  // GPU 4 of 6, vision-02 1, has been idle for 13 h
  function verdict(gpus, utilization) {
    const idle = gpus.filter(isIdle);
    const works = utilization === null ? "" : `, at ${utilization} % on average`;
    const all = gpus.length === 1 ? "Its GPU" : `All ${gpus.length} GPUs`;
    if (!idle.length) return gpus.some(({ kind }) => kind !== "busy") ? "" : `${all} ${gpus.length === 1 ? "works" : "work"}${works}`;
    idle.sort((one, two) => (two.since ?? 0) - (one.since ?? 0));
    if (gpus.length === 1) return `${all} has been idle${idleFor(idle[0])}`;
    if (idle.length === 1) return `GPU ${gpus.indexOf(idle[0]) + 1} of ${gpus.length}, ${name(idle[0])}, has been idle${idleFor(idle[0])}`;
    if (idle.length === gpus.length) return `${all} are idle, ${name(idle[0])}${idleFor(idle[0])}`;
    const first = idle.slice(0, MOST_NAMES).map((one) => `${name(one)}${idleFor(one)}`);
    return `${idle.length} of ${gpus.length} GPUs are idle: ${first.join(", ")}${idle.length > MOST_NAMES ? ` and ${idle.length - MOST_NAMES} more` : ""}`;
  }

  // mira since 05:15, until Fri 05:16; all 6 GPUs work, at 83 % on average
  function job(one, gpus) {
    const words = verdict(gpus, one.utilization);
    const holder = [...people(one.users), ...sinceOf(one.since), ...untilOf(one.ends)];
    const isSick = gpus.some(isIdle);
    return summary(isSick ? "held" : "busy", isSick ? "held idle" : "busy", ...together([holder, words ? [holder.length ? words.replace(/^(All|Its)/, (word) => word.toLowerCase()) : words] : []]));
  }

  gpumon.sentences = { gpu, cut, host, user, job, verdict };
})();
