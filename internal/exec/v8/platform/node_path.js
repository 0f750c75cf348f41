// node:path, for both kinds of paths. There is no working directory: relative paths are resolved
// against "/", and "C:\" for Windows.

const { newList } = platform;
const { text, needString, needObject, toModule } = platform.load("node_tools");
const { charCodeAt, slice, toLowerCase, endsWith } = text;

const dot = 46;
const slash = 47;
const backslash = 92;
const colon = 58;
const isPosixSeparator = (code) => code === slash;
const isWindowsSeparator = (code) => code === slash || code === backslash;
const isLetter = (code) => (code >= 65 && code <= 90) || (code >= 97 && code <= 122);

// segments splits a path at its separators, without empty parts.
const segments = (path, isSeparator) => {
  const parts = newList();
  let start = 0;
  for (let i = 0; i <= path.length; i++) {
    if (i < path.length && !isSeparator(charCodeAt(path, i))) continue;
    if (i > start) parts[parts.length] = slice(path, start, i);
    start = i + 1;
  }
  return parts;
};

// collapse resolves "." and ".." among the parts of a path without its root.
const collapse = (path, allowAbove, separator, isSeparator) => {
  const parts = segments(path, isSeparator);
  const kept = newList();
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i];
    if (part === ".") continue;
    if (part !== "..") kept[kept.length] = part;
    else if (kept.length > 0 && kept[kept.length - 1] !== "..") kept.length--;
    else if (allowAbove) kept[kept.length] = part;
  }
  return platform.listJoin(kept, separator);
};

const lastIs = (path, isSeparator) => path.length > 0 && isSeparator(charCodeAt(path, path.length - 1));

// ---- roots ---------------------------------------------------------------------------

const posixRoot = (path) => (path !== "" && charCodeAt(path, 0) === slash ? 1 : 0);

// windowsRoot returns the device of a path, such as "C:" or "\\server\share", how many
// characters the root has, and whether the path is absolute.
const windowsRoot = (path) => {
  const root = { __proto__: null, device: "", length: 0, isAbsolute: false, isUNC: false };
  if (path === "") return root;
  if (isWindowsSeparator(charCodeAt(path, 0))) {
    root.isAbsolute = true;
    root.length = 1;
    if (path.length > 1 && isWindowsSeparator(charCodeAt(path, 1))) {
      let at = 2;
      const part = () => {
        const start = at;
        while (at < path.length && !isWindowsSeparator(charCodeAt(path, at))) at++;
        return slice(path, start, at);
      };
      const server = part();
      let after = at;
      while (after < path.length && isWindowsSeparator(charCodeAt(path, after))) after++;
      if (server !== "" && after > at && after < path.length) {
        at = after;
        const share = part();
        root.device = `\\\\${server}\\${share}`;
        root.length = at;
        root.isUNC = true;
      }
    }
    return root;
  }
  if (path.length > 1 && isLetter(charCodeAt(path, 0)) && charCodeAt(path, 1) === colon) {
    root.device = slice(path, 0, 2);
    root.length = 2;
    if (path.length > 2 && isWindowsSeparator(charCodeAt(path, 2))) {
      root.isAbsolute = true;
      root.length = 3;
    }
  }
  return root;
};

// ---- both kinds ----------------------------------------------------------------------

// nameOf returns where the last part of a path begins and ends, after the root.
const nameOf = (path, root, isSeparator) => {
  let end = path.length;
  while (end > root && isSeparator(charCodeAt(path, end - 1))) end--;
  let start = end;
  while (start > root && !isSeparator(charCodeAt(path, start - 1))) start--;
  return { __proto__: null, start, end };
};

const extensionOf = (name) => {
  let at = -1;
  for (let i = 0; i < name.length; i++) if (charCodeAt(name, i) === dot) at = i;
  return at <= 0 || name === ".." ? "" : slice(name, at);
};

const makePath = (separator, isSeparator, rootLength, kind) => {
  const dirname = (path) => {
    needString(path, "path", api.dirname);
    if (path === "") return ".";
    const root = rootLength(path);
    const { start } = nameOf(path, root, isSeparator);
    const end = start - 1; // one separator only
    if (end > root) return slice(path, 0, end);
    if (root > 0) return kind.directoryOfRoot(path, root);
    return start === 0 ? "." : slice(path, 0, 1);
  };
  const basename = (path, suffix) => {
    if (suffix !== undefined) needString(suffix, "suffix", api.basename);
    needString(path, "path", api.basename);
    const { start, end } = nameOf(path, kind.driveLength(path), isSeparator);
    const name = slice(path, start, end);
    if (suffix === undefined || suffix === "" || suffix === name || !endsWith(name, suffix)) {
      return suffix === path && suffix !== undefined && suffix !== "" ? "" : name;
    }
    return slice(name, 0, name.length - suffix.length);
  };
  const extname = (path) => {
    needString(path, "path", api.extname);
    const { start, end } = nameOf(path, kind.driveLength(path), isSeparator);
    return extensionOf(slice(path, start, end));
  };
  const join = (paths) => {
    let joined;
    let first;
    for (let i = 0; i < paths.length; i++) {
      needString(paths[i], "path", api.join);
      if (paths[i] === "") continue;
      if (joined === undefined) joined = first = paths[i];
      else joined += separator + paths[i];
    }
    return joined === undefined ? "." : api.normalize(kind.joined(joined, first));
  };
  const format = (object) => {
    needObject(object, "pathObject", api.format);
    const dir = object.dir || object.root;
    const { ext } = object;
    const base = object.base || `${object.name || ""}${ext ? `${ext[0] === "." ? "" : "."}${ext}` : ""}`;
    if (!dir) return base;
    return dir === object.root ? `${dir}${base}` : `${dir}${separator}${base}`;
  };
  const parse = (path) => {
    needString(path, "path", api.parse);
    const root = rootLength(path);
    const { start, end } = nameOf(path, root, isSeparator);
    const base = slice(path, start, end);
    const ext = extensionOf(base);
    let dir = slice(path, 0, start > root && start > 0 ? start - 1 : root);
    if (start > 0 && start === root) dir = slice(path, 0, root);
    return { root: slice(path, 0, root), dir, base, ext, name: ext === "" ? base : slice(base, 0, base.length - ext.length) };
  };
  const api = {
    resolve(...args) { return kind.resolve(args, api.resolve); },
    normalize(path) {
      needString(path, "path", api.normalize);
      return kind.normalize(path);
    },
    isAbsolute(path) {
      needString(path, "path", api.isAbsolute);
      return kind.isAbsolute(path);
    },
    join(...args) { return join(args); },
    relative(from, to) {
      needString(from, "from", api.relative);
      needString(to, "to", api.relative);
      return relative(from, to);
    },
    toNamespacedPath(path) { return typeof path === "string" && path !== "" ? kind.toNamespaced(path) : path; },
    dirname(path) { return dirname(path); },
    basename(path, suffix) { return basename(path, suffix); },
    extname(path) { return extname(path); },
    format(pathObject) { return format(pathObject); },
    parse(path) { return parse(path); },
    sep: separator,
    delimiter: kind.delimiter,
    win32: null,
    posix: null,
  };
  const relative = (from, to) => {
    if (from === to) return "";
    from = kind.resolve([from], api.relative);
    to = kind.resolve([to], api.relative);
    if (kind.fold(from) === kind.fold(to)) return "";
    const a = segments(from, isSeparator);
    const b = segments(to, isSeparator);
    const isUNC = (path) => path[1] === "\\";
    if (kind.hasDevices && (isUNC(from) !== isUNC(to) || kind.fold(a[0]) !== kind.fold(b[0]) || (isUNC(from) && kind.fold(`${a[1]}`) !== kind.fold(`${b[1]}`)))) return to;
    let same = 0;
    while (same < a.length && same < b.length && kind.fold(a[same]) === kind.fold(b[same])) same++;
    const out = newList();
    for (let i = same; i < a.length; i++) out[out.length] = "..";
    for (let i = same; i < b.length; i++) out[out.length] = b[i];
    return platform.listJoin(out, separator);
  };
  return api;
};

// ---- posix ---------------------------------------------------------------------------

const posix = makePath("/", isPosixSeparator, posixRoot, {
  __proto__: null,
  delimiter: ":",
  hasDevices: false,
  driveLength: () => 0,
  directoryOfRoot: (path) => (path.length > 2 && charCodeAt(path, 1) === slash && charCodeAt(path, 2) !== slash ? "//" : "/"),
  joined: (path) => path,
  fold: (path) => path,
  isAbsolute: (path) => posixRoot(path) === 1,
  toNamespaced: (path) => path,
  normalize(path) {
    if (path === "") return ".";
    const isAbsolute = posixRoot(path) === 1;
    let rest = collapse(path, !isAbsolute, "/", isPosixSeparator);
    if (rest === "") {
      if (isAbsolute) return "/";
      return lastIs(path, isPosixSeparator) ? "./" : ".";
    }
    if (lastIs(path, isPosixSeparator)) rest += "/";
    return isAbsolute ? `/${rest}` : rest;
  },
  resolve(paths, fn) {
    let resolved = "";
    for (let i = paths.length - 1; i >= 0; i--) {
      needString(paths[i], `paths[${i}]`, fn);
      if (paths[i] === "") continue;
      resolved = `${paths[i]}/${resolved}`;
      if (posixRoot(paths[i]) === 1) break;
    }
    return `/${collapse(resolved, false, "/", isPosixSeparator)}`;
  },
});

// ---- Windows ---------------------------------------------------------------------------

const joinWindows = (root, rest) => {
  if (root.device === "") return root.isAbsolute ? `\\${rest}` : rest;
  return root.isAbsolute ? `${root.device}\\${rest}` : `${root.device}${rest}`;
};

// namesDevice reports whether a relative path may be read as one of a device: if it begins with a
// drive once it is normalized, or if a part ends with a colon.
const namesDevice = (path, normalized) => windowsRoot(normalized).device !== "" || platform.matches(/:([\\/]|$)/, path);

const win32 = makePath("\\", isWindowsSeparator, (path) => {
  const root = windowsRoot(path);
  return root.isUNC && root.length < path.length ? root.length + 1 : root.length;
}, {
  __proto__: null,
  delimiter: ";",
  hasDevices: true,
  driveLength: (path) => (path.length > 1 && isLetter(charCodeAt(path, 0)) && charCodeAt(path, 1) === colon ? 2 : 0),
  directoryOfRoot: (path, root) => slice(path, 0, root),
  // A first part that begins with one separator must not become the name of a server.
  joined(path, first) {
    let count = 0;
    while (count < path.length && isWindowsSeparator(charCodeAt(path, count))) count++;
    const isUNC = isWindowsSeparator(charCodeAt(first, 0)) && first.length > 2 && isWindowsSeparator(charCodeAt(first, 1)) && !isWindowsSeparator(charCodeAt(first, 2));
    return count >= 2 && !isUNC ? `\\${slice(path, count)}` : path;
  },
  fold: toLowerCase,
  isAbsolute: (path) => windowsRoot(path).isAbsolute,
  toNamespaced(path) {
    const resolved = win32.resolve(path);
    if (resolved.length <= 2) return path;
    if (charCodeAt(resolved, 0) === backslash && charCodeAt(resolved, 1) === backslash) {
      const code = charCodeAt(resolved, 2);
      return code === 63 || code === dot ? resolved : `\\\\?\\UNC\\${slice(resolved, 2)}`;
    }
    return charCodeAt(resolved, 1) === colon ? `\\\\?\\${resolved}` : resolved;
  },
  normalize(path) {
    if (path === "") return ".";
    const root = windowsRoot(path);
    let isAbsolute = root.isAbsolute;
    if (root.isUNC) isAbsolute = true;
    let rest = collapse(slice(path, root.length), !isAbsolute, "\\", isWindowsSeparator);
    if (rest === "" && !isAbsolute) rest = ".";
    if (rest !== "" && lastIs(path, isWindowsSeparator)) rest += "\\";
    if (!isAbsolute && root.device === "" && namesDevice(path, rest)) return `.\\${rest}`;
    return joinWindows({ __proto__: null, device: root.device, isAbsolute }, rest);
  },
  resolve(paths, fn) {
    let device = "";
    let rest = "";
    let isAbsolute = false;
    for (let i = paths.length - 1; i >= -1 && !(isAbsolute && device !== ""); i--) {
      let path = "C:\\";
      if (i >= 0) {
        needString(paths[i], `paths[${i}]`, fn);
        path = paths[i];
        if (path === "") continue;
      } else if (device !== "" && toLowerCase(device) !== "c:") {
        path = `${device}\\`;
      }
      const root = windowsRoot(path);
      if (root.device !== "") {
        if (device === "") device = root.device;
        else if (toLowerCase(device) !== toLowerCase(root.device)) continue; // a path of another device
      }
      if (isAbsolute) continue;
      rest = `${slice(path, root.length)}\\${rest}`;
      isAbsolute = root.isAbsolute;
    }
    return joinWindows({ __proto__: null, device, isAbsolute }, collapse(rest, !isAbsolute, "\\", isWindowsSeparator)) || ".";
  },
});

posix.posix = win32.posix = posix;
posix.win32 = win32.win32 = win32;

return { exports: toModule(posix), posix, win32, posixExports: toModule(posix), win32Exports: toModule(win32) };
