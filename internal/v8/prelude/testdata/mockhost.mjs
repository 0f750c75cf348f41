// A host for the prelude under Node: the natives of internal/v8 imitated with
// Node's own internals, in a fresh vm context. For development and recording only;
// run Node with --expose-internals.

import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";
import { types } from "node:util";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const { internalBinding } = require("internal/test/binding");
const util = internalBinding("util");

export const preludeDir = path.join(path.dirname(fileURLToPath(import.meta.url)), "..");

export function preludeSource() {
  const files = fs.readdirSync(preludeDir).filter((name) => name.endsWith(".js")).sort();
  const body = files.map((name) => fs.readFileSync(path.join(preludeDir, name), "utf8")).join("\n");
  return `(function (host) { "use strict";\n${body}\n})`;
}

function kindOf(value) {
  if (value === null || (typeof value !== "object" && typeof value !== "function")) return value === null ? "object" : typeof value;
  if (types.isProxy(value)) return "proxy";
  if (typeof value === "function") {
    const generator = types.isGeneratorFunction(value);
    const async = types.isAsyncFunction(value);
    if (generator && async) return "asyncGeneratorFunction";
    return generator ? "generatorFunction" : async ? "asyncFunction" : "function";
  }
  if (Array.isArray(value)) return "array";
  const tests = [
    ["promise", types.isPromise], ["map", types.isMap], ["set", types.isSet], ["mapIterator", types.isMapIterator],
    ["setIterator", types.isSetIterator], ["weakMap", types.isWeakMap], ["weakSet", types.isWeakSet], ["date", types.isDate],
    ["regexp", types.isRegExp], ["error", types.isNativeError], ["arguments", types.isArgumentsObject],
    ["generator", types.isGeneratorObject], ["moduleNamespace", types.isModuleNamespaceObject], ["arrayBuffer", types.isArrayBuffer],
    ["sharedArrayBuffer", types.isSharedArrayBuffer], ["dataView", types.isDataView], ["typedArray", types.isTypedArray],
    ["boxedNumber", types.isNumberObject], ["boxedString", types.isStringObject], ["boxedBoolean", types.isBooleanObject],
    ["boxedBigInt", types.isBigIntObject], ["boxedSymbol", types.isSymbolObject], ["external", types.isExternal],
  ];
  for (const [kind, test] of tests) if (test(value)) return kind;
  return "object";
}

// newRealm evaluates the prelude in a fresh context. written collects [level, text].
export function newRealm({ stateful = true, now = 1700000000000 } = {}) {
  const realm = { written: [], reported: [], clock: now, seed: 1 };
  const context = vm.createContext(Object.create(null), { microtaskMode: undefined });
  const host = {
    write: (level, text) => { realm.written.push([level, text]); },
    now: () => realm.clock,
    random: () => { realm.seed = (realm.seed * 1103515245 + 12345) % 2147483648; return realm.seed / 2147483648; },
    fillRandom: (bytes) => { for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(host.random() * 256); },
    kindOf,
    promiseDetails: (promise) => {
      const [state, result] = util.getPromiseDetails(promise);
      return [state, result];
    },
    proxyDetails: (proxy) => util.getProxyDetails(proxy, true),
    previewEntries: (value) => util.previewEntries(value, true),
    constructorName: (value) => util.getConstructorName(value),
    reportError: (error) => { realm.reported.push(error); },
  };
  realm.host = host;
  realm.context = context;
  realm.run = (source) => vm.runInContext(source, context);
  realm.entry = vm.runInContext(preludeSource(), context, { filename: "prelude.js" })(host);
  realm.entry.setMode(stateful);
  realm.entry.begin(now);
  realm.text = () => realm.written.map(([, text]) => text).join("\n");
  return realm;
}
