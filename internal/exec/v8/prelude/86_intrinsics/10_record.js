// The intrinsics as the prelude leaves them, and the changes that user code made to them.
//
// A saved heap contains the built-in objects with everything that its runs did to them.
// Each run that starts from a heap gets a list of those that differ from a fresh isolate.
// The record is made before any user code runs, and no object that user code can reach
// refers to it. The comparison calls only captured intrinsics, on objects that were not
// proxies when they were recorded: no getter and no trap runs.

const maxChangesNamed = 5;
const longestNamePart = 40; // characters

// The record consists of sections: that of the base heap, and one for each part of the platform
// that was loaded. A section has lines and values. A line has, separated by spaces, the path of an
// object, the number of its values, "+" if it is extensible, otherwise "-", and its keys, each
// after a letter for its attributes. The values of an object are the object, its prototype, and
// the contents of its properties: of a data property its value, of an accessor its getter and
// setter. A constant (neither writable nor configurable) has no contents, unless it is a method.
// A key that is a symbol is "@" in the line, and a value before the contents.
//
// Every heap contains the values. The lines of the base heap are in the part record of the
// platform, as long as they are equal.
const isData = 1;
const isWritable = 2;
const isEnumerableProperty = 4;
const isConfigurable = 8;
const isSimple = 16; // a value, or accessors, whose own properties need no entry
const firstLetter = 48;

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
  // In a context that is not saved. In others, loadIntl records them.
  if (intlReals === undefined && intlObject !== undefined) {
    const segments = new intlObject.Segmenter().segment("");
    add("Segments.prototype", ObjectGetPrototypeOf(segments));
    add("SegmentIterator.prototype", ObjectGetPrototypeOf(segments[SymbolIterator]()));
  }
  return list;
};

let recordedLines;
const linesOf = (section) => {
  if (section.lines !== undefined) return section.lines;
  if (recordedLines === undefined) recordedLines = host.load("record")().lines;
  return recordedLines;
};

// countIn returns the number of values of the object that a line describes.
const countIn = (line) => {
  const at = StringPrototypeIndexOf(line, " ") + 1;
  return +StringPrototypeSlice(line, at, StringPrototypeIndexOf(line, " ", at));
};

const equalLists = (a, b) => {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
};

// captureIntrinsics records every object that the global object and hiddenIntrinsics lead
// to. It runs last in the prelude, before any user code.
const captureIntrinsics = () => {
  intrinsics.length = 0;
  const queue = hiddenIntrinsics();
  queue[queue.length] = { __proto__: null, name: "globalThis", object: global };
  captureObjects(queue);
  const base = { __proto__: null, lines: undefined, values: intrinsics[0].values };
  if (equalLists(linesOf(base), intrinsics[0].lines)) intrinsics[0] = base;
};

// shapeOfRecord returns the lines of the base heap, for the test that compares the part record.
const shapeOfRecord = () => listJoin(linesOf(intrinsics[0]), "\n");

const attributeLetter = (attributes) => StringFromCharCode(firstLetter + attributes);

// captureObjects records the objects of a queue, and every object that they lead to, unless it
// is recorded.
const captureObjects = (queue) => {
  const known = new NativeSet();
  forEachObject((object) => { SetPrototypeAdd(known, object); });
  const lines = newList();
  const values = newList();
  const add = (value) => { values[values.length] = value; };
  const follow = (object, name) => {
    if (isObject(object) && !isSimpleFunction(object)) queue[queue.length] = { __proto__: null, name, object };
  };
  for (let i = 0; i < queue.length; i++) {
    const { name, object } = queue[i];
    if (SetPrototypeHas(known, object)) continue;
    SetPrototypeAdd(known, object);
    const keys = ReflectOwnKeys(object);
    const prototype = ObjectGetPrototypeOf(object);
    const first = values.length;
    add(object);
    add(prototype);
    let text = ObjectIsExtensible(object) ? "+" : "-";
    for (let k = 0; k < keys.length; k++) {
      const key = keys[k];
      const descriptor = ObjectGetOwnPropertyDescriptor(object, key);
      const attributes = attributesOf(descriptor);
      const path = pathOfKey(name, key);
      const isInLine = typeof key === "string" && key !== "@" && !StringPrototypeIncludes(key, " ");
      text += ` ${attributeLetter(attributes)}${isInLine ? key : "@"}`;
      if (!isInLine) add(key);
      if ((attributes & isData) === 0) {
        add(descriptor.get);
        add(descriptor.set);
        follow(descriptor.get, path);
        follow(descriptor.set, path);
      } else {
        if (!isConstant(attributes)) add(descriptor.value);
        follow(descriptor.value, path);
      }
    }
    follow(prototype, `${name}.__proto__`);
    lines[lines.length] = `${replaceText(name, " ", "_")} ${values.length - first} ${text}`;
  }
  intrinsics[intrinsics.length] = { __proto__: null, lines, values };
};

// forEachObject calls visit with each recorded object, its line, and where its values begin in
// which list, until visit returns true.
const forEachObject = (visit) => {
  for (let s = 0; s < intrinsics.length; s++) {
    const { values } = intrinsics[s];
    const lines = linesOf(intrinsics[s]);
    for (let i = 0, at = 0; i < lines.length; i++) {
      if (visit(values[at], lines[i], values, at)) return;
      at += countIn(lines[i]);
    }
  }
};

// forEachProperty calls visit with each recorded key of an object, the attributes, and where its
// contents are in values.
const forEachProperty = (line, values, at, visit) => {
  const parts = splitText(line, " ");
  at += 2;
  for (let k = 3; k < parts.length; k++) {
    const attributes = StringPrototypeCharCodeAt(parts[k], 0) - firstLetter;
    let key = StringPrototypeSlice(parts[k], 1);
    if (key === "@") key = values[at++];
    visit(key, attributes, at);
    at += (attributes & isData) === 0 ? 2 : isConstant(attributes) ? 0 : 1;
  }
};

// originals has what findOriginal found: path -> key -> { value } or { get, set }.
let originals;

// findOriginal returns the value, or the getter and setter, that the record has for a key of the
// object with a path, or undefined. It has no value of a constant.
const findOriginal = (path, key) => {
  if (originals === undefined) originals = new NativeMap();
  let found = MapPrototypeGet(originals, path);
  if (found === undefined) {
    found = new NativeMap();
    const start = `${path} `;
    forEachObject((object, line, values, first) => {
      if (!StringPrototypeStartsWith(line, start)) return false;
      forEachProperty(line, values, first, (name, attributes, at) => {
        if ((attributes & isData) === 0) MapPrototypeSet(found, name, { __proto__: null, get: values[at], set: values[at + 1] });
        else if (!isConstant(attributes)) MapPrototypeSet(found, name, { __proto__: null, value: values[at] });
      });
      return true;
    });
    MapPrototypeSet(originals, path, found);
  }
  return MapPrototypeGet(found, key);
};

// objectAt returns the recorded object with a path, or undefined.
const objectAt = (path) => {
  let found;
  const start = `${path} `;
  forEachObject((object, line) => {
    if (!StringPrototypeStartsWith(line, start)) return false;
    found = object;
    return true;
  });
  return found;
};

// namesOfGlobals returns the names that the global object has in a fresh isolate.
const namesOfGlobals = () => {
  const names = newList();
  forEachObject((object, line, values, first) => {
    if (object !== global) return false;
    forEachProperty(line, values, first, (key) => { names[names.length] = key; });
    return true;
  });
  return names;
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

// addedKeys reports the keys of an object that are not among the recorded keys.
const addedKeys = (path, keys, line, values, first, report) => {
  const recorded = new NativeSet();
  forEachProperty(line, values, first, (key) => { SetPrototypeAdd(recorded, key); });
  for (let k = 0; k < keys.length; k++) if (!SetPrototypeHas(recorded, keys[k])) report(path, keys[k], " (added)");
};

// changedIntrinsics returns how many intrinsics user code changed, and the names of the
// first ones. It returns undefined if nothing was recorded.
const changedIntrinsics = () => {
  if (intrinsics.length === 0) return undefined;
  const names = newList();
  let count = 0;
  const report = (path, key, change) => {
    count++;
    if (names.length < maxChangesNamed) names[names.length] = (key === undefined ? path : pathOfKey(path, key)) + change;
  };
  forEachObject((object, line, values, first) => {
    const pathEnd = StringPrototypeIndexOf(line, " ");
    const path = StringPrototypeSlice(line, 0, pathEnd);
    const extensible = line[StringPrototypeIndexOf(line, " ", pathEnd + 1) + 1] === "+";
    if (ObjectGetPrototypeOf(object) !== values[first + 1]) report(path, undefined, " (prototype)");
    if (ObjectIsExtensible(object) !== extensible) report(path, undefined, " (not extensible)");
    let missing = 0;
    let length = 0;
    forEachProperty(line, values, first, (key, attributes, at) => {
      length++;
      if (isConstant(attributes)) return;
      const descriptor = ObjectGetOwnPropertyDescriptor(object, key);
      if (descriptor === undefined) {
        missing++;
        report(path, key, " (deleted)");
      } else if (isLoaded(object, key, descriptor)) {
        // A lazy property replaced its accessor.
      } else if (attributesOf(descriptor) !== attributes ||
          ((attributes & isData) === 0 ? descriptor.get !== values[at] || descriptor.set !== values[at + 1] : descriptor.value !== values[at])) {
        report(path, key, "");
      }
      // The global object has the names of user code. They are no change, unless a top-level
      // let, const or class hides a built-in object of the same name.
      if (object === global && typeof key === "string" && MapPrototypeHas(declaredBy, key)) report(path, key, " (hidden by a declaration)");
    });
    if (object === global) return false;
    const keys = ReflectOwnKeys(object);
    if (keys.length !== length - missing) addedKeys(path, keys, line, values, first, report);
    return false;
  });
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
