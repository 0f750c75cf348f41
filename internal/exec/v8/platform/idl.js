// Conversions and shapes of Web IDL, which the other parts use.

const {
  TypeError, ObjectCreate, ObjectDefineProperty, ObjectGetOwnPropertyDescriptor, ObjectGetPrototypeOf,
  ReflectApply, ReflectOwnKeys, SymbolIterator, codedError, isObject, newList, setMeta, setTag, uncurryThis,
} = platform;
const toWellFormed = platform.method("String.prototype", "toWellFormed");
const charCodeAt = platform.method("String.prototype", "charCodeAt");
const floor = platform.original("Math", "floor");
const trunc = platform.original("Math", "trunc");
// The prototype of iterators is a constant of its constructor.
const IteratorPrototype = platform.original("globalThis", "Iterator").prototype;

const illegal = (type) =>
  codedError(TypeError, "ERR_INVALID_THIS", type === undefined ? "Illegal invocation" : `Value of "this" must be of type ${type}`);

const toUSV = (value) => toWellFormed(`${value}`);

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

// toUnsigned converts to an unsigned integer of a number of values, such as 65536.
const toUnsigned = (value, values) => {
  const number = trunc(+value);
  if (number !== number || number === Infinity || number === -Infinity) return 0;
  return number - floor(number / values) * values;
};

// toLong converts to a long long, which is exact to 2^53.
const toLong = (value) => {
  const number = trunc(+value);
  if (number !== number || number === Infinity || number === -Infinity) return 0;
  if (number <= 9007199254740991 && number >= -9007199254740991) return number + 0;
  const values = 18446744073709551616;
  const wrapped = number - floor(number / values) * values;
  return wrapped >= values / 2 ? wrapped - values : wrapped;
};

const needArguments = (args, count, name) => {
  if (args.length >= count) return;
  throw new TypeError(`${name}: ${count} argument${count === 1 ? "" : "s"} required, but${args.length === 0 ? "" : " only"} ${args.length} found.`);
};

// dictionary returns the object of a dictionary, or undefined if there is none.
const dictionary = (value, name) => {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) throw new TypeError(`${name}: Expected ${typeof value === "symbol" ? "a symbol" : value} to be one of: Null, Undefined, Object.`);
  return value;
};

// iterate calls a function with each item of an iterable whose iterator method is given.
const iterate = (iterable, method, visit) => {
  const iterator = ReflectApply(method, iterable, []);
  if (!isObject(iterator)) throw new TypeError("The iterator is not an object");
  const { next } = iterator;
  for (;;) {
    const step = ReflectApply(next, iterator, []);
    if (!isObject(step)) throw new TypeError(`Iterator result ${typeof step === "symbol" ? "a symbol" : step} is not an object`);
    if (step.done) return;
    visit(step.value);
  }
};

const noSequence = { __proto__: null };
// iteratorOf returns the iterator method of an object, or noSequence.
const iteratorOf = (value) => {
  if (!isObject(value)) return noSequence;
  const method = value[SymbolIterator];
  if (method === undefined || method === null) return noSequence;
  if (typeof method !== "function") throw new TypeError("The property Symbol.iterator is not a function");
  return method;
};

const toSequence = (value, what) => {
  const method = iteratorOf(value);
  if (method === noSequence) throw new TypeError(`${what} is not iterable.`);
  const items = newList();
  iterate(value, method, (item) => { items[items.length] = item; });
  return items;
};

// finish makes the members of a class those of an interface: enumerable, with a class string.
const finish = (constructor, name) => {
  const members = ReflectOwnKeys(constructor.prototype);
  for (let i = 0; i < members.length; i++) {
    if (typeof members[i] !== "string" || members[i] === "constructor") continue;
    ObjectDefineProperty(constructor.prototype, members[i], { __proto__: null, enumerable: true });
  }
  const keys = ReflectOwnKeys(constructor);
  for (let i = 0; i < keys.length; i++) {
    if (typeof keys[i] !== "string") continue;
    const { value } = ObjectGetOwnPropertyDescriptor(constructor, keys[i]);
    if (typeof value === "function") ObjectDefineProperty(constructor, keys[i], { __proto__: null, enumerable: true });
  }
  setTag(constructor.prototype, name);
  return constructor;
};

const define = (object, key, value, enumerable) =>
  ObjectDefineProperty(object, key, { __proto__: null, value, writable: true, enumerable, configurable: true });

// pairIterable adds entries, keys, values, forEach and Symbol.iterator to an interface.
// pairsOf returns the list of pairs {name, value} of an object as it is now, and throws
// for an object of another type.
const pairIterable = (constructor, name, pairsOf) => {
  class PairIterator {
    #object;
    #kind;
    #index = 0;
    constructor(object, kind) {
      this.#object = object;
      this.#kind = kind;
    }
    static step(iterator) {
      if (!isObject(iterator) || !(#object in iterator)) throw illegal(`${name} Iterator`);
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
    const iterator = new PairIterator(object, kind);
    platform.ObjectSetPrototypeOf(iterator, prototype);
    return iterator;
  };
  const { entries, keys, values, forEach } = {
    entries() { return start(this, "entries"); },
    keys() { return start(this, "keys"); },
    values() { return start(this, "values"); },
    forEach(callback, thisArgument = undefined) {
      pairsOf(this);
      needArguments(arguments, 1, `${name}.forEach`);
      if (typeof callback !== "function") {
        throw new TypeError(`Failed to execute 'forEach' on '${name}': parameter 1 is not of type 'Function'.`);
      }
      for (let i = 0; i < pairsOf(this).length; i++) {
        const pair = pairsOf(this)[i];
        ReflectApply(callback, thisArgument, [pair.value, pair.name, this]);
      }
    },
  };
  define(constructor.prototype, "entries", entries, true);
  define(constructor.prototype, "forEach", setMeta(forEach, "forEach", 1), true);
  define(constructor.prototype, "keys", keys, true);
  define(constructor.prototype, "values", values, true);
  define(constructor.prototype, SymbolIterator, entries, false);
};

// nameOf returns the name of the class of an object, which may extend an interface.
const nameOf = (object, name) => {
  const { constructor } = object;
  return typeof constructor === "function" && typeof constructor.name === "string" && constructor.name !== "" ? constructor.name : name;
};

// inspectable defines how the console shows the objects of a class: as an object of the same
// name with the members that read returns.
const inspectable = (constructor, name, read) => {
  define(constructor.prototype, platform.inspectCustom, {
    inspect(depth, options) {
      if (typeof depth === "number" && depth < 0) return this;
      const shown = read(this);
      if (shown === undefined) return this;
      const given = options === undefined || options === null ? {} : options;
      const text = platform.inspectWith(shown, { __proto__: null, depth: given.depth === null || given.depth === undefined ? given.depth : depth });
      return `${nameOf(this, name)} ${text}`;
    },
  }.inspect, false);
};

// ---- promises -----------------------------------------------------------------------

const { Promise } = platform;
const then = platform.method("Promise.prototype", "then");
const nothing = () => {};

const resolved = (value) => new Promise((resolve) => resolve(value));
const rejected = (reason) => new Promise((_, reject) => reject(reason));

const newDeferred = () => {
  const deferred = { __proto__: null, promise: undefined, resolve: undefined, reject: undefined };
  deferred.promise = new Promise((resolve, reject) => {
    deferred.resolve = resolve;
    deferred.reject = reject;
  });
  return deferred;
};

// markHandled keeps a rejection of a promise from counting as unhandled.
const markHandled = (promise) => { then(promise, undefined, nothing); };

const indexOf = platform.method("String.prototype", "indexOf");

return {
  illegal, toUSV, toByteString, toUnsigned, toLong, needArguments, dictionary, iterate, iteratorOf, noSequence, toSequence,
  finish, define, pairIterable, inspectable, IteratorPrototype,
  then, resolved, rejected, newDeferred, markHandled, nothing, indexOf,
};
