// The intrinsics as the prelude leaves them, and the changes that user code made to them.
//
// A saved heap contains the built-in objects with everything that its runs did to them.
// Each run that starts from a heap gets a list of those that differ from a fresh isolate.
// The record is made before any user code runs, and no object that user code can reach
// refers to it. The comparison calls only captured intrinsics, on objects that were not
// proxies when they were recorded: no getter and no trap runs.

const { isExtensible: ObjectIsExtensible, isFrozen: ObjectIsFrozen, isSealed: ObjectIsSealed } = Object;

// globalChange says what an earlier run did to the global object if it accepts no new
// properties. It returns "" for a global object that does.
const globalChange = () => {
  if (ObjectIsExtensible(global)) return "";
  return ObjectIsFrozen(global) ? "froze globalThis" : ObjectIsSealed(global) ? "sealed globalThis" : "prevented extensions of globalThis";
};

const FunctionPrototype = Function.prototype;
const maxChangesNamed = 5;
const longestNamePart = 40; // characters

// The record is one flat list, because every heap contains it. For each object it has: the
// object, its path, its prototype, a text, its keys, and their contents. The text is "+" if
// the object is extensible, otherwise "-", then a letter for the attributes of each key. The
// contents of a data property are its value, of an accessor its getter and setter. A constant
// (neither writable nor configurable) has none, unless it is a method.
let intrinsics;

const isData = 1;
const isWritable = 2;
const isEnumerableProperty = 4;
const isConfigurable = 8;
const isSimple = 16; // a value, or accessors, whose own properties need no entry
const firstLetter = 65;

const isObject = (value) => typeof value === "function" || (typeof value === "object" && value !== null);

// isPlain reports whether a property is read-only data of a primitive type. If the name or
// length of a function is an accessor, bind runs it, and so does printing the function.
const isPlain = (object, key, type) => {
  const descriptor = ObjectGetOwnPropertyDescriptor(object, key);
  return hasOwn(descriptor, "value") && typeof descriptor.value === type && !descriptor.writable && !descriptor.enumerable;
};

// isSimpleFunction reports whether a function has only a plain length and name, as nearly
// all methods do.
const isSimpleFunction = (value) => {
  if (typeof value !== "function" || ObjectGetPrototypeOf(value) !== FunctionPrototype || !ObjectIsExtensible(value)) return false;
  const keys = ReflectOwnKeys(value);
  return keys.length === 2 && keys[0] === "length" && keys[1] === "name" && isPlain(value, "length", "number") && isPlain(value, "name", "string");
};

const attributesOf = (descriptor) => {
  const common = (descriptor.enumerable ? isEnumerableProperty : 0) + (descriptor.configurable ? isConfigurable : 0);
  if (hasOwn(descriptor, "value")) {
    return common + isData + (descriptor.writable ? isWritable : 0) + (isSimpleFunction(descriptor.value) ? isSimple : 0);
  }
  const { get, set } = descriptor;
  return common + ((get === undefined || isSimpleFunction(get)) && (set === undefined || isSimpleFunction(set)) ? isSimple : 0);
};

const isConstant = (attributes) => (attributes & (isData + isWritable + isConfigurable + isSimple)) === isData;

// hiddenIntrinsics lists, with names, the objects that only syntax, calls and prototypes
// lead to, and the objects that those lead to.
const hiddenIntrinsics = () => {
  const list = newList();
  const add = (name, object) => { list[list.length] = { __proto__: null, name, object }; };
  const generator = function* () {};
  const asyncGenerator = async function* () {};
  const addFunctions = (name, fn) => {
    const prototype = ObjectGetPrototypeOf(fn);
    add(name, prototype.constructor);
    add(`${name}.prototype`, prototype);
  };
  add("Object", NativeObject); // first, or they get the names that hidden ones lead to
  add("Object.prototype", ObjectPrototype);
  add("Function", Function);
  add("Function.prototype", FunctionPrototype);
  add("Iterator.prototype", IteratorPrototype);
  addFunctions("GeneratorFunction", generator);
  addFunctions("AsyncFunction", async () => {});
  addFunctions("AsyncGeneratorFunction", asyncGenerator);
  add("Generator.prototype", ObjectGetPrototypeOf(generator.prototype));
  add("AsyncGenerator.prototype", ObjectGetPrototypeOf(asyncGenerator.prototype));
  add("AsyncIterator.prototype", ObjectGetPrototypeOf(ObjectGetPrototypeOf(asyncGenerator.prototype)));
  add("TypedArray", ObjectGetPrototypeOf(NativeUint8Array));
  add("TypedArray.prototype", TypedArrayPrototype);
  add("ArrayIterator.prototype", ObjectGetPrototypeOf([].values()));
  add("MapIterator.prototype", MapIteratorPrototype);
  add("SetIterator.prototype", ObjectGetPrototypeOf(new Set().values()));
  add("StringIterator.prototype", ObjectGetPrototypeOf(""[SymbolIterator]()));
  add("RegExpStringIterator.prototype", ObjectGetPrototypeOf("".matchAll(/a/g)));
  add("IteratorHelper.prototype", ObjectGetPrototypeOf([].values().take(0)));
  add("WrapForValidIterator.prototype", ObjectGetPrototypeOf(Iterator.from({ __proto__: null, next() {} })));
  add("ThrowTypeError", ObjectGetOwnPropertyDescriptor((function () { return arguments; })(), "callee").get);
  add("Timeout.prototype", TimeoutClass.prototype);
  add("Immediate.prototype", ImmediateClass.prototype);
  add("CallSite.prototype", CallSitePrototype);
  const { Intl } = global;
  if (Intl !== undefined && Intl.Segmenter !== undefined) {
    const segments = new Intl.Segmenter().segment("");
    add("Segments.prototype", ObjectGetPrototypeOf(segments));
    add("SegmentIterator.prototype", ObjectGetPrototypeOf(segments[SymbolIterator]()));
  }
  return list;
};

// captureIntrinsics records every object that the global object and hiddenIntrinsics lead
// to. It runs last in the prelude, before any user code.
const captureIntrinsics = () => {
  intrinsics = newList();
  const queue = hiddenIntrinsics();
  queue[queue.length] = { __proto__: null, name: "globalThis", object: global };
  captureObjects(queue);
};

// captureObjects records the objects of a queue, and every object that they lead to, unless it
// is recorded.
const captureObjects = (queue) => {
  const known = new NativeSet();
  for (let at = 0; at < intrinsics.length; at = afterRecord(at)) SetPrototypeAdd(known, intrinsics[at]);
  const follow = (object, name) => {
    if (isObject(object) && !isSimpleFunction(object)) queue[queue.length] = { __proto__: null, name, object };
  };
  for (let i = 0; i < queue.length; i++) {
    const { name, object } = queue[i];
    if (SetPrototypeHas(known, object)) continue;
    SetPrototypeAdd(known, object);
    const keys = ReflectOwnKeys(object);
    const prototype = ObjectGetPrototypeOf(object);
    const values = newList();
    let text = ObjectIsExtensible(object) ? "+" : "-";
    for (let k = 0; k < keys.length; k++) {
      const descriptor = ObjectGetOwnPropertyDescriptor(object, keys[k]);
      const attributes = attributesOf(descriptor);
      const path = pathOfKey(name, keys[k]);
      text += StringFromCharCode(firstLetter + attributes);
      if ((attributes & isData) === 0) {
        values[values.length] = descriptor.get;
        values[values.length] = descriptor.set;
        follow(descriptor.get, path);
        follow(descriptor.set, path);
      } else {
        if (!isConstant(attributes)) values[values.length] = descriptor.value;
        follow(descriptor.value, path);
      }
    }
    follow(prototype, `${name}.__proto__`);
    intrinsics[intrinsics.length] = object;
    intrinsics[intrinsics.length] = name;
    intrinsics[intrinsics.length] = prototype;
    intrinsics[intrinsics.length] = text;
    for (let k = 0; k < keys.length; k++) intrinsics[intrinsics.length] = keys[k];
    for (let v = 0; v < values.length; v++) intrinsics[intrinsics.length] = values[v];
  }
};

// valuesOf returns how many values the record has for a property with these attributes.
const valuesOf = (attributes) => ((attributes & isData) === 0 ? 2 : isConstant(attributes) ? 0 : 1);

const recordedAttributes = (text, k) => StringPrototypeCharCodeAt(text, k + 1) - firstLetter;

// afterRecord returns where the record after the one at at begins.
const afterRecord = (at) => {
  const text = intrinsics[at + 3];
  const length = text.length - 1;
  at += 4 + length;
  for (let k = 0; k < length; k++) at += valuesOf(recordedAttributes(text, k));
  return at;
};

// findIntrinsic returns where the record of a path begins, or -1.
const findIntrinsic = (path) => {
  for (let at = 0; at < intrinsics.length; at = afterRecord(at)) if (intrinsics[at + 1] === path) return at;
  return -1;
};

// recordedProperty returns the value, or the getter and setter, that the record at at has for a
// key, or undefined. It has no value of a constant.
const recordedProperty = (at, key) => {
  const text = intrinsics[at + 3];
  const length = text.length - 1;
  let value = at + 4 + length;
  for (let k = 0; k < length; k++) {
    const attributes = recordedAttributes(text, k);
    if (intrinsics[at + 4 + k] === key) {
      if ((attributes & isData) === 0) return { __proto__: null, get: intrinsics[value], set: intrinsics[value + 1] };
      return valuesOf(attributes) === 0 ? undefined : { __proto__: null, value: intrinsics[value] };
    }
    value += valuesOf(attributes);
  }
  return undefined;
};

// ---- names ------------------------------------------------------------------------

const isNameCharacter = (code) =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 95 || code === 36;

// printable returns text in printable ASCII, cut to a maximum length: user code may choose it.
const printable = (text) => {
  let out = "";
  for (let i = 0; i < text.length && i < longestNamePart; i++) {
    const code = StringPrototypeCharCodeAt(text, i);
    out += code >= 32 && code <= 126 ? text[i] : "?";
  }
  return text.length > longestNamePart ? `${out}...` : out;
};

const pathOfKey = (path, key) => {
  const base = path === "globalThis" ? "" : path;
  if (typeof key === "symbol") {
    const text = printable(SymbolPrototypeToString(key)); // Symbol(Symbol.iterator)
    const wellKnown = StringPrototypeStartsWith(text, "Symbol(Symbol.") && StringPrototypeEndsWith(text, ")");
    return `${base}[${wellKnown ? StringPrototypeSlice(text, 7, -1) : text}]`;
  }
  let plain = key.length > 0 && key.length <= longestNamePart && !isDigit(StringPrototypeCharCodeAt(key, 0));
  for (let i = 0; plain && i < key.length; i++) plain = isNameCharacter(StringPrototypeCharCodeAt(key, i));
  if (plain) return base === "" ? key : `${base}.${key}`;
  return `${base}["${printable(key)}"]`;
};

// ---- changes ----------------------------------------------------------------------

// addedKeys reports the keys of an object that are not among the recorded keys, which start at at.
const addedKeys = (path, keys, at, count, report) => {
  const recorded = new NativeSet();
  for (let k = 0; k < count; k++) SetPrototypeAdd(recorded, intrinsics[at + k]);
  for (let k = 0; k < keys.length; k++) if (!SetPrototypeHas(recorded, keys[k])) report(path, keys[k], " (added)");
};

// changedIntrinsics returns how many intrinsics user code changed, and the names of the
// first ones. It returns undefined if nothing was recorded.
const changedIntrinsics = () => {
  if (intrinsics === undefined) return undefined;
  const names = newList();
  let count = 0;
  const report = (path, key, change) => {
    count++;
    if (names.length < maxChangesNamed) names[names.length] = (key === undefined ? path : pathOfKey(path, key)) + change;
  };
  for (let at = 0; at < intrinsics.length;) {
    const object = intrinsics[at];
    const path = intrinsics[at + 1];
    const text = intrinsics[at + 3];
    if (ObjectGetPrototypeOf(object) !== intrinsics[at + 2]) report(path, undefined, " (prototype)");
    if (ObjectIsExtensible(object) !== (text[0] === "+")) report(path, undefined, " (not extensible)");
    const firstKey = at + 4;
    const length = text.length - 1;
    let missing = 0;
    at = firstKey + length; // where the values begin
    for (let k = 0; k < length; k++) {
      const key = intrinsics[firstKey + k];
      const attributes = recordedAttributes(text, k);
      if (isConstant(attributes)) continue;
      const accessor = (attributes & isData) === 0;
      const first = intrinsics[at++];
      const second = accessor ? intrinsics[at++] : undefined;
      const descriptor = ObjectGetOwnPropertyDescriptor(object, key);
      if (descriptor === undefined) {
        missing++;
        report(path, key, " (deleted)");
      } else if (object === global && isLoadedGlobal(key, descriptor)) {
        // A part of the platform replaced its accessor.
      } else if (attributesOf(descriptor) !== attributes ||
          (accessor ? descriptor.get !== first || descriptor.set !== second : descriptor.value !== first)) {
        report(path, key, "");
      }
      // The global object has the names of user code. They are no change, unless a top-level
      // let, const or class hides a built-in object of the same name.
      if (object === global && typeof key === "string" && MapPrototypeHas(declaredBy, key)) report(path, key, " (hidden by a declaration)");
    }
    if (object === global) continue;
    const keys = ReflectOwnKeys(object);
    if (keys.length !== length - missing) addedKeys(path, keys, firstKey, length, report);
  }
  return { __proto__: null, count, names };
};

// inspectHeap describes, as JSON, what a heap contains besides values: changed intrinsics,
// and timers and finalizers that may run code during the run.
const inspectHeap = () => {
  const changed = changedIntrinsics();
  return JSONStringify({
    __proto__: null,
    checked: changed !== undefined,
    changes: changed === undefined ? 0 : changed.count,
    changed: changed === undefined ? newList() : changed.names,
    timers: countTimers(),
    finalizers: finalizersKept,
  });
};
