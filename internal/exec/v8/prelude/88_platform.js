// The platform: interfaces of the web that a context evaluates when a script first uses them.
//
// A heap whose runs used none of them contains only one accessor for each name. A part is a
// file of the directory platform: the body of a function that receives the object platform
// and returns its exports. Exports with the names below become properties of the global object.
// No part may look up a method through an object that user code can change; platform has what
// it needs: method, getter and original return built-in functions as they were before any user
// code ran.

// The parts with the globals that they export.
const platformGlobals = {
  __proto__: null,
  abort: "AbortController AbortSignal",
  base64: "atob btoa",
  blob: "Blob File",
  cryptokey: "CryptoKey",
  events: "CustomEvent ErrorEvent Event EventTarget PromiseRejectionEvent",
  fetch: "fetch",
  formdata: "FormData",
  headers: "Headers",
  messages: "MessageChannel MessageEvent MessagePort",
  navigator: "Navigator navigator reportError self",
  performance: "PerformanceEntry PerformanceMark PerformanceMeasure",
  request: "Request",
  response: "Response",
  streams: "ReadableStream ReadableStreamDefaultReader ReadableStreamBYOBReader ReadableStreamDefaultController ReadableByteStreamController ReadableStreamBYOBRequest WritableStream WritableStreamDefaultWriter WritableStreamDefaultController CountQueuingStrategy ByteLengthQueuingStrategy",
  streams_coding: "TextEncoderStream TextDecoderStream CompressionStream DecompressionStream",
  streams_transform: "TransformStream TransformStreamDefaultController",
  subtle: "SubtleCrypto",
  textcoding: "TextDecoder TextEncoder",
  url: "URL URLSearchParams",
  urlpattern: "URLPattern",
};

// The modules of Node by their specifier without "node:", with the part and the member of its
// exports that is the module.
const nodeModules = {
  __proto__: null,
  assert: "node_assert exports",
  "assert/strict": "node_assert strict",
  buffer: "node_buffer exports",
  crypto: "node_crypto exports",
  events: "node_events exports",
  path: "node_path exports",
  "path/posix": "node_path posixExports",
  "path/win32": "node_path win32Exports",
  querystring: "node_querystring exports",
  string_decoder: "node_string_decoder exports",
  timers: "node_timers exports",
  "timers/promises": "node_timers promises",
  url: "node_url exports",
  util: "node_util exports",
  "util/types": "node_util types",
};

// loadNodeModule returns the exports of a module of Node, an object without a prototype with
// default and the names, or undefined if there is no such module. The specifier may start with
// "node:". It calls no code of scripts.
const loadNodeModule = (specifier) => {
  if (typeof specifier !== "string") return undefined;
  const name = StringPrototypeStartsWith(specifier, "node:") ? StringPrototypeSlice(specifier, 5) : specifier;
  if (!(name in nodeModules)) return undefined;
  const place = splitText(nodeModules[name], " ");
  return loadPart(place[0])[place[1]];
};

// defineNodeGlobals defines Buffer, process and global at the start of a run, unless an earlier
// run defined them, or froze the global object.
const defineNodeGlobals = () => {
  if (!ObjectIsExtensible(global)) return;
  if (!hasOwn(global, "Buffer")) defineHidden(global, "Buffer", loadPart("node_buffer").Buffer);
  if (!hasOwn(global, "process")) defineHidden(global, "process", loadPart("node_process").process);
  if (!hasOwn(global, "global")) defineHidden(global, "global", global);
};

const loadedParts = ObjectCreate(null); // part -> its exports
const partOfGlobal = ObjectCreate(null); // global -> part
let platformObject;

// loadPart returns the exports of a part. Parts must not need each other in a circle.
const loadPart = (part) => {
  if (part in loadedParts) return loadedParts[part];
  if (platformObject === undefined) platformObject = newPlatform();
  const exports = host.load(part)(platformObject);
  const objects = newList();
  const names = ObjectKeys(exports);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    if (name in partOfGlobal) {
      objects[objects.length] = { __proto__: null, name, object: exports[name] };
    } else if (name === "hidden") {
      const hidden = ObjectKeys(exports.hidden);
      for (let h = 0; h < hidden.length; h++) {
        objects[objects.length] = { __proto__: null, name: hidden[h], object: exports.hidden[hidden[h]] };
      }
    }
  }
  recording().captureObjects(objects); // may throw where the stack is full
  loadedParts[part] = exports;
  return exports;
};

// loadGlobal returns a global of the platform.
const loadGlobal = (name) => loadPart(partOfGlobal[name])[name];

for (const part in platformGlobals) {
  const names = splitText(platformGlobals[part], " ");
  for (let i = 0; i < names.length; i++) {
    partOfGlobal[names[i]] = part;
    defineLazily(global, names[i], loadGlobal);
  }
}

// The methods of performance that need a part load it when they are called.
(() => {
  const { prototype } = global.Performance;
  const define = (name, length) => {
    const fn = { [name](...args) { return ReflectApply(loadPart("performance")[name], this, args); } }[name];
    ObjectDefineProperty(prototype, name, { __proto__: null, value: setMeta(fn, name, length), writable: true, enumerable: true, configurable: true });
  };
  define("mark", 1);
  define("measure", 1);
  define("clearMarks", 0);
  define("clearMeasures", 0);
  define("getEntries", 0);
  define("getEntriesByName", 1);
  define("getEntriesByType", 1);
})();

// ---- what the parts use -------------------------------------------------------------

// original returns a property of a built-in object as it was before any user code ran. path
// is the path of the object, such as "Promise.prototype".
const original = (path, key) => {
  const property = recording().findOriginal(path, key);
  if (property === undefined) throw new NativeTypeError(`the platform needs ${path}.${NativeString(key)}`);
  return property;
};

// compute(name, ...inputs) calls a function of the worker with strings and Uint8Arrays. It
// returns a Uint8Array or a string, or throws the error of the function.
const compute = (...call) => {
  const size = ReflectApply(host.compute, host, call);
  if (size >= 0) {
    const bytes = new NativeUint8Array(size);
    host.takeBytes(bytes);
    return bytes;
  }
  const text = host.takeText();
  if (size === -1) return text;
  const end = StringPrototypeIndexOf(text, "\n");
  const kind = StringPrototypeSlice(text, 0, end);
  const message = StringPrototypeSlice(text, end + 1);
  if (kind === "TypeError") throw new NativeTypeError(message);
  if (kind === "RangeError") throw new NativeRangeError(message);
  throw domError(kind, message);
};

// bytesOf returns any BufferSource as bytes, or undefined. It has no bytes of a detached buffer.
const bytesOf = (value) => {
  const kind = typeof value === "object" && value !== null ? host.kindOf(value) : "";
  let buffer;
  switch (kind) {
    case "sharedArrayBuffer":
      return new NativeUint8Array(value);
    case "arrayBuffer":
      return isDetached(value) ? new NativeUint8Array(0) : new NativeUint8Array(value);
    case "typedArray":
      buffer = TypedArrayPrototypeGetBuffer(value);
      if (host.kindOf(buffer) === "arrayBuffer" && isDetached(buffer)) return new NativeUint8Array(0);
      return new NativeUint8Array(buffer, TypedArrayPrototypeGetByteOffset(value), TypedArrayPrototypeGetByteLength(value));
    case "dataView":
      buffer = DataViewPrototypeGetBuffer(value);
      if (host.kindOf(buffer) === "arrayBuffer" && isDetached(buffer)) return new NativeUint8Array(0);
      return new NativeUint8Array(buffer, DataViewPrototypeGetByteOffset(value), DataViewPrototypeGetByteLength(value));
    default:
      return undefined;
  }
};

const newPlatform = () => {
  // bind reads length and name of call, which user code may have made accessors or removed.
  const isOwnValue = (key) => {
    const descriptor = ObjectGetOwnPropertyDescriptor(FunctionPrototypeCall, key);
    return descriptor !== undefined && hasOwn(descriptor, "value");
  };
  const uncurry = (method) => (isOwnValue("length") && isOwnValue("name") ? uncurryThis(method) : (self, ...args) => ReflectApply(method, self, args));
  return {
    __proto__: null,
    host,
    global,
    compute,
    load: loadPart,
    // method returns a built-in method as a function whose first argument is its receiver.
    method: (path, key) => uncurry(original(path, key).value),
    // getter returns a built-in accessor as a function of the object.
    getter: (path, key) => uncurry(original(path, key).get),
    // original returns the value of a built-in property, such as a constructor.
    original: (path, key) => original(path, key).value,
    uncurryThis: uncurry, ReflectApply, ReflectConstruct, ReflectOwnKeys,
    ObjectCreate, ObjectDefineProperty, ObjectFreeze, ObjectGetOwnPropertyDescriptor, ObjectGetPrototypeOf, ObjectKeys, ObjectSetPrototypeOf,
    hasOwn, ArrayIsArray, isObject, isProxy,
    newList, toList, listIncludes, listJoin, replaceText, splitText, matches,
    defineHidden, setMeta, setTag,
    TypeError: NativeTypeError, RangeError: NativeRangeError, Error: NativeError, DOMException: DOMExceptionClass,
    domError, codedError, invalidArgument, hideFrames, setStackHeader,
    Uint8Array: NativeUint8Array, ArrayBuffer: NativeArrayBuffer, Map: NativeMap, Set: NativeSet, WeakMap: NativeWeakMap, Promise: NativePromise, String: NativeString,
    SymbolIterator, SymbolAsyncIterator: Symbol.asyncIterator, SymbolToPrimitive, SymbolToStringTag, IteratorPrototype,
    bytesOf, bufferOf: TypedArrayPrototypeGetBuffer, offsetOf: TypedArrayPrototypeGetByteOffset, lengthOf: TypedArrayPrototypeGetLength,
    exec: RegExpPrototypeExec,
    regExpFlags: (value) => {
      let flags = "";
      for (let i = 0; i < regExpFlagGetters.length; i++) if (regExpFlagGetters[i].get(value)) flags += regExpFlagGetters[i].letter;
      return flags;
    },
    inspectCustom, inspectWith, publicInspect, classNameOf, describeReceived, formatArguments,
    isError: (value) => isObject(value) && (host.kindOf(value) === "error" || isInstance(NativeError, value)),
    isInstance,
    loadNodeModule,
    // provided returns a global of the platform, or undefined if the platform has no such global.
    provided: (name) => (name in partOfGlobal ? loadPart(partOfGlobal[name])[name] : undefined),
    startFetch: (request, fail, resolve, reject) => calling().startFetch(request, fail, resolve, reject),
    startOfRun: () => timeOrigin,
    warn: (text) => emit(levelWarn, text),
    cloneMessage,
    addCloneable: (find) => { cloneables[cloneables.length] = find; },
    now: host.now,
    reportError: host.reportError,
  };
};
