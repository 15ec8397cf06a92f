// What needs no browser: rows read by name, the search, offers, times and amounts.
"use strict";
const assert = require("node:assert/strict");
const { test } = require("node:test");
const { load, page } = require("./load.js");

const CUDA = "CUDA_VISIBLE_DEVICES=";
const MODELS = [
  { short: "V100", name: "Tesla V100-SXM2-32GB", environment: CUDA, vendor: "NVIDIA" },
  { short: "MI300X", name: "AMD Instinct MI300X", environment: "HIP_VISIBLE_DEVICES=", vendor: "AMD" },
];
const BUSY = 1;

function lab() {
  return page({
    models: MODELS,
    users: ["Jonas K.", "mira"],
    owners: [["Jonas K.", 1]],
    programs: ["namd3"],
    logins: { "Jonas K.": "jonas" },
    hosts: [
      {
        name: "vision-01.lab.example", facts: [["driver", "550.90"]], ram: 65536,
        gpus: [{}, { kind: BUSY, users: [0], used: 20000, runtime: 0, detail: { processes: [{ pid: 4711, owner: 0, program: 0, rest: 0, elapsed: 60 }] } }],
      },
      { name: "amber", ram: 65536, gpus: [{ model: 1, total: 196608 }] },
      { name: "dead", notice: { kind: "failed", word: "down 2 h", status: "timeout", reason: "no banner" }, gpus: [] },
    ],
  });
}

const read = (names) => {
  const gpumon = load("readHosts", ...names);
  return [gpumon, gpumon.readHosts(lab())];
};

const found = (word) => {
  const [gpumon, hosts] = read(["search"]);
  const { inGpu, inHost } = gpumon.search(word, ["nvidia", "amd"]);
  return hosts.flatMap((host) => (host.gpus.length ? host.gpus.filter(inGpu).map((gpu) => `${host.short} ${gpu.index}`) : inHost(host) ? [host.short] : []));
};

test("rows are read by the names of their columns, in whatever order they come", () => {
  const [gpumon] = read([]);
  const data = lab();
  const turned = { ...data, columns: { ...data.columns, gpu: [...data.columns.gpu].reverse() } };
  turned.hosts = data.hosts.map((row) => row.map((value, place) => (data.columns.host[place] === "gpus" ? value.map((gpu) => [...gpu].reverse()) : value)));
  const told = (from) => gpumon.readHosts(from).map((host) => [host.short, host.gpus.map((gpu) => [gpu.index, gpu.kind, gpu.model, gpu.free, gpu.runtime, [...gpu.logins]])]);
  assert.deepEqual(told(turned), told(data));
  assert.deepEqual(told(data)[0], ["vision-01", [["0", "free", "V100", 24566, null, []], ["1", "busy", "V100", 4576, 60, ["jonas k.", "jonas"]]]]);
});

test("free finds what is free, and nothing else", () => assert.deepEqual(found("free"), ["vision-01 0", "amber 0"]));
test("the name of a vendor finds its GPUs, whatever their model is called", () => {
  assert.deepEqual(found("nvidia"), ["vision-01 0", "vision-01 1"]);
  assert.deepEqual(found("amd"), ["amber 0"]);
});
test("a program is found by a part of its name", () => assert.deepEqual(found("namd"), ["vision-01 1"]));
test("a login, a driver, a PID and a reason are found", () => {
  assert.deepEqual(found("jonas"), ["vision-01 1"]);
  assert.deepEqual(found("550.90"), ["vision-01 0", "vision-01 1"]);
  assert.deepEqual(found("4711"), ["vision-01 1"]);
  assert.deepEqual(found("banner"), ["dead"]);
});
test("one or two digits are an index", () => assert.deepEqual(found("1"), ["vision-01 1"]));

test("offers are of free GPUs with the memory that is asked for", () => {
  const [gpumon, hosts] = read(["offers"]);
  const ask = (question) => gpumon.offers.offers(hosts, { n: 1, gb: 0, model: "", ...question }).able.map(({ host, gpus }) => `${host.short} ${gpus.map((gpu) => gpu.device)}`);
  assert.deepEqual([...ask({})], ["vision-01 0", "amber 0"]);
  assert.deepEqual([...ask({ gb: 100 })], ["amber 0"]);
  assert.deepEqual([...ask({ n: 2 })], []);
});

test("durations and ages", () => {
  const { duration, age } = load("age");
  assert.deepEqual([null, 5, 65, 3600, 90000, 8640000].map(duration), ["–", "5 s", "1 min", "1 h", "1 d 1 h", "100 d"]);
  assert.equal(age(59, 600).words, "just now");
  assert.equal(age(-700, 600).isStale, true);
  assert.equal(age(700, 600).words, "11 min ago");
});

test("times of day are those of the reader", () => {
  const { times } = load("times");
  const today = new Date(2026, 10, 18, 12, 0);
  const at = (day, hour) => new Date(2026, 10, day, hour, 5);
  assert.equal(times.since(at(18, 9), today), "since 09:05");
  assert.equal(times.since(at(17, 9), today), "since yesterday");
  assert.equal(times.since(at(3, 9), today), "since 3 Nov");
  assert.equal(times.by(at(18, 23), today), "23:05");
  assert.equal(times.by(at(20, 23), today), "Fri 23:05");
  assert.equal(times.by(at(28, 23), today), "28 Nov 23:05");
  assert.equal(times.at(new Date(2025, 10, 18, 12, 5), today), "18 Nov 2025, 12:05");
});
