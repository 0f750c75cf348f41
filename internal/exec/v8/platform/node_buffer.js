// node:buffer: Buffer, an array of bytes with encodings.

const {
  ArrayIsArray, bytesOf, codedError, host, inspectCustom, invalidArgument, isObject, ObjectDefineProperty, ObjectKeys, ObjectSetPrototypeOf, RangeError, ReflectConstruct, TypeError, Uint8Array,
} = platform;
const { text, needInteger, outOfRange, withCommas, isInteger, setAll } = platform.load("node_tools");
const { encodingOf, toBytes, toText, byteLength } = platform.load("node_encodings");
const { bufferOf, lengthOf, offsetOf } = platform;
const byteLengthOf = platform.getter("TypedArray.prototype", "byteLength");
const setBytes = platform.method("TypedArray.prototype", "set");
const fillBytes = platform.method("TypedArray.prototype", "fill");
const viewName = platform.getter("TypedArray.prototype", platform.SymbolToStringTag);
const DataView = platform.original("globalThis", "DataView");
const ofView = (name) => platform.method("DataView.prototype", name);
const trunc = platform.original("Math", "trunc");
const NativeNumber = platform.original("globalThis", "Number");
const BigInt = platform.original("globalThis", "BigInt");
const bufferSize = platform.getter("ArrayBuffer.prototype", "byteLength");
const maxLength = 2 ** 32;
const maxShown = 50;

const isBytes = (value) => isObject(value) && host.kindOf(value) === "typedArray" && viewName(value) === "Uint8Array";
const isBuffer = (value) => isBytes(value) && platform.isInstance(Buffer, value);
const needBytes = (value, name, fn) => {
  if (!isBytes(value)) throw invalidArgument(name, "an instance of Buffer or Uint8Array", value, fn);
};
const unknownEncoding = (encoding, fn) => codedError(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${encoding}`, fn);
const needEncoding = (encoding, fn) => {
  const name = encodingOf(encoding);
  if (name === undefined) throw unknownEncoding(encoding, fn);
  return name;
};

const construct = (...args) => ReflectConstruct(Uint8Array, args, Buffer);
const wrap = (bytes) => construct(bufferOf(bytes), offsetOf(bytes), lengthOf(bytes));
const needSize = (size, fn) => {
  if (typeof size !== "number") throw invalidArgument("size", "of type number", size, fn);
  if (!(size >= 0 && size <= maxLength)) throw outOfRange("size", `>= 0 && <= ${maxLength}`, isInteger(size) ? withCommas(size) : size, fn);
};

function Buffer(value, encodingOrOffset, length) {
  if (typeof value === "number") {
    if (typeof encodingOrOffset === "string") throw invalidArgument("string", "of type string", value, Buffer);
    needSize(value, Buffer);
    return construct(value);
  }
  return from(value, encodingOrOffset, length, Buffer);
}
ObjectSetPrototypeOf(Buffer, Uint8Array);
const prototype = platform.ObjectCreate(Uint8Array.prototype);
ObjectDefineProperty(Buffer, "prototype", { __proto__: null, value: prototype, writable: true });
platform.defineHidden(prototype, "constructor", Buffer);

const fromList = (list, length) => {
  const out = construct(length);
  for (let i = 0; i < length; i++) out[i] = list[i];
  return out;
};

const from = (value, encodingOrOffset, length, fn) => {
  if (typeof value === "string") return wrap(toBytes(value, needEncoding(encodingOrOffset, fn)));
  if (isObject(value) && typeof value !== "function") {
    const kind = host.kindOf(value);
    if (kind === "arrayBuffer" || kind === "sharedArrayBuffer") return fromArrayBuffer(value, encodingOrOffset, length, fn);
    if (kind === "typedArray") return fromList(value, lengthOf(value));
    const primitive = value.valueOf && value.valueOf();
    if (primitive !== undefined && primitive !== null && primitive !== value && (typeof primitive === "string" || typeof primitive === "object")) {
      return from(primitive, encodingOrOffset, length, fn);
    }
    if (value.length !== undefined || kind === "array") return typeof value.length !== "number" ? construct(0) : fromList(value, value.length > 0 ? value.length : 0);
    if (value.type === "Buffer" && ArrayIsArray(value.data)) return fromList(value.data, value.data.length);
    const convert = value[platform.SymbolToPrimitive];
    if (typeof convert === "function") {
      const converted = platform.ReflectApply(convert, value, ["string"]);
      if (typeof converted === "string") return from(converted, encodingOrOffset, length, fn);
    }
  }
  throw codedError(TypeError, "ERR_INVALID_ARG_TYPE",
    `The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object.${platform.describeReceived(value)}`, fn);
};

const fromArrayBuffer = (buffer, offset, length, fn) => {
  offset = offset === undefined ? 0 : +offset;
  if (offset !== offset) offset = 0;
  const room = bufferSize(buffer) - offset;
  if (room < 0) throw codedError(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", '"offset" is outside of buffer bounds', fn);
  if (length === undefined) return construct(buffer, offset, room);
  length = +length;
  if (!(length > 0)) length = 0;
  else if (length > room) throw codedError(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", '"length" is outside of buffer bounds', fn);
  return construct(buffer, offset, length);
};

const compareBytes = (a, b) => {
  const sizeOfA = lengthOf(a);
  const sizeOfB = lengthOf(b);
  const size = sizeOfA < sizeOfB ? sizeOfA : sizeOfB;
  for (let i = 0; i < size; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
  return sizeOfA === sizeOfB ? 0 : sizeOfA < sizeOfB ? -1 : 1;
};

const statics = {
  from(value, encodingOrOffset, length) { return from(value, encodingOrOffset, length, statics.from); },
  of(...items) { return fromList(items, items.length); },
  alloc(size, fill, encoding) {
    needSize(size, statics.alloc);
    const out = construct(size);
    return fill === undefined || fill === 0 || size === 0 ? out : fillBuffer(out, fill, 0, size, encoding, statics.alloc);
  },
  allocUnsafe(size) {
    needSize(size, statics.allocUnsafe);
    return construct(size);
  },
  allocUnsafeSlow(size) {
    needSize(size, statics.allocUnsafeSlow);
    return construct(size);
  },
  isBuffer(value) { return isBuffer(value); },
  isEncoding(encoding) { return typeof encoding === "string" && encoding.length !== 0 && encodingOf(encoding) !== undefined; },
  compare(a, b) {
    needBytes(a, "buf1", statics.compare);
    needBytes(b, "buf2", statics.compare);
    return compareBytes(a, b);
  },
  concat(list, length) {
    if (!ArrayIsArray(list)) throw invalidArgument("list", "an instance of Array", list, statics.concat);
    if (list.length === 0) return construct(0);
    if (length === undefined) {
      length = 0;
      for (let i = 0; i < list.length; i++) if (isBytes(list[i])) length += lengthOf(list[i]);
    } else {
      needInteger(length, "length", 0, NativeNumber.MAX_SAFE_INTEGER, statics.concat);
    }
    const out = construct(length);
    let at = 0;
    for (let i = 0; i < list.length; i++) {
      const bytes = list[i];
      if (!isBytes(bytes)) throw invalidArgument(`list[${i}]`, "an instance of Buffer or Uint8Array", bytes, statics.concat);
      const size = lengthOf(bytes);
      for (let j = 0; j < size && at < length; j++) out[at++] = bytes[j];
    }
    return out;
  },
  byteLength(value, encoding) {
    if (typeof value === "string") return byteLength(value, encodingOf(encoding) ?? "utf8");
    const bytes = bytesOf(value);
    if (bytes === undefined) {
      throw invalidArgument("string", "of type string or an instance of Buffer or ArrayBuffer", value, statics.byteLength);
    }
    return lengthOf(bytes);
  },
  copyBytesFrom(view, offset, length) {
    if (!isObject(view) || host.kindOf(view) !== "typedArray") throw invalidArgument("view", "an instance of TypedArray", view, statics.copyBytesFrom);
    const size = byteLengthOf(view) / (lengthOf(view) || 1);
    const start = offset === undefined ? 0 : offset;
    const end = length === undefined ? lengthOf(view) : start + length < lengthOf(view) ? start + length : lengthOf(view);
    if (start >= end) return construct(0);
    return fromList(new Uint8Array(bufferOf(view), offsetOf(view) + start * size, (end - start) * size), (end - start) * size);
  },
};
const staticNames = ObjectKeys(statics);
for (let i = 0; i < staticNames.length; i++) setAll(Buffer, { [staticNames[i]]: statics[staticNames[i]] });
setAll(Buffer, { poolSize: 8192 });

// ---- methods ---------------------------------------------------------------------------

// toIndex clamps an offset that may be negative or missing.
const toIndex = (value, missing, length) => {
  let index = value === undefined ? missing : trunc(+value) || 0;
  if (index < 0) index += length;
  return index < 0 ? 0 : index > length ? length : index;
};

// fillBuffer fills a part of a buffer. Without an offset, it fills all of it, whatever the end and
// the encoding are.
const fillBuffer = (buffer, value, offset, end, encoding, fn) => {
  const size = lengthOf(buffer);
  const given = value;
  if (typeof value === "string") {
    if (offset === undefined || typeof offset === "string") {
      encoding = offset;
      offset = undefined;
    } else if (typeof end === "string") {
      encoding = end;
      end = undefined;
    }
    const name = needEncoding(encoding, fn);
    value = value.length === 0 ? 0 : toBytes(value, name);
  }
  if (offset === undefined) {
    offset = 0;
    end = size;
  } else {
    needNumber(offset, "offset", 0, maxLength, fn);
    if (end === undefined) end = size;
    else needNumber(end, "end", 0, size, fn);
    if (offset >= end) return buffer;
  }
  if (!isBytes(value)) return fillBytes(buffer, +value & 255, offset, end);
  const period = lengthOf(value);
  if (period === 0) throw codedError(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'value' is invalid. Received ${platform.inspectWith(given, undefined)}`, fn);
  offset = trunc(offset);
  for (let i = offset; i < end; i++) buffer[i] = value[(i - offset) % period];
  return buffer;
};

const needNumber = (value, name, min, max, fn) => {
  if (typeof value !== "number") throw invalidArgument(name, "of type number", value, fn);
  if (!(value >= min && value <= max)) throw outOfRange(name, `>= ${min} && <= ${max}`, value, fn);
};

// search returns the first or last index of bytes, or -1.
const search = (buffer, value, offset, encoding, forward, fn) => {
  const size = lengthOf(buffer);
  if (typeof offset === "string") {
    encoding = offset;
    offset = undefined;
  }
  offset = +offset;
  if (offset !== offset) offset = forward ? 0 : size;
  offset = trunc(offset);
  if (offset < 0) offset += size;
  if (offset < 0) {
    if (!forward) return -1;
    offset = 0;
  }
  let wanted;
  if (typeof value === "number") {
    wanted = new Uint8Array(1);
    wanted[0] = value & 255;
  } else if (typeof value === "string") {
    wanted = toBytes(value, needEncoding(encoding, fn));
  } else if (isBytes(value)) {
    wanted = value;
  } else {
    throw invalidArgument("value", "one of type number or string or an instance of Buffer or Uint8Array", value, fn);
  }
  const step = encodingOf(encoding) === "utf16le" && typeof value === "string" ? 2 : 1;
  const wantedSize = lengthOf(wanted);
  if (wantedSize === 0) return offset > size ? size : offset;
  const last = size - wantedSize;
  if (!forward && offset > last) offset = last;
  for (let at = offset; forward ? at <= last : at >= 0; at += forward ? 1 : -1) {
    if (step === 2 && (at - offset) % 2 !== 0) continue;
    let i = 0;
    while (i < wantedSize && buffer[at + i] === wanted[i]) i++;
    if (i === wantedSize) return at;
  }
  return -1;
};

const writeBytes = (buffer, bytes, offset, length, encoding) => {
  const whole = lengthOf(bytes);
  let size = whole < length ? whole : length;
  if (encoding === "utf16le") size -= size % 2;
  // A character that does not fit is left out.
  if (encoding === "utf8") while (size > 0 && size < whole && (bytes[size] & 0xc0) === 0x80) size--;
  for (let i = 0; i < size; i++) buffer[offset + i] = bytes[i];
  return size;
};

const methods = {
  toString(encoding, start, end) {
    if (arguments.length === 0) return toText(this, "utf8", 0, lengthOf(this));
    const length = lengthOf(this);
    start = start === undefined || !(start > 0) ? 0 : trunc(start);
    end = end === undefined || +end > length ? length : trunc(+end) || 0;
    const name = needEncoding(encoding, methods.toString);
    return end <= start ? "" : toText(this, name, start, end);
  },
  toLocaleString: undefined,
  toJSON() {
    const data = [];
    for (let i = 0; i < lengthOf(this); i++) ObjectDefineProperty(data, i, { __proto__: null, value: this[i], writable: true, enumerable: true, configurable: true });
    return { type: "Buffer", data };
  },
  equals(other) {
    needBytes(other, "otherBuffer", methods.equals);
    return this === other || (lengthOf(this) === lengthOf(other) && compareBytes(this, other) === 0);
  },
  compare(target, targetStart = 0, targetEnd, sourceStart = 0, sourceEnd) {
    needBytes(target, "target", methods.compare);
    needInteger(targetStart, "targetStart", 0, NativeNumber.MAX_SAFE_INTEGER, methods.compare);
    if (targetEnd === undefined) targetEnd = lengthOf(target);
    else needInteger(targetEnd, "targetEnd", 0, lengthOf(target), methods.compare);
    needInteger(sourceStart, "sourceStart", 0, NativeNumber.MAX_SAFE_INTEGER, methods.compare);
    if (sourceEnd === undefined) sourceEnd = lengthOf(this);
    else needInteger(sourceEnd, "sourceEnd", 0, lengthOf(this), methods.compare);
    if (sourceStart >= sourceEnd) return targetStart >= targetEnd ? 0 : -1;
    if (targetStart >= targetEnd) return 1;
    return compareBytes(slice(this, sourceStart, sourceEnd), slice(target, targetStart, targetEnd));
  },
  copy(target, targetStart, sourceStart, sourceEnd) {
    if (!isObject(target) || host.kindOf(target) !== "typedArray") throw invalidArgument("target", "an instance of Buffer or Uint8Array", target, methods.copy);
    const size = lengthOf(this);
    const to = targetStart === undefined ? 0 : trunc(+targetStart) || 0;
    const start = sourceStart === undefined ? 0 : trunc(+sourceStart) || 0;
    let end = sourceEnd === undefined ? size : trunc(+sourceEnd) || 0;
    if (to < 0) throw outOfRange("targetStart", ">= 0", to, methods.copy);
    if (start < 0 || start > size) throw outOfRange("sourceStart", `>= 0 && <= ${size}`, start, methods.copy);
    if (end < 0) throw outOfRange("sourceEnd", ">= 0", end, methods.copy);
    if (to >= lengthOf(target) || start >= end) return 0;
    if (end > size) end = size;
    if (end - start > lengthOf(target) - to) end = start + lengthOf(target) - to;
    setBytes(target, new Uint8Array(bufferOf(this), offsetOf(this) + start, end - start), to);
    return end - start;
  },
  slice(start, end) { return slice(this, start, end); },
  subarray(start, end) { return slice(this, start, end); },
  fill(value, offset, end, encoding) { return fillBuffer(this, value, offset, end, encoding, methods.fill); },
  indexOf(value, byteOffset, encoding) { return search(this, value, byteOffset, encoding, true, methods.indexOf); },
  lastIndexOf(value, byteOffset, encoding) { return search(this, value, byteOffset, encoding, false, methods.lastIndexOf); },
  includes(value, byteOffset, encoding) { return search(this, value, byteOffset, encoding, true, methods.includes) !== -1; },
  write(string, offset, length, encoding) {
    if (typeof string !== "string") throw codedError(TypeError, "ERR_INVALID_ARG_TYPE", "argument must be a string", methods.write);
    const size = lengthOf(this);
    if (typeof offset === "string") {
      encoding = offset;
      offset = length = undefined;
    } else if (offset === undefined) {
      encoding = length = undefined; // the string is then the only argument
    } else if (typeof length === "string") {
      encoding = length;
      length = undefined;
    }
    if (offset === undefined) offset = 0;
    else needInteger(offset, "offset", 0, size, methods.write);
    const room = size - offset;
    if (length === undefined) length = room;
    else {
      needInteger(length, "length", 0, size, methods.write);
      if (length > room) length = room;
    }
    const name = needEncoding(encoding, methods.write);
    return writeBytes(this, toBytes(string, name), offset, length, name);
  },
  swap16() { return swap(this, 2, methods.swap16); },
  swap32() { return swap(this, 4, methods.swap32); },
  swap64() { return swap(this, 8, methods.swap64); },
};
methods.toLocaleString = methods.toString;

const slice = (buffer, start, end) => {
  const length = lengthOf(buffer);
  const from = toIndex(start, 0, length);
  const to = toIndex(end, length, length);
  return construct(bufferOf(buffer), offsetOf(buffer) + from, to > from ? to - from : 0);
};

const swap = (buffer, size, fn) => {
  if (lengthOf(buffer) % size !== 0) throw codedError(RangeError, "ERR_INVALID_BUFFER_SIZE", `Buffer size must be a multiple of ${8 * size}-bits`, fn);
  for (let at = 0; at < lengthOf(buffer); at += size) {
    for (let i = 0; i < size / 2; i++) {
      const byte = buffer[at + i];
      buffer[at + i] = buffer[at + size - 1 - i];
      buffer[at + size - 1 - i] = byte;
    }
  }
  return buffer;
};
setAll(prototype, methods);

platform.load("node_buffer_numbers").install({ __proto__: null, prototype, DataView, ofView, BigInt, bufferOf, offsetOf, lengthOf });

setAll(prototype, { inspect: { inspect(depth, options) {
  const length = lengthOf(this);
  let max = exports === undefined ? maxShown : exports.default.INSPECT_MAX_BYTES;
  if (typeof max !== "number") max = maxShown;
  let out = "";
  for (let i = 0; i < length && i < max; i++) out += `${i > 0 ? " " : ""}${toText(this, "hex", i, i + 1)}`;
  if (length > max) out += ` ... ${length - max} more byte${length - max > 1 ? "s" : ""}`;
  const extra = host.ownNonIndexKeys(this, 1);
  if (extra.length > 0 && isObject(options)) {
    const members = platform.ObjectCreate(null);
    for (let i = 0; i < extra.length; i++) members[extra[i]] = this[extra[i]];
    const shown = platform.inspectWith(members, { __proto__: null, breakLength: Infinity, compact: true, depth: options.depth });
    out += `${out === "" ? "" : ", "}${text.slice(shown, 27, -2)}`;
  }
  const name = isObject(this) && isObject(this.constructor) ? this.constructor.name : "Buffer";
  return `<${name} ${out}>`;
} }.inspect });
platform.defineHidden(prototype, inspectCustom, prototype.inspect);
ObjectDefineProperty(prototype, "parent", { __proto__: null, get() { return isBuffer(this) ? bufferOf(this) : undefined; }, enumerable: true });
ObjectDefineProperty(prototype, "offset", { __proto__: null, get() { return isBuffer(this) ? offsetOf(this) : undefined; }, enumerable: true });

const bytesOfInput = (input, fn) => {
  const bytes = bytesOf(input);
  if (bytes === undefined) throw invalidArgument("input", "an instance of ArrayBuffer, Buffer, or TypedArray", input, fn);
  return bytes;
};

const module = {
  Buffer,
  constants: { MAX_LENGTH: maxLength, MAX_STRING_LENGTH: 536870888 },
  kMaxLength: maxLength,
  kStringMaxLength: 536870888,
  INSPECT_MAX_BYTES: maxShown,
  atob: platform.provided("atob"),
  btoa: platform.provided("btoa"),
  isAscii(input) {
    const bytes = bytesOfInput(input, module.isAscii);
    const size = lengthOf(bytes);
    for (let i = 0; i < size; i++) if (bytes[i] > 127) return false;
    return true;
  },
  isUtf8(input) {
    const bytes = bytesOfInput(input, module.isUtf8);
    try {
      platform.method("TextDecoder.prototype", "decode")(new (platform.provided("TextDecoder"))("utf-8", { __proto__: null, fatal: true, ignoreBOM: true }), bytes);
      return true;
    } catch {
      return false;
    }
  },
};
const exports = platform.load("node_tools").toModule(module);

return { exports, Buffer, isBuffer, toBuffer: wrap, hidden: { Buffer } };
