// Intrinsics captured before any user code runs.
//
// Every later file uses only the names of this file. User code may replace anything on
// the global object and on the prototypes of builtins. Therefore no file looks up a
// method through an object at the time of the call. Every file follows four rules that
// ensure this:
//
//   - methods are called through uncurried functions, never as x.method();
//   - no for-of, no spread and no array destructuring (all of them consult
//     Symbol.iterator, which user code can replace);
//   - growable lists have no prototype (see newList), because an ordinary push would run
//     a setter that user code defined on Array.prototype["3"];
//   - objects whose fields may be absent are read with hasOwn or are created with a
//     null prototype, because user code can add any property to Object.prototype.

const global = globalThis;

const { apply: ReflectApply, construct: ReflectConstruct, ownKeys: ReflectOwnKeys } = Reflect;

// call.bind(method) returns method(self, ...args), which needs no lookup when it is called.
const FunctionPrototypeCall = Function.prototype.call;
const uncurryThis = Function.prototype.bind.bind(FunctionPrototypeCall);
const getterOf = (object, key) => uncurryThis(Object.getOwnPropertyDescriptor(object, key).get);

const {
  create: ObjectCreate,
  defineProperty: ObjectDefineProperty,
  freeze: ObjectFreeze,
  getOwnPropertyDescriptor: ObjectGetOwnPropertyDescriptor,
  getOwnPropertyNames: ObjectGetOwnPropertyNames,
  getOwnPropertySymbols: ObjectGetOwnPropertySymbols,
  getPrototypeOf: ObjectGetPrototypeOf,
  keys: ObjectKeys,
  setPrototypeOf: ObjectSetPrototypeOf,
} = Object;
const { isExtensible: ObjectIsExtensible, isFrozen: ObjectIsFrozen, isSealed: ObjectIsSealed } = Object;
const ObjectPrototype = Object.prototype;
const hasOwn = uncurryThis(Object.prototype.hasOwnProperty);
const isEnumerable = uncurryThis(Object.prototype.propertyIsEnumerable);

const ArrayIsArray = Array.isArray;
const ArrayPrototype = Array.prototype;
const ArrayPrototypeSort = uncurryThis(Array.prototype.sort);
const ArrayPrototypePop = uncurryThis(Array.prototype.pop);

const FunctionPrototype = Function.prototype;
const FunctionPrototypeToString = uncurryThis(Function.prototype.toString);
// isQuiet is set while a heap is shown without a run. No code of a script may then run: a
// proxy counts as an object without properties and prototype, and an accessor has no value.
let isQuiet = false;

// A prototype chain longer than this belongs to a proxy that invents prototypes.
const maxPrototypes = 1000;

const isObject = (value) => typeof value === "function" || (typeof value === "object" && value !== null);
const isProxy = (value) => host.kindOf(value) === "proxy";

const prototypeOf = (object) => {
  if (!isQuiet) return ObjectGetPrototypeOf(object);
  const prototype = isProxy(object) ? null : ObjectGetPrototypeOf(object);
  return prototype !== null && isProxy(prototype) ? null : prototype;
};

// read returns object[key].
const read = (object, key) => {
  if (!isQuiet) return object[key];
  if (isProxy(object)) return undefined;
  for (let i = 0; object !== null && i < maxPrototypes; i++) {
    const descriptor = ObjectGetOwnPropertyDescriptor(object, key);
    if (descriptor !== undefined) return hasOwn(descriptor, "value") ? descriptor.value : undefined;
    object = prototypeOf(object);
  }
};

// readText returns object[key], or "" if its conversion to a string may run code of a script.
const readText = (object, key) => {
  const value = read(object, key);
  return isQuiet && isObject(value) ? "" : value;
};

const has = (object, key) => (isQuiet ? hasOwn(object, key) : key in object);

// Ordinary instanceof, which ignores a patched Symbol.hasInstance of the constructor.
const ordinaryHasInstance = uncurryThis(Function.prototype[Symbol.hasInstance]);
const isInstance = (constructor, value) => {
  try {
    if (!isQuiet) return ordinaryHasInstance(constructor, value);
    const wanted = read(constructor, "prototype");
    for (let i = 0; i < maxPrototypes && (value = prototypeOf(value)) !== null; i++) if (value === wanted) return true;
    return false;
  } catch {
    return false; // a proxy among the prototypes threw, or makes them up without end
  }
};

const NativeString = String;
const StringFromCharCode = String.fromCharCode;
const StringPrototypeCharCodeAt = uncurryThis(String.prototype.charCodeAt);
const StringPrototypeCodePointAt = uncurryThis(String.prototype.codePointAt);
const StringPrototypeEndsWith = uncurryThis(String.prototype.endsWith);
const StringPrototypeIncludes = uncurryThis(String.prototype.includes);
const StringPrototypeIndexOf = uncurryThis(String.prototype.indexOf);
const StringPrototypeLastIndexOf = uncurryThis(String.prototype.lastIndexOf);
const StringPrototypeNormalize = uncurryThis(String.prototype.normalize);
const StringPrototypePadEnd = uncurryThis(String.prototype.padEnd);
const StringPrototypePadStart = uncurryThis(String.prototype.padStart);
const StringPrototypeRepeat = uncurryThis(String.prototype.repeat);
const StringPrototypeSlice = uncurryThis(String.prototype.slice);
const StringPrototypeStartsWith = uncurryThis(String.prototype.startsWith);
const StringPrototypeToLowerCase = uncurryThis(String.prototype.toLowerCase);
const StringPrototypeTrim = uncurryThis(String.prototype.trim);
const StringPrototypeValueOf = uncurryThis(String.prototype.valueOf);

const NativeNumber = Number;
const NumberIsFinite = Number.isFinite;
const NumberPrototypeToFixed = uncurryThis(Number.prototype.toFixed);
const NumberPrototypeToString = uncurryThis(Number.prototype.toString);
const NumberPrototypeValueOf = uncurryThis(Number.prototype.valueOf);
const NumberParseFloat = parseFloat;
const NumberParseInt = parseInt;
const BooleanPrototypeValueOf = uncurryThis(Boolean.prototype.valueOf);
const BigIntPrototypeValueOf = uncurryThis(BigInt.prototype.valueOf);
const NativeBigInt = BigInt;
const NativeObject = Object;

const {
  ceil: MathCeil, floor: MathFloor, max: MathMax, min: MathMin, round: MathRound, sqrt: MathSqrt, trunc: MathTrunc,
} = Math;
const NativeMath = Math;

const SymbolFor = Symbol.for;
const SymbolIterator = Symbol.iterator;
const SymbolToPrimitive = Symbol.toPrimitive;
const SymbolToStringTag = Symbol.toStringTag;
const SymbolDispose = Symbol.dispose; // undefined before explicit resource management
const SymbolPrototypeToString = uncurryThis(Symbol.prototype.toString);
const SymbolPrototypeValueOf = uncurryThis(Symbol.prototype.valueOf);

const NativeDate = Date;
const DatePrototypeGetTime = uncurryThis(Date.prototype.getTime);
const DatePrototypeToISOString = uncurryThis(Date.prototype.toISOString);
const DatePrototypeToString = uncurryThis(Date.prototype.toString);

const NativeProxy = Proxy;

const RegExpPrototypeCompile = uncurryThis(RegExp.prototype.compile);
const RegExpPrototypeExec = uncurryThis(RegExp.prototype.exec);
const RegExpPrototypeGetSource = getterOf(RegExp.prototype, "source");
// The flags getter of RegExp.prototype reads the eight single getters through the
// object. They are captured here one by one, in the order in which the letters print.
const regExpFlagGetters = ((prototype) => {
  const names = ["hasIndices", "global", "ignoreCase", "multiline", "dotAll", "unicode", "unicodeSets", "sticky"];
  const letters = "dgimsuvy";
  const found = [];
  for (let i = 0; i < names.length; i++) {
    if (names[i] in prototype) found.push({ letter: letters[i], get: getterOf(prototype, names[i]) });
  }
  return found;
})(RegExp.prototype);

const NativeMap = Map;
const MapPrototypeClear = uncurryThis(Map.prototype.clear);
const MapPrototypeDelete = uncurryThis(Map.prototype.delete);
const MapPrototypeEntries = uncurryThis(Map.prototype.entries);
const MapPrototypeGet = uncurryThis(Map.prototype.get);
const MapPrototypeGetSize = getterOf(Map.prototype, "size");
const MapPrototypeHas = uncurryThis(Map.prototype.has);
const MapPrototypeSet = uncurryThis(Map.prototype.set);
const MapIteratorPrototype = ObjectGetPrototypeOf(new Map().entries());
const MapIteratorPrototypeNext = uncurryThis(MapIteratorPrototype.next);
const IteratorPrototype = ObjectGetPrototypeOf(MapIteratorPrototype);
const NativeSet = Set;
const SetPrototypeAdd = uncurryThis(Set.prototype.add);
const SetPrototypeDelete = uncurryThis(Set.prototype.delete);
const SetPrototypeGetSize = getterOf(Set.prototype, "size");
const SetPrototypeHas = uncurryThis(Set.prototype.has);
const SetPrototypeValues = uncurryThis(Set.prototype.values);
const SetIteratorPrototypeNext = uncurryThis(ObjectGetPrototypeOf(new Set().values()).next);
const NativeWeakMap = WeakMap;
const WeakMapPrototypeGet = uncurryThis(WeakMap.prototype.get);
const WeakMapPrototypeSet = uncurryThis(WeakMap.prototype.set);

const NativeArrayBuffer = ArrayBuffer;
const ArrayBufferPrototypeGetByteLength = getterOf(ArrayBuffer.prototype, "byteLength");
const ArrayBufferPrototypeSlice = uncurryThis(ArrayBuffer.prototype.slice);
const isDetached = getterOf(ArrayBuffer.prototype, "detached");
// Older engines have no SharedArrayBuffer, and stateful contexts remove it.
let sharedArrayBufferByteLength;
const captureSharedArrayBuffer = () => {
  // V8 installs it only after the prelude has run: entry.setMode calls this function.
  if (typeof SharedArrayBuffer === "function") {
    sharedArrayBufferByteLength = getterOf(SharedArrayBuffer.prototype, "byteLength");
  }
};
const NativeUint8Array = Uint8Array;
const TypedArrayPrototype = ObjectGetPrototypeOf(Uint8Array.prototype);
const TypedArrayPrototypeGetBuffer = getterOf(TypedArrayPrototype, "buffer");
const TypedArrayPrototypeGetByteLength = getterOf(TypedArrayPrototype, "byteLength");
const TypedArrayPrototypeGetByteOffset = getterOf(TypedArrayPrototype, "byteOffset");
const TypedArrayPrototypeGetLength = getterOf(TypedArrayPrototype, "length");
const TypedArrayPrototypeGetName = getterOf(TypedArrayPrototype, SymbolToStringTag);
const TypedArrayPrototypeSet = uncurryThis(TypedArrayPrototype.set);
const DataViewPrototypeGetBuffer = getterOf(DataView.prototype, "buffer");
const DataViewPrototypeGetByteLength = getterOf(DataView.prototype, "byteLength");
const DataViewPrototypeGetByteOffset = getterOf(DataView.prototype, "byteOffset");

const NativeError = Error;
const NativeTypeError = TypeError;
const NativeRangeError = RangeError;
const RangeErrorPrototype = RangeError.prototype;
const ErrorCaptureStackTrace = Error.captureStackTrace;
const ErrorPrototypeToString = uncurryThis(Error.prototype.toString);

const JSONStringify = JSON.stringify;

// Names of the builtin constructors. Console formatting uses them to distinguish a class
// of the language from a class of the user.
const builtinNames = new Set(ObjectGetOwnPropertyNames(global).filter((name) => /^[A-Z][a-zA-Z0-9]+$/.test(name)));

// newList returns a growable list that no prototype can interfere with: index it, read
// its length, append with list[list.length] = x.
const newList = () => ObjectSetPrototypeOf([], null);
// toList converts a fresh array of an intrinsic (Object.keys and so on) into such a list.
const toList = (array) => ObjectSetPrototypeOf(array, null);

const listIncludes = (list, value) => {
  for (let i = 0; i < list.length; i++) if (list[i] === value) return true;
  return false;
};

const listJoin = (list, separator) => {
  if (list.length === 0) return "";
  let text = list[0];
  for (let i = 1; i < list.length; i++) text += separator + list[i];
  return text;
};

// replaceText replaces a plain string: String.prototype.replaceAll would read Symbol.replace.
const replaceText = (text, from, to) => {
  let at = StringPrototypeIndexOf(text, from);
  if (at === -1) return text;
  let out = "";
  let start = 0;
  while (at !== -1) {
    out += StringPrototypeSlice(text, start, at) + to;
    start = at + from.length;
    at = StringPrototypeIndexOf(text, from, start);
  }
  return out + StringPrototypeSlice(text, start);
};

const splitText = (text, separator) => {
  const parts = newList();
  let start = 0;
  for (;;) {
    const at = StringPrototypeIndexOf(text, separator, start);
    if (at === -1) break;
    parts[parts.length] = StringPrototypeSlice(text, start, at);
    start = at + separator.length;
  }
  parts[parts.length] = StringPrototypeSlice(text, start);
  return parts;
};

const matches = (pattern, text) => RegExpPrototypeExec(pattern, text) !== null;

// Globals are writable, configurable and not enumerable, as in a browser.
const defineHidden = (object, key, value) => {
  ObjectDefineProperty(object, key, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
};

// setMeta sets the name and length that the specification gives a function.
const setMeta = (fn, name, length) => {
  ObjectDefineProperty(fn, "name", { __proto__: null, value: name, configurable: true });
  ObjectDefineProperty(fn, "length", { __proto__: null, value: length, configurable: true });
  return fn;
};

// setTag defines Symbol.toStringTag with the attributes that it has in builtin classes.
const setTag = (prototype, tag) => {
  ObjectDefineProperty(prototype, SymbolToStringTag, { __proto__: null, value: tag, configurable: true });
};
