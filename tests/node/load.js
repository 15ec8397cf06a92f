// Scripts of assets/ without a browser: `load("search")` runs the one that gives it, and those that it takes from.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const ASSETS = path.join(__dirname, "../../assets");

function stated(file) {
  const text = fs.readFileSync(path.join(ASSETS, file), "utf8");
  const names = (word) => new RegExp(`^// ${word}: (.*)$`, "m").exec(text)?.[1].split(" ") ?? [];
  return { file, text, takes: names("takes"), gives: names("gives") };
}

const scripts = fs.readdirSync(ASSETS).filter((file) => file.endsWith(".js")).map(stated);

exports.load = (...names) => {
  const context = vm.createContext({ Intl, Date, atob, performance, setTimeout, EventTarget, Event });
  const done = new Set();
  const run = (script) => {
    if (done.has(script)) return;
    done.add(script);
    for (const name of script.takes) run(scripts.find(({ gives }) => gives.includes(name)));
    vm.runInContext(script.text, context, { filename: script.file });
  };
  for (const name of ["element", ...names]) run(scripts.find(({ gives }) => gives.includes(name)));
  return vm.runInContext("gpumon", context);
};

// A page's data, as publish/page/data.py writes it, of hosts given by the names of columns.
exports.page = ({ hosts, models, users = [], owners = [], programs = [], labels = [], whose = [""], logins = {} }) => {
  const columns = {
    model: ["short", "name", "environment", "vendor"],
    host: ["name", "anchor", "group", "note", "notice", "against", "behind", "ram", "load", "faults", "facts", "gpus"],
    notice: ["kind", "word", "status", "reason"],
    gpu: ["index", "kind", "model", "used", "total", "users", "offered", "device", "runtime", "detail"],
    detail: ["uuid", "processes", "job"],
    process: ["pid", "owner", "program", "rest", "elapsed"],
    job: ["id", "whose", "ends", "offered"],
  };
  const row = (kind, record) => columns[kind].map((name) => record[name] ?? null);
  const gpu = ({ detail = {}, ...rest }, place) => row("gpu", {
    index: String(place), kind: 0, model: 0, used: 10, total: 24576, users: [], offered: rest.kind ? 0 : 1, device: 0,
    detail: row("detail", { ...detail, processes: detail.processes?.map((one) => row("process", one)), job: detail.job && row("job", detail.job) }), ...rest,
  });
  const host = ({ gpus, ...rest }) => row("host", {
    anchor: `host-${rest.name}`, group: "", note: "", notice: 0, against: [], behind: 0, faults: [], facts: [], gpus: gpus.map(gpu), ...rest,
    ...(rest.notice ? { notice: row("notice", rest.notice) } : {}),
  });
  const states = [["free", "free", 0], ["busy", "busy", 1], ["held", "held idle", 1], ["unknown", "unknown", 0]];
  return { columns, states, vendors: ["NVIDIA", "AMD"], users, owners, programs, labels, whose, logins, models: models.map((one) => row("model", one)), hosts: hosts.map(host) };
};
