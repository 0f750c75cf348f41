// Blob and File of the File API. The bytes of a blob never change, so slices share them.

const { TypeError, isObject, newList, codedError, invalidArgument, bytesOf, Uint8Array } = platform;
const { illegalInvocation, toUSVString, toLong, iteratorOf, toSequence, expose, defineLevelInspection, hasOnly } = platform.load("webidl");
const { resolved, rejected } = platform.load("promises");
const toLowerCase = platform.method("String.prototype", "toLowerCase");
const setBytes = platform.method("TypedArray.prototype", "set");
const bufferOf = platform.getter("TypedArray.prototype", "buffer");
const lengthOf = platform.getter("TypedArray.prototype", "length");
const offsetOf = platform.getter("TypedArray.prototype", "byteOffset");
const TextEncoder = platform.provided("TextEncoder");
const TextDecoder = platform.provided("TextDecoder");
const encodeWith = platform.method("TextEncoder.prototype", "encode");
const decodeWith = platform.method("TextDecoder.prototype", "decode");
const floor = platform.original("Math", "floor");
const now = platform.original("Date", "now");
const encoder = new TextEncoder();

const encodeText = (text) => encodeWith(encoder, text);
const decodeKeepingBOM = (bytes) => decodeWith(new TextDecoder("utf-8", { __proto__: null, ignoreBOM: true }), bytes);
const decodeText = (bytes) => decodeWith(new TextDecoder(), bytes);

// view returns a part of bytes without a copy. subarray would look up the species.
const view = (bytes, start, end) => new Uint8Array(bufferOf(bytes), offsetOf(bytes) + start, end - start);

const copyBytes = (bytes) => {
  const copy = new Uint8Array(lengthOf(bytes));
  setBytes(copy, bytes);
  return copy;
};

const concatBytes = (list) => {
  let size = 0;
  for (let i = 0; i < list.length; i++) size += lengthOf(list[i]);
  const all = new Uint8Array(size);
  let at = 0;
  for (let i = 0; i < list.length; i++) {
    setBytes(all, list[i], at);
    at += lengthOf(list[i]);
  }
  return all;
};

const isPrintable = (code) => code >= 32 && code <= 126;
const normalizeType = (type) => (hasOnly(type, isPrintable) ? toLowerCase(type) : "");

const toNativeLines = (text) => {
  let out = "";
  for (let i = 0; i < text.length; i++) {
    if (text[i] !== "\r") out += text[i];
    else if (text[i + 1] !== "\n") out += "\n";
  }
  return out;
};

const readOptions = (options) => {
  const read = { __proto__: null, type: "", endings: "transparent" };
  if (options === undefined || options === null) return read;
  if (!isObject(options)) throw invalidArgument("options", "a dictionary", options, Blob);
  const { endings } = options;
  if (endings !== undefined) {
    read.endings = `${endings}`;
    if (read.endings !== "transparent" && read.endings !== "native") {
      throw codedError(TypeError, "ERR_INVALID_ARG_VALUE", `The property 'options.endings' is invalid. Received '${read.endings}'`, Blob);
    }
  }
  const { type } = options;
  if (type !== undefined) read.type = normalizeType(`${type}`);
  return read;
};

// readParts converts the items of a sequence: blobs and buffers stay, others become text.
const readParts = (parts) => {
  const method = iteratorOf(parts);
  if (method === undefined) throw invalidArgument("sources", "a sequence", parts, Blob);
  return toSequence(parts, method, (part) => (isBlob(part) || bytesOf(part) !== undefined ? part : toUSVString(part)));
};

// joinParts returns the bytes of converted parts. It calls no code of scripts, which could change a
// buffer meanwhile.
const joinParts = (parts, endings) => {
  const list = newList();
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i];
    if (typeof part === "string") list[i] = encodeText(endings === "native" ? toNativeLines(part) : part);
    else list[i] = isBlob(part) ? bytesOfBlob(part) : bytesOf(part);
  }
  return concatBytes(list);
};

// clampIndex converts an index of slice, which counts from the end if it is negative. It rounds
// as [Clamp] of Web IDL does: to the nearest integer, halves to the even one.
const clampIndex = (value, size, otherwise) => {
  if (value === undefined) return otherwise;
  const number = +value;
  if (number !== number) return 0;
  let index = number < -size ? -size : number > size ? size : number;
  const below = floor(index);
  const half = index - below;
  index = half > 0.5 || (half === 0.5 && below % 2 !== 0) ? below + 1 : below;
  return index < 0 ? size + index : index;
};

const secret = { __proto__: null }; // the first argument of a constructor that copies a blob
let isBlob;
let bytesOfBlob;
let typeOf;
let wrap;

class Blob {
  #bytes;
  #type;

  static {
    isBlob = (value) => isObject(value) && #bytes in value;
    bytesOfBlob = (blob) => blob.#bytes;
    typeOf = (blob) => blob.#type;
    wrap = (bytes, type) => {
      const blob = new Blob();
      blob.#bytes = bytes;
      blob.#type = type;
      return blob;
    };
  }

  constructor(blobParts = undefined, options = undefined) {
    if (blobParts === secret) {
      this.#bytes = bytesOfBlob(options);
      this.#type = typeOf(options);
      return;
    }
    const parts = blobParts === undefined ? newList() : readParts(blobParts);
    const { type, endings } = readOptions(options);
    this.#bytes = joinParts(parts, endings);
    this.#type = type;
  }

  get size() { return lengthOf(check(this).#bytes); }
  get type() { return check(this).#type; }

  slice(start = undefined, end = undefined, contentType = undefined) {
    const bytes = check(this).#bytes;
    const size = lengthOf(bytes);
    const from = clampIndex(start, size, 0);
    const to = clampIndex(end, size, size);
    const type = contentType === undefined ? "" : normalizeType(`${contentType}`);
    return wrap(view(bytes, from, to > from ? to : from), type);
  }

  text() {
    return isBlob(this) ? resolved(decodeText(this.#bytes)) : rejected(illegalInvocation("Blob"));
  }

  arrayBuffer() {
    return isBlob(this) ? resolved(bufferOf(copyBytes(this.#bytes))) : rejected(illegalInvocation("Blob"));
  }

  bytes() {
    return isBlob(this) ? resolved(copyBytes(this.#bytes)) : rejected(illegalInvocation("Blob"));
  }

  stream() {
    check(this);
    return platform.load("streams").internal.streamOfBytes(this.#bytes);
  }
}

const check = (blob) => {
  if (!isBlob(blob)) throw illegalInvocation("Blob");
  return blob;
};

let isFile;
let wrapFile;

class File extends Blob {
  #name;
  #lastModified;

  static {
    isFile = (value) => isObject(value) && #name in value;
    // wrapFile returns a file with the bytes of a blob, under another name.
    wrapFile = (blob, name) => new File(secret, name, blob);
  }

  constructor(fileBits, fileName, options = undefined) {
    if (arguments.length < 2) {
      throw codedError(TypeError, "ERR_MISSING_ARGS", 'The "fileBits" and "fileName" arguments must be specified', File);
    }
    super(fileBits, options);
    if (fileBits === secret) {
      this.#name = fileName;
      this.#lastModified = isFile(options) ? options.#lastModified : now();
      return;
    }
    const modified = options === undefined || options === null ? undefined : options.lastModified;
    this.#name = toUSVString(fileName);
    this.#lastModified = modified === undefined ? now() : toLong(modified);
  }

  get name() {
    if (!isFile(this)) throw illegalInvocation("File");
    return this.#name;
  }
  get lastModified() {
    if (!isFile(this)) throw illegalInvocation("File");
    return this.#lastModified;
  }
}
expose(Blob, "Blob");
expose(File, "File");
defineLevelInspection(Blob, "Blob", (blob) => {
  const size = lengthOf(bytesOfBlob(check(blob)));
  const type = typeOf(blob);
  return isFile(blob) ? { size, type, name: getName(blob), lastModified: getModified(blob) } : { size, type };
});
const getName = platform.uncurryThis(platform.ObjectGetOwnPropertyDescriptor(File.prototype, "name").get);
const getModified = platform.uncurryThis(platform.ObjectGetOwnPropertyDescriptor(File.prototype, "lastModified").get);

platform.addCloneable((value) => {
  if (!isBlob(value)) return undefined;
  const clone = () => (isFile(value) ? wrapFile(value, getName(value)) : wrap(bytesOfBlob(value), typeOf(value)));
  return { __proto__: null, clone, transfer: undefined };
});

const internal = {
  __proto__: null,
  isBlob, isFile, bytesOf: bytesOfBlob, typeOf, nameOf: getName, newBlob: wrap, newFile: wrapFile,
  encodeText, decodeText, decodeKeepingBOM, copyBytes, concatBytes, view, lengthOf,
};
return { Blob, File, internal };
