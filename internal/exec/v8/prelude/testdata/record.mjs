// Records what Node 20 prints, as the cases the tests of internal/exec/v8 hold the
// prelude to. Run it with
//
//   node internal/exec/v8/prelude/testdata/record.mjs
//
// and commit the JSON files it writes beside itself. Nothing of the prelude is
// involved: inspect.json is util.inspect, console.json is console.Console on
// streams of its own, result.json is the small reference at the end of this file,
// uncaught.json is what node itself prints of an error that ends it.
//
// Stack traces name files, so Error.stackTraceLimit is 0 while cases run, here
// and in the tests; cases about frames set error.stack to a fixed text.

import fs from "node:fs";
import path from "node:path";
import util from "node:util";
import vm from "node:vm";
import { spawnSync } from "node:child_process";
import { Console } from "node:console";
import { Writable } from "node:stream";
import { fileURLToPath } from "node:url";

import { inspectCases } from "./inspect_cases.mjs";
import { consoleCases } from "./console_cases.mjs";
import { resultCases } from "./result_cases.mjs";
import { nodeCases, nodeHarness } from "./node_cases.mjs";
import { uncaughtCases } from "./uncaught_cases.mjs";

const directory = path.dirname(fileURLToPath(import.meta.url));

if (!process.version.startsWith("v20.")) throw new Error(`Node 20 is the reference, this is ${process.version}`);

const write = (name, cases) => {
  const lines = cases.map((one) => JSON.stringify(one));
  fs.writeFileSync(path.join(directory, name), `[\n${lines.join(",\n")}\n]\n`);
  console.log(`${name}: ${cases.length} cases`);
};

// The same wrapping the tests use, so that inferred names agree.
const evaluate = (expr) => vm.runInThisContext(`() => (${expr})`)();

// ---- inspect ------------------------------------------------------------------

const recordInspect = () => inspectCases.map((expr) => ({ expr, want: util.inspect(evaluate(expr)) }));

// ---- console ------------------------------------------------------------------

const levels = { debug: "debug", info: "info", warn: "warn", error: "error", trace: "trace", assert: "warn" };
const prefixes = { info: "[INFO] ", warn: "[WARN] ", error: "[ERROR] " };

const recordConsole = async (code) => {
  const want = [];
  let level = "log";
  const message = (text) => {
    // Frames below the first line are the engine's.
    if (level === "trace") text = text.split("\n    at ")[0];
    want.push({ level, text: (prefixes[level] ?? "") + text });
  };
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, encoding, done) {
      message(String(chunk).replace(/\n$/, ""));
      done();
    },
  });
  const real = new Console({ stdout: stream, stderr: stream });
  const traced = {};
  for (const name of Object.keys(console)) {
    if (typeof real[name] !== "function") continue;
    traced[name] = (...args) => {
      level = levels[name] ?? "log";
      return real[name](...args);
    };
  }
  const { hrtime, emitWarning } = process;
  process.hrtime = () => [0, 0]; // the clock of a script stands still
  // What Node reports as a process warning is a console message at level warn.
  process.emitWarning = (text) => {
    level = "warn";
    message(String(text));
  };
  globalThis.console = traced;
  try {
    vm.runInThisContext(`{${code}\n}`);
  } finally {
    globalThis.console = console_;
    Object.assign(process, { hrtime, emitWarning });
  }
  return { code, want };
};
const console_ = globalThis.console;

// ---- result -------------------------------------------------------------------

// isJSON is the rule of the contract: null, booleans, finite numbers except -0,
// and acyclic plain objects and arrays of those and strings, without accessors or
// toJSON.
const isJSON = (value, path = []) => {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0);
  if (typeof value !== "object" || util.types.isProxy(value) || path.includes(value)) return false;
  const prototype = Object.getPrototypeOf(value);
  const isArray = Array.isArray(value);
  if (isArray ? prototype !== Array.prototype : prototype !== Object.prototype && prototype !== null) return false;
  if (!isArray && Object.prototype.toString.call(value) !== "[object Object]") return false;
  const descriptors = Object.getOwnPropertyDescriptors(value);
  const keys = Reflect.ownKeys(descriptors).filter((key) => !(isArray && key === "length"));
  if (isArray && (keys.length !== value.length || keys.some((key, i) => key !== String(i)))) return false;
  return keys.every((key) => {
    const { value: member, get, set, enumerable } = descriptors[key];
    if (typeof key === "symbol" || key === "toJSON" || get !== undefined || set !== undefined) return false;
    return !enumerable || isJSON(member, [...path, value]);
  });
};

const recordResult = async (code) => {
  let value = vm.runInThisContext(code);
  if (util.types.isPromise(value)) value = await value; // other thenables are values
  if (value === undefined) return { code, want: null };
  if (typeof value === "string") return { code, want: value };
  return { code, want: isJSON(value) ? JSON.stringify(value) : util.inspect(value) };
};

// ---- uncaught -----------------------------------------------------------------

// Defined the same way by the test. One frame, so that Node does not shorten what an
// error shares with its cause.
const uncaughtHelpers = "const shared = { s: 1 }; const at = (e) => { e.stack = `${e.name}: ${e.message}\\n    at place (file.js:1:2)`; return e };\n";

// Node prints the line of the source first, and its version last.
const recordUncaught = (code) => {
  const { stderr } = spawnSync(process.execPath, ["-e", uncaughtHelpers + code], { encoding: "utf8" });
  const from = /\^+\n\n/.exec(stderr);
  const to = stderr.lastIndexOf("\n\nNode.js v20");
  if (from === null || to < 0) throw new Error(`${code}: ${stderr}`);
  return { code, want: stderr.slice(from.index + from[0].length, to) };
};

Error.stackTraceLimit = 0;
write("uncaught.json", uncaughtCases.map(recordUncaught));
write("inspect.json", recordInspect());
const recorded = [];
for (const code of consoleCases) recorded.push(await recordConsole(code));
write("console.json", recorded);
const results = [];
for (const code of resultCases) results.push(await recordResult(code));
write("result.json", results);
const outcomeOf = vm.runInThisContext(`(process) => { ${nodeHarness}\nreturn outcomeOf }`)(process);
const outcomes = [];
for (const code of nodeCases) outcomes.push({ code, want: await outcomeOf(code) });
write("node.json", outcomes);
fs.writeFileSync(path.join(directory, "node_harness.js"), `${nodeHarness}\n`);
