// The constructors of Intl. In contexts whose heap is saved they are made when a script first uses
// one of them.

let intlReals; // the engine's constructors by name; no user code has them
let intlCanonical;
let intlShims; // made by loadIntl; part of the heap from then on

const intlObject = global.Intl;

const installIntlShim = () => {
  if (intlObject === undefined) return;
  intlCanonical = intlObject.getCanonicalLocales;
  intlReals = ObjectCreate(null);
  const names = ObjectGetOwnPropertyNames(intlObject);
  for (let i = 0; i < names.length; i++) {
    const real = intlObject[names[i]];
    if (typeof real !== "function" || real.prototype === undefined) continue; // getCanonicalLocales and the like
    intlReals[names[i]] = real;
    defineLazily(intlObject, names[i], loadIntl);
  }
};

// loadIntl returns a constructor of Intl, and makes all of them if they do not exist.
const loadIntl = (name) => {
  if (intlShims === undefined) {
    const shims = evaluateIntl().newShims(intlReals, intlCanonical);
    const names = ObjectKeys(shims);
    const objects = newList();
    for (let i = 0; i < names.length; i++) objects[i] = { __proto__: null, name: `Intl.${names[i]}`, object: shims[names[i]] };
    if (shims.Segmenter !== undefined) {
      const segmenter = ReflectConstruct(shims.Segmenter, []);
      const segments = ReflectApply(shims.Segmenter.prototype.segment, segmenter, [""]);
      const prototype = ObjectGetPrototypeOf(segments);
      objects[objects.length] = { __proto__: null, name: "Segments.prototype", object: prototype };
      const iterator = ReflectApply(prototype[SymbolIterator], segments, []);
      objects[objects.length] = { __proto__: null, name: "SegmentIterator.prototype", object: ObjectGetPrototypeOf(iterator) };
    }
    recording().captureObjects(objects);
    intlShims = shims;
  }
  return intlShims[name];
};

// bindIntlClock is all that a context without snapshots needs: the real Intl, which
// reads the virtual clock if the caller passes no date.
const bindIntlClock = () => {
  const intl = global.Intl;
  if (intl === undefined || intl.DateTimeFormat === undefined) return;
  const prototype = intl.DateTimeFormat.prototype;
  const realFormat = ObjectGetOwnPropertyDescriptor(prototype, "format").get;
  const realParts = prototype.formatToParts;
  const bound = new NativeWeakMap();
  const getter = { get() {
    const format = ReflectApply(realFormat, this, []);
    let wrapped = WeakMapPrototypeGet(bound, format);
    if (wrapped === undefined) {
      wrapped = setMeta((date) => format(date === undefined ? now() : date), "", 1);
      WeakMapPrototypeSet(bound, format, wrapped);
    }
    return wrapped;
  } }.get;
  ObjectDefineProperty(prototype, "format", {
    __proto__: null, get: setMeta(getter, "get format", 0), set: undefined, enumerable: false, configurable: true,
  });
  const parts = { formatToParts(date) { return ReflectApply(realParts, this, [date === undefined ? now() : date]); } }.formatToParts;
  defineHidden(prototype, "formatToParts", parts);
};
