// Records the results of TypeScript programs in Node 24:
//
//   node typescript.mjs CASES FILE
//
// CASES is internal/exec/typescript/testdata/cases.mjs, FILE is node.json beside it.
// Node strips the types of a program, or transforms it if it has more than types, and
// evaluates it as a script. A line of FILE holds the program, its value in the form of
// Daybook's results and its output. For a failed program it also holds the first line of
// the error and the line and column of each frame. A program that Node refuses only has
// "refused".
import assert from "node:assert/strict";
import { SourceMap, stripTypeScriptTypes } from "node:module";
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { format, inspect } from "node:util";
import vm from "node:vm";

assert.match(process.version, /^v24\./, "Node 24 is the reference");
const { cases } = await import(resolve(process.argv[2]));

const isPlain = (v, seen = new Set()) => {
  if (v === null || typeof v === "string" || typeof v === "boolean" || (Number.isFinite(v) && !Object.is(v, -0))) return true;
  if (typeof v !== "object" || seen.has(v)) return false;
  if (!Array.isArray(v) && Object.prototype.toString.call(v) !== "[object Object]") return false;
  if (v.constructor?.name !== (Array.isArray(v) ? "Array" : "Object")) return false;
  seen.add(v);
  const all = Object.values(Object.getOwnPropertyDescriptors(v)).every((d) => !d.enumerable || ("value" in d && isPlain(d.value, seen)));
  seen.delete(v);
  return all;
};
const text = (v) => (v === undefined ? null : typeof v === "string" ? v : isPlain(v) ? JSON.stringify(v) : inspect(v));

const prepare = (code) => {
  try {
    return { js: stripTypeScriptTypes(code) };
  } catch (e) {
    if (e.code !== "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") return {};
  }
  try {
    const js = stripTypeScriptTypes(code, { mode: "transform", sourceMap: true, sourceUrl: "case.ts" });
    const map = /sourceMappingURL=data:application\/json;base64,(\S+)/.exec(js)[1];
    return { js, map: new SourceMap(JSON.parse(Buffer.from(map, "base64").toString())) };
  } catch {
    return {};
  }
};

const record = (code) => {
  const { js, map } = prepare(code);
  let script;
  try {
    script = new vm.Script(js, { filename: "case.ts" });
  } catch {}
  if (!js || !script) return { code, refused: true };
  const output = [];
  const context = vm.createContext({ console: { log: (...args) => output.push(format(...args)) } });
  try {
    return { code, result: text(script.runInContext(context, { timeout: 1000 })), output };
  } catch (e) {
    const [first, ...frames] = String(e.stack).split("\n    at ");
    const error = first.split("\n").findLast((line) => line !== ""); // the line of source comes before it
    const stack = frames.flatMap((frame) => [...frame.matchAll(/case\.ts:(\d+):(\d+)/g)]).map(([, line, column]) => {
      if (map) ({ lineNumber: line, columnNumber: column } = map.findOrigin(Number(line), Number(column)));
      return `${line}:${column}`;
    });
    return { code, error, stack, output };
  }
};

const lines = Object.entries(cases).flatMap(([kind, list]) => list.map((code) => JSON.stringify({ kind, ...record(code) })));
writeFileSync(process.argv[3], `[\n${lines.join(",\n")}\n]\n`);
console.log(`${lines.length} programs`);
