// What interfaces of the web have in common: errors with the texts of Node, conversions of
// arguments as Web IDL defines them, and the attributes of members.

const {
  ObjectCreate, ObjectDefineProperty, ObjectGetOwnPropertyDescriptor, ObjectKeys, ObjectSetPrototypeOf, ReflectApply, ReflectOwnKeys,
  TypeError, RangeError, codedError, hasOwn, inspectCustom, inspectWith, isObject, newList, setMeta, setTag, SymbolIterator,
} = platform;

const toWellFormed = platform.method("String.prototype", "toWellFormed");
const charCodeAt = platform.method("String.prototype", "charCodeAt");
const slice = platform.method("String.prototype", "slice");
const isFiniteNumber = platform.original("Number", "isFinite");
const floor = platform.original("Math", "floor");
const trunc = platform.original("Math", "trunc");
// The prototype of iterators is a constant of its constructor.
const IteratorPrototype = platform.original("globalThis", "Iterator").prototype;

// ---- errors -----------------------------------------------------------------------

// illegalInvocation returns the error of a member whose receiver is no object of an interface.
// Some interfaces of Node do not name themselves.
const illegalInvocation = (name) =>
  codedError(TypeError, "ERR_INVALID_THIS", name === undefined ? "Illegal invocation" : `Value of "this" must be of type ${name}`);

const illegalConstructor = () => codedError(TypeError, "ERR_ILLEGAL_CONSTRUCTOR", "Illegal constructor");

// requireArguments throws if args has less arguments than there are names.
const requireArguments = (args, ...names) => {
  if (args.length >= names.length) return;
  let text = "";
  for (let i = 0; i < names.length; i++) {
    if (i > 0) text += i < names.length - 1 ? ", " : names.length > 2 ? ", and " : " and ";
    text += `"${names[i]}"`;
  }
  throw codedError(TypeError, "ERR_MISSING_ARGS", `The ${text} argument${names.length > 1 ? "s" : ""} must be specified`);
};

// countArguments throws if args has less than count arguments, with the text that Node has for
// interfaces of the Fetch standard. name is that of the function.
const countArguments = (args, count, name) => {
  if (args.length >= count) return;
  throw new TypeError(`${name}: ${count} argument${count === 1 ? "" : "s"} required, but${args.length === 0 ? "" : " only"} ${args.length} found.`);
};

const shorten = (value) => {
  const text = inspectWith(value, { __proto__: null });
  return text.length > 28 ? `${slice(text, 0, 25)}...` : text;
};

// outOfRange returns the error of a number outside its range.
const outOfRange = (name, range, value) => {
  const received = typeof value === "number" || typeof value === "bigint" ? `${value}` : shorten(value);
  return codedError(RangeError, "ERR_OUT_OF_RANGE", `The value of "${name}" is out of range. It must be ${range}. Received ${received}`);
};

// ---- conversions ------------------------------------------------------------------

// A DOMString is the result of a template literal, which refuses symbols.
const toUSVString = (value) => toWellFormed(`${value}`);

const toByteString = (value) => {
  const text = `${value}`;
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    if (code > 255) {
      throw new TypeError(`Cannot convert argument to a ByteString because the character at index ${i} has a value of ${code} which is greater than 255.`);
    }
  }
  return text;
};

// toDictionary returns an object of which members may be read, or undefined for no members.
const toDictionary = (value, name) => {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) throw platform.invalidArgument(name, "of type object", value);
  return value;
};

// toInit does the same with the text that Node has for interfaces of the Fetch standard.
const toInit = (value, name) => {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) throw new TypeError(`${name}: Expected ${typeof value === "symbol" ? "a symbol" : value} to be one of: Null, Undefined, Object.`);
  return value;
};

// toInteger converts to an integer of an IDL type, with the steps of [EnforceRange].
const toInteger = (value, name, least, most) => {
  const number = +value;
  if (!isFiniteNumber(number)) throw outOfRange(name, `>= ${least} && <= ${most}`, number);
  const whole = trunc(number) + 0;
  if (whole < least || whole > most) throw outOfRange(name, `>= ${least} && <= ${most}`, number);
  return whole;
};

// toUnsigned converts to an unsigned integer of a number of values, such as 65536.
const toUnsigned = (value, values) => {
  const number = trunc(+value);
  if (!isFiniteNumber(number)) return 0;
  return number - floor(number / values) * values;
};

// toLong converts to a long long, which is exact to 2^53.
const toLong = (value) => {
  const number = trunc(+value);
  if (!isFiniteNumber(number)) return 0;
  if (number <= 9007199254740991 && number >= -9007199254740991) return number + 0;
  const values = 18446744073709551616;
  const wrapped = number - floor(number / values) * values;
  return wrapped >= values / 2 ? wrapped - values : wrapped;
};

// iteratorOf returns value[Symbol.iterator], or undefined if the value is not iterable. text is
// that of the error if the property is no function.
const iteratorOf = (value, text = "The property Symbol.iterator is not a function") => {
  if (!isObject(value)) return undefined;
  const method = value[SymbolIterator];
  if (method === undefined || method === null) return undefined;
  if (typeof method !== "function") throw codedError(TypeError, "ERR_ARG_NOT_ITERABLE", text);
  return method;
};

// toSequence converts an iterable to a list. method is value[Symbol.iterator], convert converts
// an item.
const toSequence = (value, method, convert) => {
  const list = newList();
  const iterator = ReflectApply(method, value, []);
  if (!isObject(iterator)) throw new TypeError("The iterator is not an object");
  const { next } = iterator;
  for (;;) {
    const step = ReflectApply(next, iterator, []);
    if (!isObject(step)) throw new TypeError("The result of the iterator is not an object");
    if (step.done) return list;
    list[list.length] = convert(step.value, list.length);
  }
};

// ---- interfaces -------------------------------------------------------------------

const define = (object, key, value, enumerable) =>
  ObjectDefineProperty(object, key, { __proto__: null, value, writable: true, enumerable, configurable: true });

const setEnumerable = (object, skip) => {
  const keys = ReflectOwnKeys(object);
  for (let i = 0; i < keys.length; i++) {
    if (typeof keys[i] !== "string" || keys[i] === "constructor" || (skip && (keys[i] === "length" || keys[i] === "name" || keys[i] === "prototype"))) continue;
    if (ObjectGetOwnPropertyDescriptor(object, keys[i]).configurable) ObjectDefineProperty(object, keys[i], { __proto__: null, enumerable: true });
  }
};

// expose gives a class the attributes of an interface: members are enumerable. lengths has the
// lengths of functions that have optional arguments, by name; a static one is after "static ".
const expose = (Class, name, lengths) => {
  setEnumerable(Class.prototype, false);
  setEnumerable(Class, true);
  setTag(Class.prototype, name);
  if (lengths === undefined) return;
  const keys = ObjectKeys(lengths);
  for (let i = 0; i < keys.length; i++) {
    const parts = platform.splitText(keys[i], " ");
    const owner = parts.length === 2 ? Class : Class.prototype;
    const fn = keys[i] === "constructor" ? Class : owner[parts[parts.length - 1]];
    setMeta(fn, fn.name, lengths[keys[i]]);
  }
};

// defineConstants defines the constants of an interface on its object and its prototype.
const defineConstants = (Class, constants) => {
  const names = ObjectKeys(constants);
  for (let i = 0; i < names.length; i++) {
    const constant = { __proto__: null, value: constants[names[i]], enumerable: true };
    ObjectDefineProperty(Class, names[i], constant);
    ObjectDefineProperty(Class.prototype, names[i], constant);
  }
};

// definePairs adds entries, keys, values, forEach and Symbol.iterator to an interface. pairsOf
// returns the list of pairs {name, value} of an object as it is now, and throws for an object of
// another type.
const definePairs = (Class, name, pairsOf) => {
  class PairIterator {
    #object;
    #kind;
    #index = 0;
    constructor(object, kind) {
      this.#object = object;
      this.#kind = kind;
    }
    static step(iterator) {
      if (!isObject(iterator) || !(#object in iterator)) throw illegalInvocation(`${name} Iterator`);
      const pairs = pairsOf(iterator.#object);
      if (iterator.#index >= pairs.length) return { value: undefined, done: true };
      const pair = pairs[iterator.#index++];
      const value = iterator.#kind === "keys" ? pair.name : iterator.#kind === "values" ? pair.value : [pair.name, pair.value];
      return { value, done: false };
    }
  }
  const { step } = PairIterator;
  const prototype = ObjectCreate(IteratorPrototype);
  define(prototype, "next", { next() { return step(this); } }.next, true);
  setTag(prototype, `${name} Iterator`);
  const start = (object, kind) => {
    pairsOf(object);
    return ObjectSetPrototypeOf(new PairIterator(object, kind), prototype);
  };
  const { entries, keys, values, forEach } = {
    entries() { return start(this, "entries"); },
    keys() { return start(this, "keys"); },
    values() { return start(this, "values"); },
    forEach(callback, thisArgument = undefined) {
      pairsOf(this);
      countArguments(arguments, 1, `${name}.forEach`);
      if (typeof callback !== "function") {
        throw new TypeError(`Failed to execute 'forEach' on '${name}': parameter 1 is not of type 'Function'.`);
      }
      for (let i = 0; i < pairsOf(this).length; i++) {
        const pair = pairsOf(this)[i];
        ReflectApply(callback, thisArgument, [pair.value, pair.name, this]);
      }
    },
  };
  define(Class.prototype, "entries", entries, true);
  define(Class.prototype, "forEach", setMeta(forEach, "forEach", 1), true);
  define(Class.prototype, "keys", keys, true);
  define(Class.prototype, "values", values, true);
  define(Class.prototype, SymbolIterator, entries, false);
};

// ---- what a value of an interface looks like ----------------------------------------

// nameOf returns the name of the class of an object, which may extend an interface.
const nameOf = (object, name) => {
  const { constructor } = object;
  return typeof constructor === "function" && typeof constructor.name === "string" && constructor.name !== "" ? constructor.name : name;
};

const defineInspect = (Class, inspect) => {
  platform.defineHidden(Class.prototype, inspectCustom, setMeta(inspect, "[nodejs.util.inspect.custom]", 2));
};

// defineInspection defines how the console shows objects of a class: the name of the class, and
// the fields that fieldsOf(object) returns in an object. It returns undefined for a receiver
// that is no object of the class.
const defineInspection = (Class, name, fieldsOf) => defineInspect(Class, {
  inspect(depth, options) {
    const fields = fieldsOf(this);
    if (fields === undefined) return this;
    const title = nameOf(this, name);
    if (typeof depth === "number" && depth < 0) return title;
    return `${title} ${inspectWith(fields, inner(options))}`;
  },
}.inspect);

// inner returns the options for the fields of an object.
const inner = (options) => {
  const copy = { __proto__: null };
  if (!isObject(options)) return copy;
  const keys = ObjectKeys(options);
  for (let i = 0; i < keys.length; i++) copy[keys[i]] = options[keys[i]];
  if (hasOwn(copy, "depth") && typeof copy.depth === "number") copy.depth--;
  return copy;
};

// defineLevelInspection does so for classes that Node shows like an object of the language: their
// fields are one level deeper, and below the last level the console shows the class alone.
const defineLevelInspection = (Class, name, fieldsOf) => defineInspect(Class, {
  inspect(depth, options) {
    if (typeof depth === "number" && depth < 0) return this;
    const fields = fieldsOf(this);
    if (fields === undefined) return this;
    const given = options === undefined || options === null ? { __proto__: null } : options;
    const text = inspectWith(fields, { __proto__: null, depth: given.depth === null || given.depth === undefined ? given.depth : depth });
    return `${nameOf(this, name)} ${text}`;
  },
}.inspect);

// ---- structured clones ----------------------------------------------------------------

const noCopy = { __proto__: null, clone: undefined, transfer: undefined };

// A regular expression here would change RegExp.$1 of the script. So its texts are checked one
// code unit at a time.
const hasOnly = (text, isAllowed) => {
  for (let i = 0; i < text.length; i++) if (!isAllowed(charCodeAt(text, i))) return false;
  return true;
};

const isAlphanumeric = (code) => (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57);
const isTokenUnit = (code) =>
  isAlphanumeric(code) || code === 33 || (code >= 35 && code <= 39) || code === 42 || code === 43 || code === 45 || code === 46 ||
  (code >= 94 && code <= 96) || code === 124 || code === 126;

// isToken reports whether a text is a token of HTTP: a method, or the name of a header.
const isToken = (text) => text !== "" && hasOnly(text, isTokenUnit);

// refuseClones makes a structured clone of an object of an interface an error. isOwn reports
// whether a value is such an object. Without it, the clone would be an empty object.
const refuseClones = (isOwn) => { platform.addCloneable((value) => (isOwn(value) ? noCopy : undefined)); };

return {
  illegalInvocation, illegalConstructor, requireArguments, countArguments, outOfRange,
  toUSVString, toByteString, toDictionary, toInit, toInteger, toUnsigned, toLong, iteratorOf, toSequence,
  define, expose, defineConstants, definePairs, defineInspection, defineLevelInspection, inner, refuseClones, hasOnly, isToken,
};
