// URLs and their parameters. The worker parses URLs; a URL keeps its text and where the parts of
// the text begin and end.

const {
  ReflectApply, IteratorPrototype, ObjectDefineProperty, TypeError, codedError, compute, defineHidden, hasOwn, inspectCustom, inspectWith, invalidArgument, isObject,
  lengthOf, newList, setMeta, splitText, replaceText, SymbolIterator,
} = platform;
const { illegalInvocation, requireArguments, toUSVString, toSequence, iteratorOf, expose, inner, refuseClones } = platform.load("webidl");

const slice = platform.method("String.prototype", "slice");
const indexOf = platform.method("String.prototype", "indexOf");
const charCodeAt = platform.method("String.prototype", "charCodeAt");
const parseInteger = platform.original("globalThis", "parseInt");
const encodeURIComponent = platform.original("globalThis", "encodeURIComponent");
const decodeURIComponent = platform.original("globalThis", "decodeURIComponent");
const sort = platform.method("Array.prototype", "sort");
const subarray = platform.method("TypedArray.prototype", "subarray");
const encoder = new (platform.provided("TextEncoder"))();
const decoder = new (platform.provided("TextDecoder"))("utf-8", { __proto__: null, ignoreBOM: true });
const encode = platform.method("TextEncoder.prototype", "encode");
const decode = platform.method("TextDecoder.prototype", "decode");
const propertyIsEnumerable = platform.method("Object.prototype", "propertyIsEnumerable");
const mapGet = platform.method("Map.prototype", "get");
const mapSet = platform.method("Map.prototype", "set");

// ---- application/x-www-form-urlencoded --------------------------------------------

const decodePart = (text) => {
  text = replaceText(text, "+", " ");
  if (indexOf(text, "%") === -1) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    // It has other percent signs, or bytes that are no UTF-8.
  }
  const bytes = encode(encoder, text);
  const size = lengthOf(bytes);
  let length = 0;
  const digit = (code) => (code >= 48 && code <= 57 ? code - 48 : (code | 32) >= 97 && (code | 32) <= 102 ? (code | 32) - 87 : -1);
  for (let i = 0; i < size; i++) {
    const high = bytes[i] === 37 && i + 2 < size ? digit(bytes[i + 1]) : -1;
    const low = high === -1 ? -1 : digit(bytes[i + 2]);
    bytes[length++] = low === -1 ? bytes[i] : high * 16 + low;
    if (low !== -1) i += 2;
  }
  return decode(decoder, subarray(bytes, 0, length));
};

const encodePart = (text) => {
  let out = encodeURIComponent(text);
  out = replaceText(replaceText(replaceText(out, "%20", "+"), "!", "%21"), "'", "%27");
  return replaceText(replaceText(replaceText(out, "(", "%28"), ")", "%29"), "~", "%7E");
};

// parseQuery returns the names and values in turn.
const parseQuery = (text) => {
  const list = newList();
  if (text === "") return list;
  const parts = splitText(text, "&");
  for (let i = 0; i < parts.length; i++) {
    if (parts[i] === "") continue;
    const at = indexOf(parts[i], "=");
    list[list.length] = decodePart(at === -1 ? parts[i] : slice(parts[i], 0, at));
    list[list.length] = at === -1 ? "" : decodePart(slice(parts[i], at + 1));
  }
  return list;
};

const serializeQuery = (list) => {
  let out = "";
  for (let i = 0; i < list.length; i += 2) out += `${i > 0 ? "&" : ""}${encodePart(list[i])}=${encodePart(list[i + 1])}`;
  return out;
};

// ---- parameters -------------------------------------------------------------------

const notIterable = "Query pairs must be iterable";
const noPair = () => codedError(TypeError, "ERR_INVALID_TUPLE", "Each query pair must be an iterable [name, value] tuple");

const parametersOf = (init) => {
  if (!isObject(init)) {
    const text = toUSVString(init);
    return parseQuery(charCodeAt(text, 0) === 63 ? slice(text, 1) : text);
  }
  const list = newList();
  const method = iteratorOf(init, notIterable);
  if (method !== undefined) {
    const pairs = toSequence(init, method, (pair) => {
      const inside = isObject(pair) ? iteratorOf(pair, notIterable) : undefined;
      if (inside === undefined) throw noPair();
      const items = toSequence(pair, inside, (item) => item);
      if (items.length !== 2) throw noPair();
      const name = toUSVString(items[0]);
      return { __proto__: null, name, value: toUSVString(items[1]) };
    });
    for (let i = 0; i < pairs.length; i++) {
      list[list.length] = pairs[i].name;
      list[list.length] = pairs[i].value;
    }
    return list;
  }
  // Two names that are equal as USVStrings have the value of the last one.
  const places = new platform.Map();
  const keys = platform.ReflectOwnKeys(init);
  for (let i = 0; i < keys.length; i++) {
    if (!propertyIsEnumerable(init, keys[i])) continue;
    const name = toUSVString(keys[i]);
    const value = toUSVString(init[keys[i]]);
    const place = mapGet(places, name);
    if (place !== undefined) list[place] = value;
    else {
      mapSet(places, name, list.length + 1);
      list[list.length] = name;
      list[list.length] = value;
    }
  }
  return list;
};

// paramsState returns the state of parameters: their list, and the URL that they belong to.
let paramsState;

class URLSearchParams {
  #state = { __proto__: null, list: undefined, url: undefined };
  constructor(init = "") {
    this.#state.list = parametersOf(init === null ? "null" : init);
  }
  static isOwn(value) { return isObject(value) && #state in value; }
  static state(value) {
    if (!isParams(value)) throw illegalInvocation("URLSearchParams");
    return value.#state;
  }

  append(name, value) {
    const state = paramsState(this);
    requireArguments(arguments, "name", "value");
    name = toUSVString(name);
    value = toUSVString(value);
    const { list } = state;
    list[list.length] = name;
    list[list.length] = value;
    update(state);
  }
  delete(name, value) {
    const state = paramsState(this);
    requireArguments(arguments, "name");
    name = toUSVString(name);
    if (value !== undefined) value = toUSVString(value);
    keep(state, (n, v) => n !== name || (value !== undefined && v !== value));
    update(state);
  }
  get(name) {
    const { list } = paramsState(this);
    requireArguments(arguments, "name");
    name = toUSVString(name);
    for (let i = 0; i < list.length; i += 2) if (list[i] === name) return list[i + 1];
    return null;
  }
  getAll(name) {
    const { list } = paramsState(this);
    requireArguments(arguments, "name");
    name = toUSVString(name);
    const values = [];
    for (let i = 0; i < list.length; i += 2) if (list[i] === name) define(values, values.length, list[i + 1]);
    return values;
  }
  has(name, value) {
    const { list } = paramsState(this);
    requireArguments(arguments, "name");
    name = toUSVString(name);
    if (value !== undefined) value = toUSVString(value);
    for (let i = 0; i < list.length; i += 2) if (list[i] === name && (value === undefined || list[i + 1] === value)) return true;
    return false;
  }
  set(name, value) {
    const state = paramsState(this);
    requireArguments(arguments, "name", "value");
    name = toUSVString(name);
    value = toUSVString(value);
    const { list } = state;
    let at = 0;
    while (at < list.length && list[at] !== name) at += 2;
    if (at < list.length) {
      let isFirst = true;
      list[at + 1] = value;
      keep(state, (n) => {
        if (n !== name) return true;
        const is = isFirst;
        isFirst = false;
        return is;
      });
    } else {
      list[at] = name;
      list[at + 1] = value;
    }
    update(state);
  }
  sort() {
    const state = paramsState(this);
    const { list } = state;
    const places = [];
    for (let i = 0; i < list.length; i += 2) define(places, places.length, i);
    sort(places, (a, b) => (list[a] < list[b] ? -1 : list[a] > list[b] ? 1 : a - b)); // by code units
    const sorted = newList();
    for (let i = 0; i < places.length; i++) {
      sorted[sorted.length] = list[places[i]];
      sorted[sorted.length] = list[places[i] + 1];
    }
    state.list = sorted;
    update(state);
  }
  forEach(callback, thisArg) {
    const state = paramsState(this);
    if (typeof callback !== "function") throw invalidArgument("callback", "of type function", callback);
    for (let i = 0; i < state.list.length; i += 2) ReflectApply(callback, thisArg, [state.list[i + 1], state.list[i], this]);
  }
  entries() { return iterate(paramsState(this), "entries"); }
  keys() { return iterate(paramsState(this), "keys"); }
  values() { return iterate(paramsState(this), "values"); }
  get size() { return paramsState(this).list.length / 2; }
  toString() { return serializeQuery(paramsState(this).list); }
}
const { isOwn: isParams } = URLSearchParams;
paramsState = URLSearchParams.state;
delete URLSearchParams.isOwn;
delete URLSearchParams.state;
refuseClones((value) => isParams(value) || urlState(value) !== undefined);
expose(URLSearchParams, "URLSearchParams", { constructor: 0, delete: 1, has: 1, forEach: 1 });
defineHidden(URLSearchParams.prototype, SymbolIterator, URLSearchParams.prototype.entries);

const define = (array, key, value) => ObjectDefineProperty(array, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });

const keep = (state, isKept) => {
  const { list } = state;
  let length = 0;
  for (let i = 0; i < list.length; i += 2) {
    if (!isKept(list[i], list[i + 1])) continue;
    list[length++] = list[i];
    list[length++] = list[i + 1];
  }
  list.length = length;
};

// update writes the parameters into the query of their URL.
const update = (state) => {
  if (state.url === undefined) return;
  const query = serializeQuery(state.list);
  const { url } = state;
  const { href, at } = url;
  const search = query === "" ? "" : `?${query}`;
  url.href = slice(href, 0, at[pathEnd]) + search + slice(href, at[searchEnd]);
  at[searchEnd] = at[pathEnd] + search.length;
};

// Iterators look at the parameters as they are when the next item is read.
let iteratorState;
class ParametersIterator {
  #state;
  constructor(state, kind) { this.#state = { __proto__: null, state, kind, next: 0 }; }
  static state(value) {
    if (!isObject(value) || !(#state in value)) throw illegalInvocation("URLSearchParamsIterator");
    return value.#state;
  }
}
iteratorState = ParametersIterator.state;
const iteratorPrototype = ParametersIterator.prototype;
delete iteratorPrototype.constructor;
platform.ObjectSetPrototypeOf(iteratorPrototype, IteratorPrototype);
ObjectDefineProperty(iteratorPrototype, "next", {
  __proto__: null,
  value: {
    next() {
      const state = iteratorState(this);
      const { list } = state.state;
      if (state.next >= list.length) return { value: undefined, done: true };
      const value = item(list, state.next, state.kind);
      state.next += 2;
      return { value, done: false };
    },
  }.next,
  writable: true, enumerable: true, configurable: true,
});
platform.setTag(iteratorPrototype, "URLSearchParams Iterator");

const iterate = (state, kind) => new ParametersIterator(state, kind);
const item = (list, at, kind) => (kind === "entries" ? [list[at], list[at + 1]] : kind === "keys" ? list[at] : list[at + 1]);

const showList = (title, parts, isBroken, end) => {
  if (parts.length === 0) return `${title} {}`;
  return isBroken ? `${title} {\n  ${platform.listJoin(parts, ",\n  ")}${end}` : `${title} { ${platform.listJoin(parts, ", ")} }`;
};
const inspection = (fn) => setMeta(fn, "[nodejs.util.inspect.custom]", 2);

defineHidden(URLSearchParams.prototype, inspectCustom, inspection({ inspect(depth, options) {
  const { list } = paramsState(this);
  if (typeof depth === "number" && depth < 0) return "[Object]";
  const parts = newList();
  let length = -2;
  for (let i = 0; i < list.length; i += 2) {
    const text = `${inspectWith(list[i], inner(options))} => ${inspectWith(list[i + 1], inner(options))}`;
    parts[parts.length] = text;
    length += text.length + 2;
  }
  const width = isObject(options) && typeof options.breakLength === "number" ? options.breakLength : 80;
  return showList("URLSearchParams", parts, length > width, " }");
} }.inspect));

defineHidden(iteratorPrototype, inspectCustom, inspection({ inspect(depth, options) {
  const { state, kind, next } = iteratorState(this);
  if (typeof depth === "number" && depth < 0) return "[Object]";
  const parts = newList();
  let isBroken = false;
  for (let i = next; i < state.list.length; i += 2) {
    const text = inspectWith(item(state.list, i, kind), inner(options));
    parts[parts.length] = text;
    if (indexOf(text, "\n") !== -1) isBroken = true;
  }
  return showList("URLSearchParams Iterator", parts, isBroken, " }");
} }.inspect));

// ---- URLs -------------------------------------------------------------------------

// Places in the text of a URL, as the worker returns them.
const protocolEnd = 0;
const usernameStart = 1;
const usernameEnd = 2;
const passwordStart = 3;
const passwordEnd = 4;
const hostStart = 5;
const hostEnd = 6;
const portStart = 7;
const portEnd = 8;
const pathStart = 9;
const pathEnd = 10;
const searchEnd = 11;

const readRecord = (text) => {
  const lineEnd = indexOf(text, "\n");
  const numbers = splitText(slice(text, 0, lineEnd), ",");
  const at = newList();
  for (let i = 0; i < numbers.length; i++) at[i] = parseInteger(numbers[i], 10);
  return { __proto__: null, href: slice(text, lineEnd + 1), at, params: undefined };
};

// parse returns the record of a URL, or undefined if it is invalid.
const parse = (url, base) => {
  try {
    return readRecord(base === undefined ? compute("url.parse", url) : compute("url.resolve", url, base));
  } catch {
    return undefined;
  }
};

const invalidURL = (input, base) => {
  const error = codedError(TypeError, "ERR_INVALID_URL", "Invalid URL");
  define(error, "input", input);
  if (base !== undefined) define(error, "base", base);
  return error;
};

// urlState returns the record of a URL, or undefined for another value.
let urlState;

class URL {
  #state;
  constructor(url, base) {
    requireArguments(arguments, "url");
    url = toUSVString(url);
    if (base !== undefined) base = toUSVString(base);
    this.#state = parse(url, base);
    if (this.#state === undefined) throw invalidURL(url, base);
  }
  static state(value) { return isObject(value) && #state in value ? value.#state : undefined; }

  static canParse(url, base) {
    requireArguments(arguments, "url");
    url = toUSVString(url);
    return parse(url, base === undefined ? undefined : toUSVString(base)) !== undefined;
  }
  static parse(url, base) {
    requireArguments(arguments, "url");
    url = toUSVString(url);
    if (base !== undefined) base = toUSVString(base);
    if (parse(url, base) === undefined) return null;
    return new URL(url, base);
  }

  get href() { return read(this).href; }
  set href(value) {
    const state = read(this);
    value = toUSVString(value);
    const parsed = parse(value, undefined);
    if (parsed === undefined) throw invalidURL(value);
    replace(state, parsed);
  }
  get origin() { return originOf(read(this)); }
  get protocol() { return part(read(this), 0, protocolEnd); }
  set protocol(value) { change(this, "protocol", value); }
  get username() { return part(read(this), usernameStart, usernameEnd); }
  set username(value) { change(this, "username", value); }
  get password() { return part(read(this), passwordStart, passwordEnd); }
  set password(value) { change(this, "password", value); }
  get host() { return part(read(this), hostStart, portEnd); }
  set host(value) { change(this, "host", value); }
  get hostname() { return part(read(this), hostStart, hostEnd); }
  set hostname(value) { change(this, "hostname", value); }
  get port() { return part(read(this), portStart, portEnd); }
  set port(value) { change(this, "port", value); }
  get pathname() { return part(read(this), pathStart, pathEnd); }
  set pathname(value) { change(this, "pathname", value); }
  get search() {
    const text = part(read(this), pathEnd, searchEnd);
    return text === "?" ? "" : text;
  }
  set search(value) { change(this, "search", value); }
  get searchParams() {
    const state = read(this);
    if (state.params === undefined) {
      state.params = new URLSearchParams();
      const params = paramsState(state.params);
      params.url = state;
      params.list = queryOf(state);
    }
    return state.params;
  }
  get hash() {
    const { href, at } = read(this);
    const text = slice(href, at[searchEnd]);
    return text === "#" ? "" : text;
  }
  set hash(value) { change(this, "hash", value); }
  toString() { return read(this).href; }
  toJSON() { return read(this).href; }
}
urlState = URL.state;
delete URL.state;
expose(URL, "URL", { constructor: 1, "static canParse": 1, "static parse": 1 });

const read = (value) => {
  const state = urlState(value);
  if (state === undefined) throw illegalInvocation("URL");
  return state;
};

// part returns the text between two places.
const part = ({ href, at }, from, to) => slice(href, from === 0 ? 0 : at[from], at[to]);

const replace = (state, parsed) => {
  state.href = parsed.href;
  state.at = parsed.at;
  if (state.params !== undefined) paramsState(state.params).list = queryOf(state);
};

const queryOf = (state) => {
  const text = part(state, pathEnd, searchEnd);
  return parseQuery(text === "" ? "" : slice(text, 1));
};

const change = (url, member, value) => {
  const state = read(url);
  value = toUSVString(value);
  replace(state, readRecord(compute("url.set", state.href, member, value)));
};

const originOf = (state) => {
  switch (part(state, 0, protocolEnd)) {
    case "ftp:": case "http:": case "https:": case "ws:": case "wss:":
      return `${part(state, 0, protocolEnd)}//${part(state, hostStart, portEnd)}`;
    case "blob:": {
      const parsed = parse(part(state, pathStart, pathEnd), undefined);
      if (parsed === undefined) return "null";
      const protocol = part(parsed, 0, protocolEnd);
      return protocol === "http:" || protocol === "https:" ? originOf(parsed) : "null";
    }
    default:
      return "null";
  }
};

defineHidden(URL.prototype, inspectCustom, inspection({ inspect(depth, options) {
  const state = urlState(this);
  if (state === undefined || (typeof depth === "number" && depth < 0)) return this;
  const fields = { __proto__: null };
  for (let i = 0; i < members.length; i++) fields[members[i]] = ReflectApply(getters[members[i]], this, []);
  platform.ObjectSetPrototypeOf(fields, platform.original("globalThis", "Object").prototype);
  const copy = inner(options);
  if (hasOwn(copy, "depth") && typeof copy.depth === "number") copy.depth++;
  const { constructor } = this;
  const title = typeof constructor === "function" && typeof constructor.name === "string" ? constructor.name : "URL";
  return `${title} ${inspectWith(fields, copy)}`;
} }.inspect));

const getters = { __proto__: null };
const members = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "searchParams", "hash"];
for (let i = 0; i < members.length; i++) getters[members[i]] = platform.ObjectGetOwnPropertyDescriptor(URL.prototype, members[i]).get;

return { URL, URLSearchParams, parse, urlState, parseQuery, serializeQuery, paramsState, isParams };
