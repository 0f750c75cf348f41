// URL patterns.

const { TypeError, compute, isObject } = platform;
const { illegalInvocation, toUSVString, expose, defineInspection } = platform.load("webidl");
const { tokenize, compile } = platform.load("urlpatternparse");
const { URL, parse } = platform.load("url"); // first, or it has no getters

const slice = platform.method("String.prototype", "slice");
const lastIndexOf = platform.method("String.prototype", "lastIndexOf");
const toLowerCase = platform.method("String.prototype", "toLowerCase");
const exec = platform.method("RegExp.prototype", "exec");
const components = ["protocol", "username", "password", "hostname", "port", "pathname", "search", "hash"];
const getters = { __proto__: null };
for (let i = 0; i < components.length; i++) getters[components[i]] = platform.getter("URL.prototype", components[i]);
const ports = { __proto__: null, http: "80", https: "443", ws: "80", wss: "443", ftp: "21", file: "" };
const specialSchemes = ["http", "https", "ws", "wss", "ftp", "file"];

const plain = { __proto__: null, delimiter: "", prefix: "" };
const ofHostnames = { __proto__: null, delimiter: ".", prefix: "" };
const ofPathnames = { __proto__: null, delimiter: "/", prefix: "/" };

// ---- canonical values -------------------------------------------------------------

const invalid = (name, value) => new TypeError(`Invalid ${name}: ${value}`);

// componentOf returns a component of a URL, without the characters that separate it.
const componentOf = (url, name) => {
  const value = getters[name](url);
  if (name === "protocol") return slice(value, 0, -1);
  return (name === "search" || name === "hash") && value !== "" ? slice(value, 1) : value;
};

const assigned = (url, name, value) => {
  const text = compute("url.set", url, name, value);
  return componentOf(new URL(slice(text, platform.method("String.prototype", "indexOf")(text, "\n") + 1)), name);
};

const canonical = {
  __proto__: null,
  protocol(value) {
    if (value === "") return value;
    if (parse(`${value}://dummy.invalid/`) === undefined || !platform.matches(/^[A-Za-z][A-Za-z0-9+.-]*$/, value)) throw invalid("protocol", value);
    return toLowerCase(value);
  },
  username: (value) => (value === "" ? value : assigned("https://dummy.invalid/", "username", value)),
  password: (value) => (value === "" ? value : assigned("https://dummy.invalid/", "password", value)),
  hostname(value) {
    if (value === "") return value;
    const host = assigned("https://dummy.invalid/", "hostname", value);
    if (host === "dummy.invalid" && toLowerCase(value) !== host) throw invalid("hostname", value);
    return host;
  },
  address(value) {
    if (!platform.matches(/^[0-9A-Fa-f:[\]]*$/, value)) throw invalid("hostname", value);
    return toLowerCase(value);
  },
  port(value, protocol) {
    if (value === "") return value;
    if (!platform.matches(/^[0-9]{1,5}$/, value) || +value > 65535) throw invalid("port", value);
    const port = `${+value}`;
    return protocol !== undefined && protocol in ports && ports[protocol] === port ? "" : port;
  },
  pathname(value) {
    if (value === "") return value;
    const path = assigned("foo://dummy/", "pathname", value[0] === "/" ? value : `/-${value}`);
    return value[0] === "/" ? path : slice(path, 2);
  },
  opaque(value) {
    if (value === "") return value;
    return componentOf(new URL(`data:${value}`), "pathname");
  },
  search: (value) => (value === "" ? value : assigned("foo://dummy/", "search", `?${value}`)),
  hash: (value) => (value === "" ? value : assigned("foo://dummy/", "hash", `#${value}`)),
};

// ---- dictionaries -----------------------------------------------------------------

const escapePattern = (text) => {
  let out = "";
  for (let i = 0; i < text.length; i++) out += platform.matches(/[+*?:{}()\\]/, text[i]) ? `\\${text[i]}` : text[i];
  return out;
};

const isAbsolutePath = (path, isPattern) =>
  path !== "" && (path[0] === "/" || (isPattern && (slice(path, 0, 2) === "\\/" || slice(path, 0, 2) === "{/")));

const readInit = (init) => {
  const fields = { __proto__: null };
  const names = ["baseURL", "hash", "hostname", "password", "pathname", "port", "protocol", "search", "username"];
  for (let i = 0; i < names.length; i++) {
    const value = init[names[i]];
    if (value !== undefined) fields[names[i]] = toUSVString(value);
  }
  return fields;
};

// process returns the components of a dictionary: those of a pattern as they are, those of a URL
// in their canonical form.
const process = (init, isPattern) => {
  const result = { __proto__: null };
  if (!isPattern) for (let i = 0; i < components.length; i++) result[components[i]] = "";
  let base;
  if ("baseURL" in init) {
    base = new URL(init.baseURL);
    const inherit = (name, others) => {
      for (let i = 0; i < others.length; i++) if (others[i] in init) return;
      const value = componentOf(base, name);
      result[name] = isPattern ? escapePattern(value) : value;
    };
    inherit("protocol", ["protocol"]);
    if (!isPattern) {
      inherit("username", ["protocol", "hostname", "port", "username"]);
      inherit("password", ["protocol", "hostname", "port", "username", "password"]);
    }
    inherit("hostname", ["protocol", "hostname"]);
    inherit("port", ["protocol", "hostname", "port"]);
    inherit("pathname", ["protocol", "hostname", "port", "pathname"]);
    inherit("search", ["protocol", "hostname", "port", "pathname", "search"]);
    inherit("hash", ["protocol", "hostname", "port", "pathname", "search", "hash"]);
  }
  const convert = (name, value, kind, extra) => { result[name] = isPattern ? value : canonical[kind](value, extra); };
  if ("protocol" in init) {
    const value = init.protocol;
    convert("protocol", value[value.length - 1] === ":" ? slice(value, 0, -1) : value, "protocol");
  }
  if ("username" in init) convert("username", init.username, "username");
  if ("password" in init) convert("password", init.password, "password");
  if ("hostname" in init) convert("hostname", init.hostname, "hostname");
  const protocol = result.protocol === undefined ? "" : result.protocol;
  if ("port" in init) convert("port", init.port, "port", protocol);
  if ("pathname" in init) {
    let path = init.pathname;
    const basePath = base === undefined ? "" : componentOf(base, "pathname");
    if (basePath[0] === "/" && !isAbsolutePath(path, isPattern)) {
      const directory = slice(basePath, 0, lastIndexOf(basePath, "/") + 1);
      path = (isPattern ? escapePattern(directory) : directory) + path;
    }
    convert("pathname", path, protocol === "" || protocol in ports ? "pathname" : "opaque");
  }
  if ("search" in init) convert("search", init.search[0] === "?" ? slice(init.search, 1) : init.search, "search");
  if ("hash" in init) convert("hash", init.hash[0] === "#" ? slice(init.hash, 1) : init.hash, "hash");
  return result;
};

// ---- patterns as one string -------------------------------------------------------

const early = ["protocol", "authority", "username", "password"];
const beforePath = ["protocol", "authority", "username", "password", "hostname", "port"];
const includes = platform.listIncludes;

// splitPattern returns the components of a pattern that is one string.
const splitPattern = (input) => {
  const tokens = tokenize(input, true);
  const result = { __proto__: null };
  let state = "init";
  let start = 0;
  let at = 0;
  let step = 1;
  let depth = 0;
  let brackets = 0;
  let isSpecial = false;

  const isChar = (i, value) => {
    const token = tokens[i < tokens.length ? i : tokens.length - 1];
    return token.value === value && (token.type === "char" || token.type === "escaped" || token.type === "invalid");
  };
  const startsSearch = () => {
    if (isChar(at, "?")) return true;
    if (tokens[at].value !== "?") return false;
    if (at === 0) return true;
    const { type } = tokens[at - 1];
    return type !== "name" && type !== "regexp" && type !== "close" && type !== "asterisk";
  };
  const text = () => slice(input, tokens[start].index, tokens[at].index);
  const change = (next, skip) => {
    if (state !== "init" && state !== "authority" && state !== "done") result[state] = text();
    if (state !== "init" && next !== "done") {
      if (includes(early, state) && includes(["port", "pathname", "search", "hash"], next) && !("hostname" in result)) result.hostname = "";
      if (includes(beforePath, state) && (next === "search" || next === "hash") && !("pathname" in result)) result.pathname = isSpecial ? "/" : "";
      if ((includes(beforePath, state) || state === "pathname") && next === "hash" && !("search" in result)) result.search = "";
    }
    state = next;
    at += skip;
    start = at;
    step = 0;
  };
  const rewind = (next) => {
    at = start;
    step = 0;
    state = next;
  };
  const afterAuthority = () => {
    if (isChar(at, "/")) change("pathname", 0);
    else if (startsSearch()) change("search", 1);
    else if (isChar(at, "#")) change("hash", 1);
  };

  while (at < tokens.length) {
    step = 1;
    const { type } = tokens[at];
    if (type === "end") {
      if (state === "init") {
        at = start;
        if (isChar(at, "#")) change("hash", 1);
        else if (startsSearch()) change("search", 1);
        else change("pathname", 0);
        continue;
      }
      if (state === "authority") {
        rewind("hostname");
        continue;
      }
      change("done", 0);
      break;
    }
    if (type === "open") {
      depth++;
      at++;
      continue;
    }
    if (depth > 0) {
      if (type === "close") depth--;
      else {
        at++;
        continue;
      }
    }
    if (state === "init") {
      if (isChar(at, ":")) rewind("protocol");
    } else if (state === "protocol") {
      if (isChar(at, ":")) {
        const { expression } = compile(text(), plain, canonical.protocol, false);
        for (let i = 0; i < specialSchemes.length; i++) if (exec(expression, specialSchemes[i]) !== null) isSpecial = true;
        if (isChar(at + 1, "/") && isChar(at + 2, "/")) change("authority", 3);
        else change(isSpecial ? "authority" : "pathname", 1);
      }
    } else if (state === "authority") {
      if (isChar(at, "@")) rewind("username");
      else if (isChar(at, "/") || startsSearch() || isChar(at, "#")) rewind("hostname");
    } else if (state === "username" || state === "password") {
      if (state === "username" && isChar(at, ":")) change("password", 1);
      else if (isChar(at, "@")) change("hostname", 1);
    } else if (state === "hostname") {
      if (isChar(at, "[")) brackets++;
      else if (isChar(at, "]")) brackets--;
      else if (isChar(at, ":") && brackets === 0) change("port", 1);
      else afterAuthority();
    } else if (state === "port") afterAuthority();
    else if (state === "pathname") {
      if (startsSearch()) change("search", 1);
      else if (isChar(at, "#")) change("hash", 1);
    } else if (state === "search" && isChar(at, "#")) change("hash", 1);
    at += step;
  }
  if ("hostname" in result && !("port" in result)) result.port = "";
  return result;
};

// ---- the interface ----------------------------------------------------------------

const isAddressPattern = (text) => text.length >= 2 && (text[0] === "[" || slice(text, 0, 2) === "{[" || slice(text, 0, 2) === "\\[");

const create = (input, base, ignoreCase) => {
  let init;
  if (isObject(input)) {
    if (base !== undefined) throw new TypeError("A base URL is only possible for a pattern that is a string");
    init = readInit(input);
  } else {
    init = splitPattern(toUSVString(input));
    if (base === undefined && !("protocol" in init)) throw new TypeError("A relative pattern needs a base URL");
    if (base !== undefined) init.baseURL = base;
  }
  const fields = process(init, true);
  for (let i = 0; i < components.length; i++) if (fields[components[i]] === undefined) fields[components[i]] = "*";
  if (fields.protocol in ports && fields.port === ports[fields.protocol]) fields.port = "";
  const made = { __proto__: null };
  made.protocol = compile(fields.protocol, plain, canonical.protocol, false);
  made.username = compile(fields.username, plain, canonical.username, false);
  made.password = compile(fields.password, plain, canonical.password, false);
  made.hostname = compile(fields.hostname, ofHostnames, isAddressPattern(fields.hostname) ? canonical.address : canonical.hostname, false);
  made.port = compile(fields.port, plain, (value) => canonical.port(value), false);
  let isSpecial = false;
  for (let i = 0; i < specialSchemes.length; i++) if (exec(made.protocol.expression, specialSchemes[i]) !== null) isSpecial = true;
  made.pathname = isSpecial ? compile(fields.pathname, ofPathnames, canonical.pathname, ignoreCase) : compile(fields.pathname, plain, canonical.opaque, ignoreCase);
  made.search = compile(fields.search, plain, canonical.search, ignoreCase);
  made.hash = compile(fields.hash, plain, canonical.hash, ignoreCase);
  return made;
};

// match returns the result of exec, or null.
const match = (made, input, base) => {
  const inputs = [];
  let fields;
  const keep = (value) => platform.ObjectDefineProperty(inputs, inputs.length, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  if (isObject(input)) {
    if (base !== undefined) throw new TypeError("A base URL is only possible for a URL that is a string");
    const init = readInit(input);
    keep({ ...init });
    try {
      fields = process(init, false);
    } catch {
      return null;
    }
  } else {
    const text = toUSVString(input);
    keep(text);
    if (base !== undefined) keep(base);
    if (parse(text, base) === undefined) return null;
    const url = new URL(text, base);
    fields = { __proto__: null };
    for (let i = 0; i < components.length; i++) fields[components[i]] = componentOf(url, components[i]);
  }
  const result = { inputs };
  for (let i = 0; i < components.length; i++) {
    const name = components[i];
    const found = exec(made[name].expression, fields[name]);
    if (found === null) return null;
    const groups = {};
    const { names } = made[name];
    for (let k = 0; k < names.length; k++) {
      platform.ObjectDefineProperty(groups, names[k], { __proto__: null, value: found[k + 1], writable: true, enumerable: true, configurable: true });
    }
    result[name] = { input: fields[name], groups };
  }
  return result;
};

class URLPattern {
  #components;
  constructor(input = {}, baseURL, options) {
    if (isObject(baseURL) && arguments.length < 3) {
      options = baseURL;
      baseURL = undefined;
    }
    const base = baseURL === undefined ? undefined : toUSVString(baseURL);
    const ignoreCase = isObject(options) && !!options.ignoreCase;
    this.#components = create(input, base, ignoreCase);
  }
  static read(value) {
    if (!isObject(value) || !(#components in value)) throw illegalInvocation("URLPattern");
    return value.#components;
  }

  test(input = {}, baseURL) { return match(read(this), input, baseURL === undefined ? undefined : toUSVString(baseURL)) !== null; }
  exec(input = {}, baseURL) { return match(read(this), input, baseURL === undefined ? undefined : toUSVString(baseURL)); }
  get protocol() { return read(this).protocol.pattern; }
  get username() { return read(this).username.pattern; }
  get password() { return read(this).password.pattern; }
  get hostname() { return read(this).hostname.pattern; }
  get port() { return read(this).port.pattern; }
  get pathname() { return read(this).pathname.pattern; }
  get search() { return read(this).search.pattern; }
  get hash() { return read(this).hash.pattern; }
  get hasRegExpGroups() {
    const made = read(this);
    for (let i = 0; i < components.length; i++) if (made[components[i]].hasRegExpGroups) return true;
    return false;
  }
}
const { read } = URLPattern;
delete URLPattern.read;
expose(URLPattern, "URLPattern", { constructor: 0, test: 0, exec: 0 });
defineInspection(URLPattern, "URLPattern", (pattern) => {
  const made = read(pattern);
  const fields = {};
  for (let i = 0; i < components.length; i++) fields[components[i]] = made[components[i]].pattern;
  return fields;
});

return { URLPattern };
