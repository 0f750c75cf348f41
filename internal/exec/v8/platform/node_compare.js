// The deep comparison of node:util and node:assert.

const { hasOwn, host, lengthOf, newList, ObjectGetOwnPropertyDescriptor, ObjectGetPrototypeOf, ObjectKeys, Map } = platform;
const is = platform.original("Object", "is");
const getSymbols = platform.original("Object", "getOwnPropertySymbols");
const method = (path, name) => platform.method(path, name);
const dateTime = method("Date.prototype", "getTime");
const regExpSource = platform.getter("RegExp.prototype", "source");
const regExpFlags = platform.regExpFlags;
const lastIndexKey = "lastIndex";
const mapEntries = method("Map.prototype", "entries");
const mapGet = method("Map.prototype", "get");
const mapHas = method("Map.prototype", "has");
const mapSet = method("Map.prototype", "set");
const mapSize = platform.getter("Map.prototype", "size");
const setValues = method("Set.prototype", "values");
const setHas = method("Set.prototype", "has");
const setSize = platform.getter("Set.prototype", "size");
const nextOfMap = method("MapIterator.prototype", "next");
const nextOfSet = method("SetIterator.prototype", "next");
const boxed = {
  __proto__: null,
  boxedNumber: method("Number.prototype", "valueOf"), boxedString: method("String.prototype", "valueOf"), boxedBoolean: method("Boolean.prototype", "valueOf"),
  boxedBigInt: method("BigInt.prototype", "valueOf"), boxedSymbol: method("Symbol.prototype", "valueOf"),
};
const viewName = platform.getter("TypedArray.prototype", platform.SymbolToStringTag);
const tagOf = method("Object.prototype", "toString");

const isObject = (value) => typeof value === "object" && value !== null;

const listOf = (iterator, next) => {
  const list = newList();
  for (let step = next(iterator); !step.done; step = next(iterator)) list[list.length] = step.value;
  return list;
};

const enumerableSymbols = (object) => {
  const all = getSymbols(object);
  const list = newList();
  for (let i = 0; i < all.length; i++) if (ObjectGetOwnPropertyDescriptor(object, all[i]).enumerable) list[list.length] = all[i];
  return list;
};

const isEqual = (a, b, strict) => deepEqual(a, b, strict, new Map());

const loose = (a, b) => a == b || (a !== a && b !== b);

const deepEqual = (a, b, strict, seen) => {
  if (a === b) return a !== 0 || !strict || is(a, b);
  if (strict) {
    if (typeof a !== "object") return typeof a === "number" && is(a, b);
    if (typeof b !== "object" || a === null || b === null) return false;
    if (ObjectGetPrototypeOf(a) !== ObjectGetPrototypeOf(b)) return false;
  } else {
    if (!isObject(a)) return (!isObject(b) || typeof a === "object") && (typeof b === "object" && b !== null ? false : loose(a, b));
    if (!isObject(b)) return false;
  }
  if (tagOf(a) !== tagOf(b)) return false;
  const kind = host.kindOf(a);
  if (kind !== host.kindOf(b)) return false;
  switch (kind) {
    case "array": if (a.length !== b.length) return false; break;
    case "date": if (!is(dateTime(a), dateTime(b))) return false; break;
    case "regexp": if (regExpSource(a) !== regExpSource(b) || regExpFlags(a) !== regExpFlags(b) || a[lastIndexKey] !== b[lastIndexKey]) return false; break;
    case "error": if (a.message !== b.message || a.name !== b.name || hasOwn(a, "cause") !== hasOwn(b, "cause")) return false; break;
    case "typedArray": if (viewName(a) !== viewName(b) || !sameBytes(a, b, strict)) return false; break;
    case "arrayBuffer": case "sharedArrayBuffer": case "dataView": if (!sameBytes(a, b, true)) return false; break;
    case "boxedNumber": case "boxedString": case "boxedBoolean": case "boxedBigInt": case "boxedSymbol": if (!is(boxed[kind](a), boxed[kind](b))) return false; break;
    case "map": if (mapSize(a) !== mapSize(b)) return false; break;
    case "set": if (setSize(a) !== setSize(b)) return false; break;
    case "promise": case "weakMap": case "weakSet": case "weakRef": return false;
  }
  return sameMembers(a, b, kind, strict, seen);
};

const sameBytes = (a, b, strict) => {
  const isFloat = host.kindOf(a) === "typedArray" && (viewName(a) === "Float32Array" || viewName(a) === "Float64Array");
  if (isFloat && !strict) {
    const size = lengthOf(a);
    if (size !== lengthOf(b)) return false;
    for (let i = 0; i < size; i++) if (a[i] !== b[i]) return false;
    return true;
  }
  const x = platform.bytesOf(a);
  const y = platform.bytesOf(b);
  const size = lengthOf(x);
  if (size !== lengthOf(y)) return false;
  for (let i = 0; i < size; i++) if (x[i] !== y[i]) return false;
  return true;
};

const sameMembers = (a, b, kind, strict, seen) => {
  const known = mapGet(seen, a);
  if (known !== undefined) return known === b;
  mapSet(seen, a, b);
  const equal = compareMembers(a, b, kind, strict, seen);
  platform.method("Map.prototype", "delete")(seen, a);
  return equal;
};

const keysOf = (value, kind) => (kind === "array" || kind === "typedArray" ? platform.toList(host.ownNonIndexKeys(value, 1)) : ObjectKeys(value));

const compareMembers = (a, b, kind, strict, seen) => {
  if (kind === "error" && !deepEqual(a.cause, b.cause, strict, seen)) return false;
  const keys = keysOf(a, kind);
  if (keys.length !== keysOf(b, kind).length) return false;
  for (let i = 0; i < keys.length; i++) if (!hasOwn(b, keys[i])) return false;
  if (strict) {
    const symbols = enumerableSymbols(a);
    if (symbols.length !== enumerableSymbols(b).length) return false;
    for (let i = 0; i < symbols.length; i++) {
      if (!hasOwn(b, symbols[i]) || !deepEqual(a[symbols[i]], b[symbols[i]], strict, seen)) return false;
    }
  }
  if (kind === "array") {
    for (let i = 0; i < a.length; i++) if (hasOwn(a, i) !== hasOwn(b, i) || !deepEqual(a[i], b[i], strict, seen)) return false;
  }
  for (let i = 0; i < keys.length; i++) if (!deepEqual(a[keys[i]], b[keys[i]], strict, seen)) return false;
  if (kind === "set") return sameSets(a, b, strict, seen);
  return kind !== "map" || sameMaps(a, b, strict, seen);
};

// Members that are not in the other set are compared with each of its members.
const sameSets = (a, b, strict, seen) => {
  const rest = newList();
  const members = listOf(setValues(a), nextOfSet);
  for (let i = 0; i < members.length; i++) if (!setHas(b, members[i])) rest[rest.length] = members[i];
  const others = newList();
  const all = listOf(setValues(b), nextOfSet);
  for (let i = 0; i < all.length; i++) if (!setHas(a, all[i])) others[others.length] = all[i];
  for (let i = 0; i < rest.length; i++) {
    let at = 0;
    while (at < others.length && !deepEqual(rest[i], others[at], strict, seen)) at++;
    if (at === others.length) return false;
    others[at] = others[others.length - 1];
    others.length--;
  }
  return true;
};

const sameMaps = (a, b, strict, seen) => {
  const rest = newList();
  const entries = listOf(mapEntries(a), nextOfMap);
  for (let i = 0; i < entries.length; i++) {
    const key = entries[i][0];
    if (!mapHas(b, key)) rest[rest.length] = entries[i];
    else if (!deepEqual(entries[i][1], mapGet(b, key), strict, seen)) return false;
  }
  const others = newList();
  const all = listOf(mapEntries(b), nextOfMap);
  for (let i = 0; i < all.length; i++) if (!mapHas(a, all[i][0])) others[others.length] = all[i];
  for (let i = 0; i < rest.length; i++) {
    let at = 0;
    while (at < others.length && !(deepEqual(rest[i][0], others[at][0], strict, seen) && deepEqual(rest[i][1], others[at][1], strict, seen))) at++;
    if (at === others.length) return false;
    others[at] = others[others.length - 1];
    others.length--;
  }
  return true;
};

return { isEqual };
