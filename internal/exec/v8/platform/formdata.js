// FormData of the XMLHttpRequest standard, and its two forms as bytes.

const { TypeError, isObject, newList, Uint8Array, host, replaceText } = platform;
const { illegalInvocation, toUSVString, countArguments, expose, define, definePairs, defineLevelInspection, refuseClones } = platform.load("webidl");
const indexOf = platform.method("String.prototype", "indexOf");
const { internal: blobs } = platform.load("blob");
const { encodeText, decodeText, concatBytes, view } = blobs;
const lengthOf = platform.getter("TypedArray.prototype", "length");
const toLowerCase = platform.method("String.prototype", "toLowerCase");
const slice = platform.method("String.prototype", "slice");
const charCodeAt = platform.method("String.prototype", "charCodeAt");
const exec = platform.method("RegExp.prototype", "exec");

// entryOf returns an entry {name, value}. A blob becomes a file.
const entryOf = (name, value, filename) => {
  if (typeof value !== "string") {
    if (!blobs.isFile(value)) value = blobs.newFile(value, filename === undefined ? "blob" : filename);
    else if (filename !== undefined) value = blobs.newFile(value, filename);
  }
  return { __proto__: null, name, value };
};

const readEntry = (args, method) => {
  countArguments(args, 2, `FormData.${method}`);
  if (args.length > 2 && !blobs.isBlob(args[1])) {
    throw new TypeError(`Failed to execute '${method}' on 'FormData': parameter 2 is not of type 'Blob'`);
  }
  const name = toUSVString(args[0]);
  const value = blobs.isBlob(args[1]) ? args[1] : toUSVString(args[1]);
  return entryOf(name, value, args.length > 2 && args[2] !== undefined ? toUSVString(args[2]) : undefined);
};

let isForm;
let entriesOf;
let wrap;

class FormData {
  #entries = newList();

  static {
    isForm = (value) => isObject(value) && #entries in value;
    entriesOf = (form) => {
      if (!isForm(form)) throw illegalInvocation();
      return form.#entries;
    };
    wrap = (entries) => {
      const form = new FormData();
      form.#entries = entries;
      return form;
    };
  }

  constructor(form = undefined) {
    if (form !== undefined) throw new TypeError("FormData constructor: Argument 1 could not be converted to: undefined.");
  }

  append(name, value, filename = undefined) {
    const entries = entriesOf(this);
    const entry = readEntry(arguments, "append");
    entries[entries.length] = entry;
  }

  delete(name) {
    const entries = entriesOf(this);
    countArguments(arguments, 1, "FormData.delete");
    name = toUSVString(name);
    let kept = 0;
    for (let i = 0; i < entries.length; i++) if (entries[i].name !== name) entries[kept++] = entries[i];
    entries.length = kept;
  }

  get(name) {
    const entries = entriesOf(this);
    countArguments(arguments, 1, "FormData.get");
    name = toUSVString(name);
    for (let i = 0; i < entries.length; i++) if (entries[i].name === name) return entries[i].value;
    return null;
  }

  getAll(name) {
    const entries = entriesOf(this);
    countArguments(arguments, 1, "FormData.getAll");
    name = toUSVString(name);
    const values = [];
    for (let i = 0; i < entries.length; i++) if (entries[i].name === name) define(values, values.length, entries[i].value, true);
    return values;
  }

  has(name) {
    const entries = entriesOf(this);
    countArguments(arguments, 1, "FormData.has");
    name = toUSVString(name);
    for (let i = 0; i < entries.length; i++) if (entries[i].name === name) return true;
    return false;
  }

  set(name, value, filename = undefined) {
    const entries = entriesOf(this);
    const entry = readEntry(arguments, "set");
    let kept = 0;
    let placed = false;
    for (let i = 0; i < entries.length; i++) {
      if (entries[i].name !== entry.name) entries[kept++] = entries[i];
      else if (!placed) {
        entries[kept++] = entry;
        placed = true;
      }
    }
    entries.length = kept;
    if (!placed) entries[kept] = entry;
  }
}
expose(FormData, "FormData");
refuseClones(isForm);
definePairs(FormData, "FormData", entriesOf);
defineLevelInspection(FormData, "FormData", (form) => {
  const entries = entriesOf(form);
  const shown = {};
  for (let i = 0; i < entries.length; i++) {
    const { name, value } = entries[i];
    if (!platform.hasOwn(shown, name)) define(shown, name, value, true);
    else if (platform.ArrayIsArray(shown[name])) define(shown[name], shown[name].length, value, true);
    else define(shown, name, [shown[name], value], true);
  }
  return shown;
});

// ---- multipart/form-data ------------------------------------------------------------

// newBoundary draws a boundary of 24 digits from the random numbers of the run.
const newBoundary = () => {
  const random = new Uint8Array(24);
  host.fillRandom(random);
  let text = "----formdata-daybook-";
  for (let i = 0; i < 24; i++) text += random[i] % 10;
  return text;
};

// normalizeLines makes every line end CR LF.
const normalizeLines = (text) => {
  if (indexOf(text, "\n") === -1 && indexOf(text, "\r") === -1) return text;
  const pieces = newList();
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    if (code !== 10 && code !== 13) continue;
    pieces[pieces.length] = slice(text, start, i);
    if (code === 13 && charCodeAt(text, i + 1) === 10) i++;
    start = i + 1;
  }
  pieces[pieces.length] = slice(text, start);
  return platform.listJoin(pieces, "\r\n");
};

const escapeName = (text) => replaceText(replaceText(replaceText(text, "\n", "%0A"), "\r", "%0D"), '"', "%22");

// serialize returns {type, bytes} of a form.
const serialize = (form) => {
  const entries = entriesOf(form);
  const boundary = newBoundary();
  const parts = newList();
  for (let i = 0; i < entries.length; i++) {
    const { name, value } = entries[i];
    const start = `--${boundary}\r\nContent-Disposition: form-data; name="${escapeName(normalizeLines(name))}"`;
    if (typeof value === "string") {
      parts[parts.length] = encodeText(`${start}\r\n\r\n${normalizeLines(value)}\r\n`);
      continue;
    }
    const type = blobs.typeOf(value);
    parts[parts.length] = encodeText(`${start}; filename="${escapeName(blobs.nameOf(value))}"\r\nContent-Type: ${type === "" ? "application/octet-stream" : type}\r\n\r\n`);
    parts[parts.length] = blobs.bytesOf(value);
    parts[parts.length] = encodeText("\r\n");
  }
  parts[parts.length] = encodeText(`--${boundary}--\r\n`);
  return { __proto__: null, type: `multipart/form-data; boundary=${boundary}`, bytes: concatBytes(parts) };
};

// find returns where bytes contain a sequence of bytes at or after start, or -1.
const find = (bytes, wanted, start) => {
  const last = lengthOf(bytes) - lengthOf(wanted);
  const length = lengthOf(wanted);
  for (let i = start; i <= last; i++) {
    let same = 0;
    while (same < length && bytes[i + same] === wanted[same]) same++;
    if (same === length) return i;
  }
  return -1;
};

const startsAt = (bytes, wanted, at) => {
  const length = lengthOf(wanted);
  if (at + length > lengthOf(bytes)) return false;
  for (let i = 0; i < length; i++) if (bytes[at + i] !== wanted[i]) return false;
  return true;
};

const parseFailed = () => new TypeError("Failed to parse body as FormData.");
const lineEnd = encodeText("\r\n");
const disposition = /^form-data *; *name="([^"]*)"(?: *; *filename="([^"]*)")? *(?:;.*)?$/;
const unescapeName = (text) => replaceText(replaceText(replaceText(text, "%0A", "\n"), "%0D", "\r"), "%22", '"');

// parsePartHeaders reads the headers of a part that begins at at.
const parsePartHeaders = (bytes, at) => {
  const part = { __proto__: null, name: undefined, filename: undefined, type: "text/plain", at };
  for (;;) {
    const end = find(bytes, lineEnd, part.at);
    if (end === -1) throw parseFailed();
    const line = decodeText(view(bytes, part.at, end));
    part.at = end + 2;
    if (line === "") {
      if (part.name === undefined) throw parseFailed();
      return part;
    }
    const colon = indexOf(line, ":");
    if (colon === -1) throw parseFailed();
    const name = toLowerCase(slice(line, 0, colon));
    let value = slice(line, colon + 1);
    while (value[0] === " " || value[0] === "\t") value = slice(value, 1);
    if (name === "content-disposition") {
      const match = exec(disposition, value);
      if (match === null) throw parseFailed();
      part.name = unescapeName(match[1]);
      part.filename = match[2] === undefined ? undefined : unescapeName(match[2]);
    } else if (name === "content-type") {
      part.type = value;
    }
  }
};

// parseMultipart returns the form that bytes with a boundary contain.
const parseMultipart = (bytes, boundary) => {
  const delimiter = encodeText(`--${boundary}`);
  const nextDelimiter = encodeText(`\r\n--${boundary}`);
  const entries = newList();
  let at = 0;
  while (startsAt(bytes, lineEnd, at)) at += 2;
  for (;;) {
    if (!startsAt(bytes, delimiter, at)) throw parseFailed();
    at += lengthOf(delimiter);
    if (bytes[at] === 45 && bytes[at + 1] === 45) return wrap(entries);
    while (bytes[at] === 32 || bytes[at] === 9) at++;
    if (!startsAt(bytes, lineEnd, at)) throw parseFailed();
    const part = parsePartHeaders(bytes, at + 2);
    const end = find(bytes, nextDelimiter, part.at - 2); // an empty body ends where it begins
    if (end === -1) throw parseFailed();
    const body = view(bytes, part.at, end < part.at ? part.at : end);
    if (part.filename === undefined) {
      entries[entries.length] = { __proto__: null, name: part.name, value: blobs.decodeKeepingBOM(body) };
    } else {
      const blob = blobs.newBlob(blobs.copyBytes(body), toLowerCase(part.type));
      entries[entries.length] = entryOf(part.name, blob, part.filename);
    }
    at = end + 2;
  }
};

// ---- application/x-www-form-urlencoded ----------------------------------------------

const hexValue = (code) => {
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 65 && code <= 70) return code - 55;
  return code >= 97 && code <= 102 ? code - 87 : -1;
};

// decodePercent decodes bytes from start to end.
const decodePercent = (bytes, start, end) => {
  const out = new Uint8Array(end - start);
  let size = 0;
  for (let i = start; i < end; i++) {
    const high = bytes[i] === 37 && i + 2 < end ? hexValue(bytes[i + 1]) : -1;
    const low = high === -1 ? -1 : hexValue(bytes[i + 2]);
    if (low === -1) {
      out[size++] = bytes[i] === 43 ? 32 : bytes[i];
    } else {
      out[size++] = high * 16 + low;
      i += 2;
    }
  }
  return blobs.decodeKeepingBOM(view(out, 0, size));
};

const parseURLEncoded = (bytes) => {
  const entries = newList();
  const length = lengthOf(bytes);
  for (let start = 0; start < length;) {
    let end = start;
    let equals = -1;
    for (; end < length && bytes[end] !== 38; end++) if (bytes[end] === 61 && equals === -1) equals = end;
    if (end > start) {
      const name = decodePercent(bytes, start, equals === -1 ? end : equals);
      entries[entries.length] = { __proto__: null, name, value: equals === -1 ? "" : decodePercent(bytes, equals + 1, end) };
    }
    start = end + 1;
  }
  return wrap(entries);
};

const internal = { __proto__: null, isForm, serialize, parseMultipart, parseURLEncoded };
return { FormData, internal };
