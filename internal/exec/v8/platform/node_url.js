// node:url: the functions of Node for URLs, and URL and URLSearchParams if the platform has them.

const { codedError, invalidArgument, isObject, newList, ObjectKeys, splitText, TypeError } = platform;
const { text, needString, setAll, toModule } = platform.load("node_tools");
const { posix } = platform.load("node_path");
const { charCodeAt, indexOf, lastIndexOf, slice, startsWith, endsWith, toLowerCase, trim, includes } = text;
const querystring = platform.load("node_querystring").exports;
const encodeComponent = platform.original("globalThis", "encodeURIComponent");
const decodeComponent = platform.original("globalThis", "decodeURIComponent");

const slashed = ["http:", "https:", "ftp:", "gopher:", "file:", "ws:", "wss:"];
const isSlashed = (protocol) => platform.listIncludes(slashed, protocol);

function Url() {
  setAll(this, { protocol: null, slashes: null, auth: null, host: null, port: null, hostname: null, hash: null, search: null, query: null, pathname: null, path: null, href: null });
}

// firstOf returns the first index of one of the characters, or the length.
const firstOf = (value, characters) => {
  for (let i = 0; i < value.length; i++) if (includes(characters, value[i])) return i;
  return value.length;
};

// These characters are escaped in a path, a query and a fragment.
const unsafe = '\t\n\r "\'<>\\^\x60{|}';
const escapeUnsafe = (value) => {
  let out = "";
  for (let i = 0; i < value.length; i++) {
    if (!includes(unsafe, value[i])) {
      out += value[i];
      continue;
    }
    const code = charCodeAt(value, i);
    out += `%${code < 16 ? "0" : ""}${text.toUpperCase(platform.method("Number.prototype", "toString")(code, 16))}`;
  }
  return out;
};

const protocolPattern = /^[a-z0-9.+-]+:/i;
const pathPattern = /^(\/\/?(?!\/)[^?\s]*)(\?[^\s]*)?$/;

const parse = (given, parseQuery, slashesDenoteHost, fn) => {
  needString(given, "url", fn);
  const url = new Url();
  let rest = trim(given);
  // Backslashes before the query count as slashes.
  let end = firstOf(rest, "?#");
  rest = platform.replaceText(slice(rest, 0, end), "\\", "/") + slice(rest, end);
  // A path, perhaps with a query, stays as it is.
  const path = slashesDenoteHost || includes(rest, "#") || includes(rest, "@") ? null : platform.exec(pathPattern, rest);
  if (path !== null) {
    url.pathname = path[1];
    if (path[2] !== undefined) {
      url.search = path[2];
      url.query = parseQuery ? querystring.parse(slice(path[2], 1)) : slice(path[2], 1);
    } else if (parseQuery) {
      url.query = platform.ObjectCreate(null);
    }
    url.path = url.href = rest;
    return url;
  }
  let protocol = "";
  const match = platform.exec(protocolPattern, rest);
  if (match !== null) {
    protocol = toLowerCase(match[0]);
    url.protocol = protocol;
    rest = slice(rest, match[0].length);
  }
  const isScript = protocol === "javascript:";
  let hasHost = false;
  if ((slashesDenoteHost || protocol !== "" || matchesHost(rest)) && startsWith(rest, "//") && !isScript) {
    url.slashes = true;
    rest = slice(rest, 2);
    hasHost = true;
  }
  if (!isScript && (hasHost || (protocol !== "" && !isSlashed(protocol)))) rest = parseHost(url, rest);
  if (!isScript) rest = escapeUnsafe(rest);
  const hash = indexOf(rest, "#");
  if (hash !== -1) {
    url.hash = slice(rest, hash);
    rest = slice(rest, 0, hash);
  }
  const question = indexOf(rest, "?");
  if (question !== -1) {
    url.search = slice(rest, question);
    url.query = slice(rest, question + 1);
    if (parseQuery) url.query = querystring.parse(url.query);
    rest = slice(rest, 0, question);
  } else if (parseQuery) {
    url.search = null;
    url.query = platform.ObjectCreate(null);
  }
  if (rest !== "") url.pathname = rest;
  else if (isSlashed(protocol) && url.hostname) url.pathname = "/";
  if (url.pathname !== null || url.search !== null) url.path = `${url.pathname ?? ""}${url.search ?? ""}`;
  url.href = formatUrl(url);
  return url;
};

const matchesHost = (rest) => platform.matches(/^\/\/[^@/]+@[^@/]+/, rest);

// asciiOf returns the form of a host name that names of the DNS have, as URL writes it.
const asciiOf = (host) => {
  const URL = platform.provided("URL");
  return URL === undefined ? host : new URL(`http://${host}`).hostname;
};

// parseHost reads the authority, and returns what follows it.
const parseHost = (url, rest) => {
  let end = firstOf(rest, "/?#");
  const at = lastIndexOf(slice(rest, 0, end), "@");
  if (at !== -1) {
    url.auth = decodeComponent(slice(rest, 0, at));
    rest = slice(rest, at + 1);
  }
  end = firstOf(rest, '\t\n\r "\'#%/;<>?\\^\x60{|}');
  let host = slice(rest, 0, end);
  rest = slice(rest, end);
  const port = platform.exec(/:([0-9]*)$/, host);
  if (port !== null) {
    if (port[1] !== "") url.port = port[1];
    host = slice(host, 0, host.length - port[0].length);
  }
  const isIPv6 = host[0] === "[" && host[host.length - 1] === "]";
  if (host.length > 255) host = "";
  if (!isIPv6) {
    const bad = firstOf(host, ":");
    if (bad < host.length) {
      rest = `/${slice(host, bad)}${rest}`;
      host = slice(host, 0, bad);
    }
    host = toLowerCase(host);
    if (platform.matches(/[^\x00-\x7f]/, host)) host = asciiOf(host);
    if (platform.matches(/[\x00@[\]]/, host)) throw codedError(TypeError, "ERR_INVALID_URL", "Invalid URL", module.parse);
  }
  url.hostname = isIPv6 ? slice(host, 1, -1) : host;
  url.host = host + (url.port === null ? "" : `:${url.port}`);
  return rest;
};

const formatUrl = (url) => {
  let auth = url.auth || "";
  if (auth !== "") auth = `${platform.replaceText(encodeComponent(auth), "%3A", ":")}@`;
  let protocol = url.protocol || "";
  let pathname = url.pathname || "";
  let hash = url.hash || "";
  let host = "";
  let query = "";
  if (url.host) host = auth + url.host;
  else if (url.hostname) host = auth + (includes(url.hostname, ":") ? `[${url.hostname}]` : url.hostname) + (url.port ? `:${url.port}` : "");
  if (isObject(url.query)) query = querystring.stringify(url.query);
  let search = url.search || (query !== "" ? `?${query}` : "");
  if (protocol !== "" && !endsWith(protocol, ":")) protocol += ":";
  pathname = platform.replaceText(platform.replaceText(pathname, "#", "%23"), "?", "%3F");
  if (url.slashes || isSlashed(protocol)) {
    if (url.slashes || host !== "") {
      if (pathname !== "" && pathname[0] !== "/") pathname = `/${pathname}`;
      host = `//${host}`;
    } else if (protocol === "file:") {
      host = "//";
    }
  }
  search = platform.replaceText(search, "#", "%23");
  if (hash !== "" && hash[0] !== "#") hash = `#${hash}`;
  if (search !== "" && search[0] !== "?") search = `?${search}`;
  return protocol + host + pathname + search + hash;
};

// ---- relative references -------------------------------------------------------------------

const copyUrl = (from) => {
  const url = new Url();
  const keys = ObjectKeys(from);
  for (let i = 0; i < keys.length; i++) url[keys[i]] = from[keys[i]];
  return url;
};

const finish = (url) => {
  url.path = url.pathname !== null || url.search !== null ? `${url.pathname ?? ""}${url.search ?? ""}` : null;
  url.href = formatUrl(url);
  return url;
};

const resolveObject = (base, reference) => {
  const result = copyUrl(base);
  result.hash = reference.hash;
  if (reference.href === "") return finish(result);
  if (reference.slashes && !reference.protocol) {
    const url = copyUrl(reference);
    url.protocol = base.protocol;
    if (isSlashed(url.protocol) && url.hostname && !url.pathname) url.pathname = "/";
    return finish(url);
  }
  if (reference.protocol && reference.protocol !== base.protocol) {
    const url = copyUrl(reference);
    if (isSlashed(reference.protocol) && !reference.host && reference.protocol !== "file:") {
      // the first part of the path is the host
      const parts = splitText(reference.pathname ?? "", "/");
      let at = 0;
      while (at < parts.length && parts[at] === "") at++;
      url.host = url.hostname = parts[at] ?? "";
      let path = "";
      for (let i = at + 1; i < parts.length; i++) path += `/${parts[i]}`;
      url.pathname = path === "" ? "/" : path;
    }
    url.slashes = url.slashes || isSlashed(reference.protocol);
    return finish(url);
  }
  if (reference.host) {
    const url = copyUrl(reference);
    url.protocol = base.protocol;
    url.slashes = url.slashes || base.slashes;
    return finish(url);
  }
  const isOpaque = base.protocol && !isSlashed(base.protocol) && !base.slashes;
  const path = reference.pathname;
  const hasPath = path !== null && path !== "";
  if (!hasPath) {
    if (reference.search !== null && reference.search !== undefined) {
      result.search = reference.search;
      result.query = reference.query;
    }
    return finish(result);
  }
  result.search = reference.search;
  result.query = reference.query;
  const isRooted = path[0] === "/";
  const hadHost = !!base.host || isRooted || (base.pathname !== null && base.pathname[0] === "/");
  let source = newList();
  if (!isRooted && base.pathname) {
    source = splitText(base.pathname, "/");
    source.length--;
  }
  const added = splitText(path, "/");
  for (let i = 0; i < added.length; i++) source[source.length] = added[i];
  if (isOpaque && !hadHost && source.length === 0) return finish(result);
  const last = source[source.length - 1];
  const isDirectory = last === "." || last === ".." || last === "";
  const kept = newList();
  let up = 0;
  const start = hadHost && source[0] === "" ? 1 : 0;
  for (let i = start; i < source.length; i++) {
    const part = source[i];
    if (i === source.length - 1 && isDirectory && part === "") break;
    if (part === ".") continue;
    if (part === "..") {
      if (kept.length > 0) kept.length--;
      else up++;
    } else {
      kept[kept.length] = part;
    }
  }
  let out = "";
  if (!hadHost) for (; up > 0; up--) out += "../";
  const first = up > 0 && kept[0] === "" ? 1 : 0; // a ".." that left the root made the empty part the root
  for (let i = first; i < kept.length; i++) out += kept[i] + (i < kept.length - 1 ? "/" : "");
  if (hadHost) out = `/${out}`;
  if (isDirectory && (!endsWith(out, "/") || (last === "" && kept.length > first))) out += "/";
  result.pathname = out;
  result.auth = reference.auth || result.auth;
  result.slashes = result.slashes || reference.slashes;
  return finish(result);
};

// ---- paths of files --------------------------------------------------------------------------

const pathEscapes = ["%", "\\", "\n", "\r", "\t", "?", "#"];
const escaped = ["%25", "%5C", "%0A", "%0D", "%09", "%3F", "%23"];
const needURL = () => {
  const URL = platform.provided("URL");
  if (URL === undefined) throw platform.domError("NotSupportedError", "This version has no URL");
  return URL;
};

const isURL = (value) => isObject(value) && platform.provided("URL") !== undefined && platform.isInstance(platform.provided("URL"), value);

const module = {
  Url,
  parse(url, parseQueryString, slashesDenoteHost) {
    return platform.isInstance(Url, url) ? url : parse(url, parseQueryString, slashesDenoteHost, module.parse);
  },
  resolve(from, to) { return module.resolveObject(from, to).href; },
  resolveObject(from, to) { return resolveObject(parse(from, false, true, module.resolve), parse(to, false, true, module.resolve)); },
  format(url, options) {
    if (typeof url === "string") return formatUrl(parse(url, false, false, module.format));
    if (!isObject(url)) throw invalidArgument("urlObject", "one of type object or string", url, module.format);
    return isURL(url) ? formatURL(url, options) : formatUrl(url);
  },
  fileURLToPath(path, options) {
    const isText = typeof path === "string";
    const url = isText ? new (needURL())(path) : path;
    if (!isText && !isURL(url)) throw invalidArgument("path", "of type string or an instance of URL", path, module.fileURLToPath);
    return pathOf(url, isObject(options) && options.windows === true);
  },
  pathToFileURL(path) {
    needString(path, "path", module.pathToFileURL);
    let resolved = posix.resolve(path);
    if (path !== "" && charCodeAt(path, path.length - 1) === 47 && resolved[resolved.length - 1] !== "/") resolved += "/";
    for (let i = 0; i < pathEscapes.length; i++) resolved = platform.replaceText(resolved, pathEscapes[i], escaped[i]);
    return new (needURL())(`file://${resolved}`);
  },
  urlToHttpOptions(url) {
    const { hostname, pathname, port, username, password, search } = url;
    const options = {
      protocol: url.protocol, hostname: hostname && hostname[0] === "[" ? slice(hostname, 1, -1) : hostname, hash: url.hash, search, pathname, path: `${pathname || ""}${search || ""}`, href: url.href,
    };
    if (port !== "") setAll(options, { port: +port });
    if (username || password) setAll(options, { auth: `${decodeComponent(username)}:${decodeComponent(password)}` });
    return options;
  },
};

const formatURL = (url, options) => {
  const wanted = (name) => !isObject(options) || options[name] !== false;
  let out = `${url.protocol}${url.host !== "" || startsWith(url.href, `${url.protocol}//`) ? "//" : ""}`;
  if (wanted("auth") && (url.username || url.password)) out += `${url.username}${url.password ? `:${url.password}` : ""}@`;
  out += url.host + url.pathname;
  if (wanted("search")) out += url.search;
  if (wanted("fragment")) out += url.hash;
  return out;
};

const pathOf = (url, windows) => {
  const fail = (code, message) => codedError(TypeError, code, message, module.fileURLToPath);
  if (url.protocol !== "file:") throw fail("ERR_INVALID_URL_SCHEME", "The URL must be of scheme file");
  const { pathname } = url;
  const lower = toLowerCase(pathname);
  if (includes(lower, "%2f") || (windows && includes(lower, "%5c"))) {
    throw fail("ERR_INVALID_FILE_URL_PATH", `File URL path must not include encoded ${windows ? "\\ or / characters" : "/ characters"}`);
  }
  if (!windows) {
    if (url.hostname !== "") throw fail("ERR_INVALID_FILE_URL_HOST", 'File URL host must be "localhost" or empty on linux');
    return decodeComponent(pathname);
  }
  const path = decodeComponent(platform.replaceText(pathname, "/", "\\"));
  if (url.hostname !== "") return `\\\\${url.hostname}${path}`;
  if (!platform.matches(/^\\[a-zA-Z]:/, path)) throw fail("ERR_INVALID_FILE_URL_PATH", "File URL path must be absolute");
  return slice(path, 1);
};

const exports = toModule(module);
const lent = ["URL", "URLSearchParams"];
for (let i = 0; i < lent.length; i++) {
  if (platform.provided(lent[i]) === undefined) continue;
  setAll(module, { [lent[i]]: platform.provided(lent[i]) });
  exports[lent[i]] = platform.provided(lent[i]);
}

return { exports, hidden: { Url } };
