// The two texts a run ends with: its result and its error.

// Past this many values a result is shown as the console would show it.
const maxJSONNodes = 4000000;

const safeInspect = (value) => {
  try {
    return inspectWith(value, undefined);
  } catch {
    // Something user code controls (a custom inspection hook, a name getter) threw.
    return `[${typeof value} whose inspection threw an error]`;
  }
};

// inheritsToJSON: JSON.stringify would call a toJSON found on these prototypes.
const inheritsToJSON = () =>
  hasOwn(ObjectPrototype, "toJSON") || hasOwn(ArrayPrototype, "toJSON") ||
  ObjectGetPrototypeOf(ArrayPrototype) !== ObjectPrototype;

// plainChildren returns the values JSON.stringify would visit in a plain object or
// array, or undefined if the object holds anything JSON text would lose or run.
const plainChildren = (value) => {
  const kind = host.kindOf(value);
  const prototype = kind === "proxy" ? undefined : ObjectGetPrototypeOf(value);
  const children = newList();
  if (kind === "array") {
    if (prototype !== ArrayPrototype) return undefined;
    const length = value.length;
    if (length > maxJSONNodes) return undefined;
    for (let i = 0; i < length; i++) {
      const descriptor = ObjectGetOwnPropertyDescriptor(value, i);
      if (descriptor === undefined || !hasOwn(descriptor, "value")) return undefined;
      children[i] = descriptor.value;
    }
    return ReflectOwnKeys(value).length === length + 1 ? children : undefined;
  }
  if (kind !== "object" || (prototype !== ObjectPrototype && prototype !== null)) return undefined;
  const keys = ReflectOwnKeys(value);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    if (typeof key === "symbol" || key === "toJSON") return undefined;
    const descriptor = ObjectGetOwnPropertyDescriptor(value, key);
    if (!hasOwn(descriptor, "value")) return undefined;
    if (descriptor.enumerable) children[children.length] = descriptor.value;
  }
  return children;
};

// isJSONValue walks with a stack of its own: depth is no reason to fail here.
const isJSONValue = (root) => {
  if (inheritsToJSON()) return false;
  const frames = newList();
  const open = new NativeSet(); // the objects on the path from the root
  let visited = 0;
  let value = root;
  for (;;) {
    switch (typeof value) {
      case "string": case "boolean": break;
      case "number":
        if (!NumberIsFinite(value) || (value === 0 && 1 / value < 0)) return false;
        break;
      case "object": {
        if (value === null) break;
        if (SetPrototypeHas(open, value)) return false;
        const children = plainChildren(value);
        if (children === undefined) return false;
        SetPrototypeAdd(open, value);
        frames[frames.length] = { value, children, next: 0 };
        break;
      }
      default: return false;
    }
    if (++visited > maxJSONNodes) return false;
    for (;;) {
      if (frames.length === 0) return true;
      const top = frames[frames.length - 1];
      if (top.next < top.children.length) {
        value = top.children[top.next++];
        break;
      }
      SetPrototypeDelete(open, top.value);
      frames.length--;
    }
  }
};

const resultText = (value) => {
  if (typeof value === "string") return value;
  if (value === undefined) return null;
  try {
    if (isJSONValue(value)) return JSONStringify(value);
  } catch {
    // Too deep or too long for JSON text; the console form has limits of its own.
  }
  return safeInspect(value);
};

const errorResult = (value) => {
  if (host.kindOf(value) !== "error") return `Uncaught ${safeInspect(value)}`;
  try {
    const descriptor = ObjectGetOwnPropertyDescriptor(value, "stack");
    // Newer engines keep the stack behind an accessor of their own.
    const stack = descriptor === undefined ? undefined
      : hasOwn(descriptor, "value") ? descriptor.value
      : descriptor.get === nativeStackGetter && nativeStackGetter !== undefined ? ReflectApply(nativeStackGetter, value, [])
      : undefined;
    if (typeof stack === "string" && stack !== "") return stack;
  } catch {
    // A user's Error.prepareStackTrace threw.
  }
  return safeInspect(value);
};

const nativeStackGetter = (() => {
  const descriptor = ObjectGetOwnPropertyDescriptor(new NativeError(), "stack");
  return descriptor === undefined ? undefined : descriptor.get;
})();
