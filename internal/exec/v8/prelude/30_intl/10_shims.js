// Intl for contexts whose heap is saved.
//
// A live Intl object owns native data that a snapshot cannot hold. Therefore the
// constructors are replaced by constructors whose instances keep only their arguments
// (canonical locales and a copy of the options). They create the real object for the
// duration of one call. toLocaleString, localeCompare and similar methods never expose
// such an object and are not replaced.

// Instances are ordinary objects with this one private slot. The constructors can then be
// plain functions, which Intl.NumberFormat() without new requires.
const intlSlot = (() => {
  class ReturnGiven { constructor(object) { return object; } }
  class Slot extends ReturnGiven {
    #record;
    constructor(object, record) {
      super(object);
      this.#record = record;
    }
    static read(object) {
      return (typeof object === "object" || typeof object === "function") && object !== null && #record in object ? object.#record : undefined;
    }
  }
  return { __proto__: null, mark: (object, record) => new Slot(object, record), read: Slot.read };
})();

// copyPrimitive stores the value of a getter or an object option, because the real
// constructor converts an option once, at construction. All options except the digit
// counts are strings, or are truth values that a string represents correctly.
const copyPrimitive = (key, value) => {
  if (typeof value !== "object" || value === null) return value;
  return StringPrototypeEndsWith(key, "Digits") || key === "roundingIncrement" ? NativeNumber(value) : NativeString(value);
};

// recordOptions lets the real constructor read the options through a proxy that records
// each value. Order, conversions and errors are therefore the engine's own, and each
// getter runs once.
const recordOptions = (Real, locales, options, construct) => {
  if (typeof options !== "object" || options === null) {
    construct(Real, locales, options);
    return options;
  }
  const copy = ObjectCreate(null);
  const watcher = new NativeProxy(options, {
    __proto__: null,
    get(target, key) {
      const value = copyPrimitive(key, target[key]);
      if (value !== undefined) copy[key] = value;
      return value;
    },
  });
  construct(Real, locales, watcher);
  return copy;
};

const constructIntl = (Real, locales, options) => ReflectConstruct(Real, [locales, options]);

// Date formatting without a date uses the current time: the virtual clock.
const clockMethods = { __proto__: null, format: true, formatToParts: true };

// newShims returns the replacements of constructors of Intl, by name.
const newShims = (reals, canonical) => {
  const callable = { __proto__: null, Collator: true, NumberFormat: true, DateTimeFormat: true };
  const names = ObjectKeys(reals);
  const shims = ObjectCreate(null);
  let Locale; // the shim, for methods that answer with one

  const makeShim = (name, Real) => {
    const isLocale = name === "Locale";
    const isDates = name === "DateTimeFormat";
    const realPrototype = Real.prototype;

    // A Locale consists of its tag only; the other classes have locales and options.
    const newRecord = (locales, options) => {
      if (isLocale) {
        const real = constructIntl(Real, locales, options);
        return { __proto__: null, locales: ReflectApply(realPrototypeToString, real, []), options: undefined, bound: undefined };
      }
      const list = locales === undefined ? undefined : canonical(locales);
      return { __proto__: null, locales: list, options: recordOptions(Real, list, options, constructIntl), bound: undefined };
    };
    const realPrototypeToString = isLocale ? realPrototype.toString : undefined;
    const build = (record) => constructIntl(Real, record.locales, record.options);

    const needRecord = (object, method) => {
      const record = intlSlot.read(object);
      if (record === undefined || record.kind !== name) {
        throw hideFrames(new NativeTypeError(`Method ${method} called on incompatible receiver ${safeInspect(object)}`), needRecord);
      }
      return record;
    };

    function Shim(locales, options) {
      let target = new.target;
      if (target === undefined) {
        if (!callable[name]) throw hideFrames(new NativeTypeError(`Constructor Intl.${name} requires 'new'`), Shim);
        target = Shim;
      }
      const object = ReflectConstruct(NativeObject, [], target);
      const record = newRecord(locales, options);
      record.kind = name;
      intlSlot.mark(object, record);
      return object;
    }
    setMeta(Shim, name, Real.length);
    const prototype = ObjectCreate(ObjectPrototype);
    ObjectDefineProperty(Shim, "prototype", { __proto__: null, value: prototype, writable: false });
    defineHidden(prototype, "constructor", Shim);

    const answer = (value) => {
      if (typeof value === "object" && value !== null && Locale !== undefined && isInstance(realLocale, value)) {
        return ReflectConstruct(Locale, [ReflectApply(realLocaleToString, value, [])]);
      }
      return value;
    };
    const callReal = (record, method, args) => {
      if (isDates && clockMethods[method.name] && (args.length === 0 || args[0] === undefined)) args = [now()];
      return answer(ReflectApply(method, build(record), args));
    };

    const keys = ReflectOwnKeys(realPrototype);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (key === "constructor") continue;
      const descriptor = ObjectGetOwnPropertyDescriptor(realPrototype, key);
      const label = `Intl.${name}.prototype.${typeof key === "symbol" ? "[symbol]" : key}`;
      if (!hasOwn(descriptor, "value")) {
        defineAccessor(prototype, key, descriptor.get, label);
      } else if (typeof descriptor.value === "function") {
        defineMethod(prototype, key, descriptor.value, label);
      } else {
        ObjectDefineProperty(prototype, key, { __proto__: null, value: descriptor.value, configurable: true });
      }
    }

    function defineMethod(object, key, real, label) {
      const isSegment = name === "Segmenter" && key === "segment";
      const method = { call(...args) {
        const record = needRecord(this, label);
        return isSegment ? newSegments(record, build, `${args[0]}`) : callReal(record, real, args);
      } }.call;
      defineHidden(object, key, setMeta(method, real.name, real.length));
    }

    // format and compare are getters that return a function bound to the instance, always
    // the same function. It reads the real function again in each call.
    function defineAccessor(object, key, real, label) {
      const isBound = key === "format" || key === "compare";
      const getter = { get() {
        const record = needRecord(this, label);
        if (!isBound) return answer(ReflectApply(real, build(record), []));
        if (record.bound === undefined) {
          const length = key === "compare" ? 2 : 1;
          const bound = (...args) => {
            if (isDates && (args.length === 0 || args[0] === undefined)) args = [now()];
            return ReflectApply(ReflectApply(real, build(record), []), undefined, args);
          };
          record.bound = setMeta(bound, "", length);
        }
        return record.bound;
      } }.get;
      ObjectDefineProperty(object, key, {
        __proto__: null, get: setMeta(getter, `get ${NativeString(key)}`, 0), set: undefined, enumerable: false, configurable: true,
      });
    }

    const statics = ObjectGetOwnPropertyNames(Real);
    for (let i = 0; i < statics.length; i++) {
      const value = Real[statics[i]];
      if (typeof value === "function" && statics[i] !== "prototype") defineHidden(Shim, statics[i], value);
    }
    if (isLocale) makeLocaleReadable(prototype, needRecord);
    return Shim;
  };

  // The engine's own readers of a locale list (localeCompare, toLocaleString) recognize real
  // Locale objects by their slot. The replacement looks to them like a list with one tag.
  const makeLocaleReadable = (prototype, needRecord) => {
    ObjectDefineProperty(prototype, "length", { __proto__: null, get() { return needRecord(this, "length") && 1; }, configurable: true });
    ObjectDefineProperty(prototype, "0", { __proto__: null, get() { return needRecord(this, "0").locales; }, configurable: true });
  };

  const realLocale = reals.Locale;
  const realLocaleToString = realLocale === undefined ? undefined : realLocale.prototype.toString;
  if (realLocale !== undefined) Locale = makeShim("Locale", realLocale);
  for (let i = 0; i < names.length; i++) shims[names[i]] = names[i] === "Locale" ? Locale : makeShim(names[i], reals[names[i]]);
  return shims;
};

// Segments reads a string in batches. Each batch creates the real segmenter once, and
// batches grow, so that neither many calls nor a long string take quadratic time.
const newSegments = (() => {
  let lazy;
  return (record, build, text) => (lazy === undefined ? lazy = makeSegments() : lazy)(record, build, text);

  function makeSegments() {
    // Native methods are called on a temporary instance, one for each call of the engine.
    const iteratorPrototype = ObjectCreate(IteratorPrototype);
    const open = (state) => {
      const real = state.build(state.record);
      return ReflectApply(ObjectGetPrototypeOf(real).segment, real, [state.text]);
    };
    const containing = (segments, index) => ReflectApply(ObjectGetPrototypeOf(segments).containing, segments, [index]);

    class Segments {
      #state;
      constructor(state) { this.#state = state; }
      containing(index) { return containing(open(this.#state), index); }
      [SymbolIterator]() { return ObjectSetPrototypeOf(new SegmentIterator(this.#state), iteratorPrototype); }
    }
    class SegmentIterator {
      #state;
      #at = 0;
      #batch = newList();
      #next = 0;
      #size = 64;
      constructor(state) { this.#state = state; }
      static step(self) {
        if (self.#next === self.#batch.length) {
          const text = self.#state.text;
          if (self.#at >= text.length) return { value: undefined, done: true };
          const segments = open(self.#state);
          const batch = newList();
          let at = self.#at;
          while (batch.length < self.#size && at < text.length) {
            const segment = containing(segments, at);
            batch[batch.length] = segment;
            at += segment.segment.length;
          }
          self.#batch = batch;
          self.#next = 0;
          self.#at = at;
          if (self.#size < 16384) self.#size *= 4;
        }
        return { value: self.#batch[self.#next++], done: false };
      }
    }
    const { step } = SegmentIterator;
    defineHidden(iteratorPrototype, "next", { next() { return step(this); } }.next);
    setTag(iteratorPrototype, "Segmenter String Iterator");
    ObjectSetPrototypeOf(Segments.prototype, ObjectPrototype);
    delete Segments.prototype.constructor;
    return (record, build, text) => new Segments({ __proto__: null, record, build, text });
  }
})();

