// The text of a run's result.

// A result with more values than this is shown as on the console: with at least two bytes
// for each value, its JSON text would be longer than the limit of a result.
const maxJSONNodes = 8000000;

// JSON.stringify would call a toJSON method of these prototypes.
const prototypesAreClean = () =>
  !hasOwn(ObjectPrototype, "toJSON") && !hasOwn(ArrayPrototype, "toJSON") &&
  ObjectGetPrototypeOf(ArrayPrototype) === ObjectPrototype;

const isJSONPrimitive = (value) => {
  switch (typeof value) {
    case "string": case "boolean": return true;
    case "number": return NumberIsFinite(value) && !(value === 0 && 1 / value < 0);
    default: return value === null;
  }
};

// openPlain lists the objects directly inside a plain object or array, with the number of
// all values in it. It returns undefined if the object holds anything that JSON text
// would lose or run. No user code runs: an accessor or a proxy makes it return undefined.
const openPlain = (value) => {
  const kind = host.kindOf(value);
  const prototype = kind === "proxy" ? undefined : ObjectGetPrototypeOf(value);
  const isArray = kind === "array";
  if (isArray ? prototype !== ArrayPrototype : kind !== "object" || (prototype !== ObjectPrototype && prototype !== null)) return undefined;
  const children = newList();
  const keys = isArray ? undefined : ReflectOwnKeys(value);
  const length = isArray ? value.length : keys.length;
  if (length > maxJSONNodes) return undefined;
  for (let i = 0; i < length; i++) {
    const key = isArray ? i : keys[i];
    if (typeof key === "symbol" || key === "toJSON") return undefined;
    const descriptor = ObjectGetOwnPropertyDescriptor(value, key);
    if (descriptor === undefined || !hasOwn(descriptor, "value")) return undefined; // a hole or an accessor
    if (descriptor.enumerable === false) {
      if (isArray) return undefined;
      continue;
    }
    const child = descriptor.value;
    if (isJSONPrimitive(child)) continue;
    if (typeof child !== "object") return undefined;
    children[children.length] = child;
  }
  if (isArray && host.ownNonIndexKeys(value, false).length !== 1) return undefined; // more than "length"
  return { __proto__: null, value, children, next: 0, count: length + 1 - children.length };
};

// isJSONValue uses a stack of its own, so that it does not fail at any depth. It walks a
// shared object once, but counts it at each place, because the text would repeat it:
// forty arrays can contain each other to a trillion values.
const isJSONValue = (root) => {
  if (typeof root !== "object" || root === null) return isJSONPrimitive(root);
  if (!prototypesAreClean()) return false;
  const counts = new NativeMap(); // of values inside; 0 while on the path from the root
  const frames = newList();
  let opening = root;
  for (;;) {
    const frame = openPlain(opening);
    if (frame === undefined) return false;
    MapPrototypeSet(counts, opening, 0);
    frames[frames.length] = frame;
    opening = undefined;
    while (opening === undefined) {
      const top = frames[frames.length - 1];
      if (top.count > maxJSONNodes) return false;
      if (top.next < top.children.length) {
        const child = top.children[top.next++];
        const known = MapPrototypeGet(counts, child);
        if (known === 0) return false; // a cycle
        if (known === undefined) opening = child;
        else top.count += known;
        continue;
      }
      MapPrototypeSet(counts, top.value, top.count);
      frames.length--;
      if (frames.length === 0) return true;
      frames[frames.length - 1].count += top.count;
    }
  }
};

const resultText = (value) => {
  try {
    if (isJSONValue(value)) return JSONStringify(value);
  } catch {
    // Too deep or too long for JSON text. The console form has limits of its own.
  }
  return safeInspect(value);
};

return { __proto__: null, resultText };
