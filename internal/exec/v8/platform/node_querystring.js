// node:querystring.

const { ArrayIsArray, bufferOf, isObject, lengthOf, ObjectCreate, ObjectDefineProperty, ObjectKeys, String, Uint8Array } = platform;
const { text, toModule } = platform.load("node_tools");
const { toText, toBytes } = platform.load("node_encodings");
const { indexOf, slice } = text;
const isFinite = platform.original("Number", "isFinite");
const encodeComponent = platform.original("globalThis", "encodeURIComponent");
const decodeComponent = platform.original("globalThis", "decodeURIComponent");
const wellFormed = platform.method("String.prototype", "isWellFormed");

const escape = (value) => {
  value = typeof value === "string" ? value : isObject(value) ? String(value) : `${value}`;
  if (!wellFormed(value)) throw platform.load("node_tools").nodeError(platform.original("globalThis", "URIError"), "ERR_INVALID_URI", "URI malformed");
  return encodeComponent(value);
};

const hex = (code) => (code >= 48 && code <= 57 ? code - 48 : code >= 97 && code <= 102 ? code - 87 : code >= 65 && code <= 70 ? code - 55 : -1);

// unescapeBytes decodes the escapes that are valid in the bytes of a string.
const unescapeBytes = (value, encoding) => {
  const bytes = toBytes(value, encoding);
  const length = lengthOf(bytes);
  const out = new Uint8Array(length);
  let size = 0;
  for (let i = 0; i < length; i++) {
    const high = bytes[i] === 37 && i + 2 < length ? hex(bytes[i + 1]) : -1;
    const low = high < 0 ? -1 : hex(bytes[i + 2]);
    if (low < 0) out[size++] = bytes[i];
    else {
      out[size++] = 16 * high + low;
      i += 2;
    }
  }
  return new Uint8Array(bufferOf(out), 0, size);
};

const unescapeText = (value) => {
  const bytes = unescapeBytes(value, "utf8");
  return toText(bytes, "utf8", 0, lengthOf(bytes));
};

const unescape = (value) => {
  try {
    return decodeComponent(value);
  } catch {
    return unescapeText(value);
  }
};

const toPrimitive = (value) => {
  if (typeof value === "string") return value;
  if (typeof value === "number" && isFinite(value)) return `${value}`;
  if (typeof value === "bigint") return `${value}`;
  return typeof value === "boolean" ? (value ? "true" : "false") : "";
};

const stringify = (object, separator, equals, options) => {
  const sep = separator || "&";
  const eq = equals || "=";
  if (!isObject(object) || typeof object === "function") return "";
  const encode = isObject(options) && typeof options.encodeURIComponent === "function" ? options.encodeURIComponent : querystring.escape;
  const keys = ObjectKeys(object);
  let out = "";
  const add = (key, value) => { out += `${out === "" ? "" : sep}${encode(toPrimitive(key))}${eq}${encode(toPrimitive(value))}`; };
  for (let i = 0; i < keys.length; i++) {
    const value = object[keys[i]];
    if (!ArrayIsArray(value)) add(keys[i], value);
    else for (let j = 0; j < value.length; j++) add(keys[i], value[j]);
  }
  return out;
};

const parse = (query, separator, equals, options) => {
  const out = ObjectCreate(null);
  if (typeof query !== "string" || query.length === 0) return out;
  const sep = separator ? `${separator}` : "&";
  const eq = equals ? `${equals}` : "=";
  const max = isObject(options) && typeof options.maxKeys === "number" ? options.maxKeys : 1000;
  const given = isObject(options) && typeof options.decodeURIComponent === "function" ? options.decodeURIComponent : querystring.unescape;
  const decode = (value) => {
    value = platform.replaceText(value, "+", " ");
    try {
      return given(value);
    } catch {
      return unescapeText(value);
    }
  };
  const parts = platform.splitText(query, sep);
  let count = 0;
  for (let i = 0; i < parts.length; i++) {
    if (parts[i] === "") continue;
    if (max > 0 && count++ === max) break;
    const at = indexOf(parts[i], eq);
    const key = decode(at === -1 ? parts[i] : slice(parts[i], 0, at));
    const value = at === -1 ? "" : decode(slice(parts[i], at + eq.length));
    if (!(key in out)) out[key] = value;
    else if (ArrayIsArray(out[key])) ObjectDefineProperty(out[key], out[key].length, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
    else out[key] = [out[key], value];
  }
  return out;
};

const querystring = {
  unescapeBuffer(value) {
    return platform.load("node_buffer").toBuffer(unescapeBytes(`${value}`, "latin1"));
  },
  unescape(value) { return unescape(`${value}`); },
  escape(value) { return escape(value); },
  stringify(object, separator, equals, options) { return stringify(object, separator, equals, options); },
  encode: undefined,
  parse(query, separator, equals, options) { return parse(query, separator, equals, options); },
  decode: undefined,
};
querystring.encode = querystring.stringify;
querystring.decode = querystring.parse;

return { exports: toModule(querystring) };
