// What interfaces of the web have in common: conversions of arguments, errors with the texts of
// Node, and the attributes of members.

const {
  ObjectDefineProperty, ObjectGetOwnPropertyDescriptor, ObjectKeys, ReflectApply, ReflectOwnKeys, TypeError, RangeError, codedError,
  hasOwn, inspectCustom, inspectWith, isObject, newList, setMeta, setTag, SymbolIterator,
} = platform;

const toWellFormed = platform.method("String.prototype", "toWellFormed");
const isSafeNumber = platform.original("Number", "isFinite");
const truncate = platform.original("Math", "trunc");

// ---- errors -----------------------------------------------------------------------

// requireThis throws the error of a method whose receiver is of another class.
const illegalInvocation = (name) => codedError(TypeError, "ERR_INVALID_THIS", `Value of "this" must be of type ${name}`);

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

const shorten = (value) => {
  const text = inspectWith(value, { __proto__: null });
  return text.length > 28 ? `${platform.method("String.prototype", "slice")(text, 0, 25)}...` : text;
};

// outOfRange returns the error of a number outside its range.
const outOfRange = (name, range, value) => {
  const received = typeof value === "number" || typeof value === "bigint" ? `${value}` : shorten(value);
  return codedError(RangeError, "ERR_OUT_OF_RANGE", `The value of "${name}" is out of range. It must be ${range}. Received ${received}`);
};

// ---- conversions ------------------------------------------------------------------

// A DOMString is the result of a template literal, which refuses symbols.
const toUSVString = (value) => toWellFormed(`${value}`);

// toDictionary returns an object of which members may be read, or undefined for no members.
const toDictionary = (value, name) => {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) throw platform.invalidArgument(name, "of type object", value);
  return value;
};

// toInteger converts to an integer of an IDL type, with the steps of [EnforceRange].
const toInteger = (value, name, least, most) => {
  const number = +value;
  if (!isSafeNumber(number)) throw outOfRange(name, `>= ${least} && <= ${most}`, number);
  const whole = truncate(number) + 0;
  if (whole < least || whole > most) throw outOfRange(name, `>= ${least} && <= ${most}`, number);
  return whole;
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

// iteratorOf returns value[Symbol.iterator], or undefined if the value is not iterable.
const iteratorOf = (value) => {
  if (!isObject(value)) return undefined;
  const method = value[SymbolIterator];
  if (method === undefined || method === null) return undefined;
  if (typeof method !== "function") throw codedError(TypeError, "ERR_ARG_NOT_ITERABLE", "Query pairs must be iterable");
  return method;
};

// ---- interfaces -------------------------------------------------------------------

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

// defineInspection defines how the console shows objects of a class: the name of the class, and
// the fields that fieldsOf(object) returns in an object. It returns undefined for a receiver
// that is no object of the class.
const defineInspection = (Class, name, fieldsOf) => {
  const inspect = {
    inspect(depth, options) {
      const fields = fieldsOf(this);
      if (fields === undefined) return this;
      const { constructor } = this;
      const title = typeof constructor === "function" && typeof constructor.name === "string" && constructor.name !== "" ? constructor.name : name;
      if (typeof depth === "number" && depth < 0) return title;
      return `${title} ${inspectWith(fields, inner(options))}`;
    },
  }.inspect;
  platform.defineHidden(Class.prototype, inspectCustom, setMeta(inspect, "[nodejs.util.inspect.custom]", 2));
};

// inner returns the options for the fields of an object.
const inner = (options) => {
  const copy = { __proto__: null };
  if (!isObject(options)) return copy;
  const keys = ObjectKeys(options);
  for (let i = 0; i < keys.length; i++) copy[keys[i]] = options[keys[i]];
  if (hasOwn(copy, "depth") && typeof copy.depth === "number") copy.depth--;
  return copy;
};

return {
  illegalInvocation, illegalConstructor, requireArguments, outOfRange, toUSVString, toDictionary, toInteger, toSequence, iteratorOf,
  expose, defineConstants, defineInspection, inner,
};
