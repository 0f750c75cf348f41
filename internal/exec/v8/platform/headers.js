// Headers of the Fetch standard.
//
// A list is a list of entries {name, lower, value}. A guard is "none" or "immutable". Names
// that a browser forbids are allowed, as in other runtimes of servers: the sender of a request
// decides what it may contain.

const { TypeError, isObject, newList, ReflectOwnKeys, ObjectGetOwnPropertyDescriptor } = platform;
const { illegalInvocation, toByteString, countArguments, iteratorOf, toSequence, expose, define, definePairs, defineLevelInspection, refuseClones, isToken } = platform.load("webidl");
const toLowerCase = platform.method("String.prototype", "toLowerCase");
const slice = platform.method("String.prototype", "slice");
const charCodeAt = platform.method("String.prototype", "charCodeAt");
const indexOf = platform.method("String.prototype", "indexOf");
const sort = platform.method("Array.prototype", "sort");

const isBadValue = (text) => indexOf(text, "\0") !== -1 || indexOf(text, "\n") !== -1 || indexOf(text, "\r") !== -1;

const isSpace = (code) => code === 9 || code === 10 || code === 13 || code === 32;

const trimValue = (text) => {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(charCodeAt(text, start))) start++;
  while (end > start && isSpace(charCodeAt(text, end - 1))) end--;
  return slice(text, start, end);
};

const checkName = (name, method) => {
  if (!isToken(name)) throw new TypeError(`Headers.${method}: "${name}" is an invalid header name.`);
};

const checkGuard = (guard) => {
  if (guard === "immutable") throw new TypeError("immutable");
};

const addTo = (list, name, value) => { list[list.length] = { __proto__: null, name, lower: toLowerCase(name), value }; };

const getFrom = (list, lower) => {
  let value = null;
  for (let i = 0; i < list.length; i++) {
    if (list[i].lower === lower) value = value === null ? list[i].value : `${value}, ${list[i].value}`;
  }
  return value;
};

// deleteFrom removes the entries of a name, and reports whether there were any.
const deleteFrom = (list, lower) => {
  let kept = 0;
  for (let i = 0; i < list.length; i++) if (list[i].lower !== lower) list[kept++] = list[i];
  const found = kept < list.length;
  list.length = kept;
  return found;
};

const setIn = (list, name, value) => {
  const lower = toLowerCase(name);
  let at = -1;
  let kept = 0;
  for (let i = 0; i < list.length; i++) {
    if (list[i].lower !== lower) {
      list[kept++] = list[i];
    } else if (at === -1) {
      at = kept;
      list[kept++] = { __proto__: null, name: list[i].name, lower, value };
    }
  }
  list.length = kept;
  if (at === -1) addTo(list, name, value);
};

const copyList = (list) => {
  const copy = newList();
  for (let i = 0; i < list.length; i++) copy[i] = list[i];
  return copy;
};

// sortAndCombine returns the pairs in the order of iteration. Only set-cookie has a pair for
// each of its values.
const sortAndCombine = (list) => {
  const order = newList();
  for (let i = 0; i < list.length; i++) order[i] = { __proto__: null, name: list[i].lower, value: list[i].value, at: i };
  sort(order, (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.at - b.at));
  const pairs = newList();
  for (let i = 0; i < order.length; i++) {
    const { name, value } = order[i];
    const last = pairs.length - 1;
    if (last >= 0 && pairs[last].name === name && name !== "set-cookie") pairs[last].value += `, ${value}`;
    else pairs[pairs.length] = { __proto__: null, name, value };
  }
  return pairs;
};

const append = (list, guard, name, value) => {
  value = trimValue(value);
  checkName(name, "append");
  if (isBadValue(value)) throw new TypeError(`Headers.append: "${value}" is an invalid header value.`);
  checkGuard(guard);
  addTo(list, name, value);
};

// fill appends what a HeadersInit contains.
const fill = (list, guard, init) => {
  if (!isObject(init)) {
    throw new TypeError("Headers constructor: Argument 1 could not be converted to one of: sequence<sequence<ByteString>>, record<ByteString, ByteString>.");
  }
  const pairs = newList();
  const method = iteratorOf(init);
  if (method !== undefined) {
    toSequence(init, method, (item) => {
      const inside = iteratorOf(item);
      if (inside === undefined) throw new TypeError("Headers constructor: a name/value pair is not iterable.");
      pairs[pairs.length] = toSequence(item, inside, toByteString);
    });
  } else {
    const keys = ReflectOwnKeys(init);
    for (let i = 0; i < keys.length; i++) {
      const property = ObjectGetOwnPropertyDescriptor(init, keys[i]);
      if (property === undefined || !property.enumerable) continue;
      const pair = newList();
      pair[0] = toByteString(keys[i]);
      pair[1] = toByteString(init[keys[i]]);
      pairs[pairs.length] = pair;
    }
  }
  for (let i = 0; i < pairs.length; i++) {
    if (pairs[i].length !== 2) throw new TypeError(`Headers constructor: expected name/value pair to be length 2, found ${pairs[i].length}.`);
    append(list, guard, pairs[i][0], pairs[i][1]);
  }
};

let stateOf;
let wrap;

class Headers {
  #state = { __proto__: null, list: newList(), guard: "none", pairs: undefined };

  static {
    const isOwn = (value) => isObject(value) && #state in value;
    refuseClones(isOwn);
    stateOf = (headers) => {
      if (!isOwn(headers)) throw illegalInvocation();
      return headers.#state;
    };
    wrap = (list, guard) => {
      const headers = new Headers();
      headers.#state.list = list;
      headers.#state.guard = guard;
      return headers;
    };
  }

  constructor(init = undefined) {
    if (init !== undefined) fill(this.#state.list, this.#state.guard, init);
  }

  append(name, value) {
    const state = stateOf(this);
    countArguments(arguments, 2, "Headers.append");
    const key = toByteString(name);
    append(state.list, state.guard, key, toByteString(value));
    state.pairs = undefined;
  }

  delete(name) {
    const state = stateOf(this);
    countArguments(arguments, 1, "Headers.delete");
    const key = toByteString(name);
    checkName(key, "delete");
    checkGuard(state.guard);
    deleteFrom(state.list, toLowerCase(key));
    state.pairs = undefined;
  }

  get(name) {
    const { list } = stateOf(this);
    countArguments(arguments, 1, "Headers.get");
    const key = toByteString(name);
    checkName(key, "get");
    return getFrom(list, toLowerCase(key));
  }

  has(name) {
    const { list } = stateOf(this);
    countArguments(arguments, 1, "Headers.has");
    const key = toByteString(name);
    checkName(key, "has");
    return getFrom(list, toLowerCase(key)) !== null;
  }

  set(name, value) {
    const state = stateOf(this);
    countArguments(arguments, 2, "Headers.set");
    const key = toByteString(name);
    const text = trimValue(toByteString(value));
    checkName(key, "set");
    if (isBadValue(text)) throw new TypeError(`Headers.set: "${text}" is an invalid header value.`);
    checkGuard(state.guard);
    setIn(state.list, key, text);
    state.pairs = undefined;
  }

  getSetCookie() {
    const { list } = stateOf(this);
    const values = [];
    for (let i = 0; i < list.length; i++) if (list[i].lower === "set-cookie") define(values, values.length, list[i].value, true);
    return values;
  }
}
expose(Headers, "Headers");
definePairs(Headers, "Headers", (headers) => {
  const state = stateOf(headers);
  if (state.pairs === undefined) state.pairs = sortAndCombine(state.list);
  return state.pairs;
});
defineLevelInspection(Headers, "Headers", (headers) => {
  const { list } = stateOf(headers);
  const shown = {};
  for (let i = 0; i < list.length; i++) {
    const { name, lower } = list[i];
    define(shown, name, getFrom(list, lower), true);
  }
  return shown;
});

// What the other parts use. listOf returns the list of an object, which must not be changed
// without changed(headers).
const internal = {
  __proto__: null,
  listOf: (headers) => stateOf(headers).list,
  changed: (headers) => { stateOf(headers).pairs = undefined; },
  wrap, fill, addTo, getFrom, setIn, deleteFrom, copyList,
};
return { Headers, internal };
