// TextEncoder and TextDecoder, and atob and btoa. The part encodings of the platform decodes what
// is not UTF-8.

// Code units are converted to text some thousands at a time: one call for all would exceed
// the limit of arguments, and one call for each is slow.
const unitsPerCall = 4096;

const newTextBuilder = () => ({ __proto__: null, text: "", units: newList() });

const flushText = (builder) => {
  builder.text += ReflectApply(StringFromCharCode, undefined, builder.units);
  builder.units = newList();
};

const appendCodePoint = (builder, code) => {
  const { units } = builder;
  if (code < 0x10000) {
    units[units.length] = code;
  } else {
    units[units.length] = 0xd800 + ((code - 0x10000) >> 10);
    units[units.length] = 0xdc00 + ((code - 0x10000) & 0x3ff);
  }
  if (units.length >= unitsPerCall) flushText(builder);
};

const finishText = (builder) => {
  flushText(builder);
  return builder.text;
};

// scalarAt returns the code point at an index, and U+FFFD for a lone surrogate.
const scalarAt = (text, index) => {
  const code = StringPrototypeCodePointAt(text, index);
  return code >= 0xd800 && code <= 0xdfff ? 0xfffd : code;
};

const utf8Size = (code) => (code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4);

const writeUtf8 = (bytes, at, code) => {
  if (code < 0x80) {
    bytes[at] = code;
  } else if (code < 0x800) {
    bytes[at] = 0xc0 | (code >> 6);
    bytes[at + 1] = 0x80 | (code & 0x3f);
  } else if (code < 0x10000) {
    bytes[at] = 0xe0 | (code >> 12);
    bytes[at + 1] = 0x80 | ((code >> 6) & 0x3f);
    bytes[at + 2] = 0x80 | (code & 0x3f);
  } else {
    bytes[at] = 0xf0 | (code >> 18);
    bytes[at + 1] = 0x80 | ((code >> 12) & 0x3f);
    bytes[at + 2] = 0x80 | ((code >> 6) & 0x3f);
    bytes[at + 3] = 0x80 | (code & 0x3f);
  }
};

// bytesOf returns any BufferSource as bytes, or undefined. It has no bytes of a detached buffer.
const bytesOf = (value) => {
  const kind = typeof value === "object" && value !== null ? host.kindOf(value) : "";
  let buffer;
  switch (kind) {
    case "sharedArrayBuffer":
      return new NativeUint8Array(value);
    case "arrayBuffer":
      return isDetached(value) ? new NativeUint8Array(0) : new NativeUint8Array(value);
    case "typedArray":
      buffer = TypedArrayPrototypeGetBuffer(value);
      if (host.kindOf(buffer) === "arrayBuffer" && isDetached(buffer)) return new NativeUint8Array(0);
      return new NativeUint8Array(buffer, TypedArrayPrototypeGetByteOffset(value), TypedArrayPrototypeGetByteLength(value));
    case "dataView":
      buffer = DataViewPrototypeGetBuffer(value);
      if (host.kindOf(buffer) === "arrayBuffer" && isDetached(buffer)) return new NativeUint8Array(0);
      return new NativeUint8Array(buffer, DataViewPrototypeGetByteOffset(value), DataViewPrototypeGetByteLength(value));
    default:
      return undefined;
  }
};

(() => {
  // Few functions: every base heap has them.
  const requireThis = (isOwn, name) => {
    if (!isOwn) throw codedError(NativeTypeError, "ERR_INVALID_THIS", `Value of "this" must be of type ${name}`);
  };

  class TextEncoder {
    #encoding = "utf-8";

    get encoding() {
      requireThis(isObject(this) && #encoding in this, "TextEncoder");
      return this.#encoding;
    }

    encode(input = "") {
      requireThis(isObject(this) && #encoding in this, "TextEncoder");
      const text = `${input}`;
      let size = 0;
      for (let i = 0; i < text.length; i++) {
        const code = scalarAt(text, i);
        if (code > 0xffff) i++;
        size += utf8Size(code);
      }
      const bytes = new NativeUint8Array(size);
      let at = 0;
      for (let i = 0; i < text.length; i++) {
        const code = scalarAt(text, i);
        if (code > 0xffff) i++;
        writeUtf8(bytes, at, code);
        at += utf8Size(code);
      }
      return bytes;
    }

    encodeInto(source, destination) {
      requireThis(isObject(this) && #encoding in this, "TextEncoder");
      const text = `${source}`;
      if (host.kindOf(destination) !== "typedArray" || TypedArrayPrototypeGetName(destination) !== "Uint8Array") {
        throw invalidArgument("dest", "an instance of Uint8Array", destination, encodeInto);
      }
      const capacity = TypedArrayPrototypeGetLength(destination);
      let read = 0;
      let written = 0;
      while (read < text.length) {
        const code = scalarAt(text, read);
        if (written + utf8Size(code) > capacity) break;
        writeUtf8(destination, written, code);
        written += utf8Size(code);
        read += code > 0xffff ? 2 : 1;
      }
      return { read, written };
    }
  }
  const { encodeInto } = TextEncoder.prototype;

  class TextDecoder {
    #encoding = "utf-8";
    #fatal;
    #ignoreBOM;
    // The state that a decode with { stream: true } leaves for the next decode.
    #state = newDecoderState();

    constructor(encoding = "utf-8", options = undefined) {
      const label = `${encoding}`;
      const given = options !== undefined && options !== null;
      if (given && !isObject(options)) throw invalidArgument("options", "of type object", options, TextDecoder);
      this.#fatal = given && options.fatal ? true : false;
      this.#ignoreBOM = given && options.ignoreBOM ? true : false;
      const lower = StringPrototypeToLowerCase(label);
      if (lower !== "utf-8" && lower !== "utf8") this.#encoding = loadPart("encodings").nameOf(label);
      if (this.#encoding === undefined) {
        throw codedError(NativeRangeError, "ERR_ENCODING_NOT_SUPPORTED", `The "${label}" encoding is not supported`, TextDecoder);
      }
      if (this.#encoding !== "utf-8") this.#state = loadPart("encodings").newState();
    }
    get encoding() {
      requireThis(isObject(this) && #state in this, "TextDecoder");
      return this.#encoding;
    }
    get fatal() {
      requireThis(isObject(this) && #state in this, "TextDecoder");
      return this.#fatal;
    }
    get ignoreBOM() {
      requireThis(isObject(this) && #state in this, "TextDecoder");
      return this.#ignoreBOM;
    }

    decode(input = undefined, options = undefined) {
      requireThis(isObject(this) && #state in this, "TextDecoder");
      const bytes = input === undefined ? new NativeUint8Array(0) : bytesOf(input);
      if (bytes === undefined) {
        throw invalidArgument("list", "an instance of SharedArrayBuffer, ArrayBuffer or ArrayBufferView", input, decode);
      }
      const given = options !== undefined && options !== null;
      if (given && !isObject(options)) throw invalidArgument("options", "of type object", options, decode);
      const stream = given && options.stream ? true : false;
      const state = this.#state;
      if (this.#encoding !== "utf-8") {
        const { newState, decode: decodeOther } = loadPart("encodings");
        const other = decodeOther(this.#encoding, state, bytes, !stream, this.#ignoreBOM);
        const isRefused = this.#fatal && other.damaged;
        if (!stream || isRefused) this.#state = newState();
        if (isRefused) {
          throw codedError(NativeTypeError, "ERR_ENCODING_INVALID_ENCODED_DATA", `The encoded data was not valid for encoding ${this.#encoding}`, decode);
        }
        return other.text;
      }
      const text = decodeUtf8(state, bytes, this.#ignoreBOM, !stream);
      if (!stream || state.damaged) this.#state = newDecoderState();
      if (state.damaged && this.#fatal) {
        throw codedError(NativeTypeError, "ERR_ENCODING_INVALID_ENCODED_DATA", "The encoded data was not valid for encoding utf-8", decode);
      }
      state.damaged = false;
      if (stream) this.#state = state;
      return text;
    }

    [inspectCustom](depth, options) {
      if (!(#state in this) || (typeof depth === "number" && depth < 0)) return this;
      const fields = { encoding: this.#encoding, fatal: this.#fatal, ignoreBOM: this.#ignoreBOM };
      return `${classNameOf(this)} ${inspectWith(fields, isObject(options) ? options : undefined)}`;
    }
  }
  const { decode } = TextDecoder.prototype;
  const interfaces = [TextEncoder, "encoding", "encode", "encodeInto", TextDecoder, "encoding", "fatal", "ignoreBOM", "decode"];
  let owner;
  for (let i = 0; i < interfaces.length; i++) {
    if (typeof interfaces[i] === "string") {
      ObjectDefineProperty(owner.prototype, interfaces[i], { __proto__: null, enumerable: true });
    } else {
      owner = interfaces[i];
      setTag(owner.prototype, owner.name);
      defineHidden(global, owner.name, owner);
    }
  }

  function newDecoderState() {
    return { __proto__: null, needed: 0, seen: 0, code: 0, lower: 0x80, upper: 0xbf, started: false, damaged: false };
  }

  // decodeUtf8 follows the decoder of the Encoding standard: the longest prefix of a valid
  // sequence that is cut short becomes one U+FFFD.
  function decodeUtf8(state, bytes, keepBOM, last) {
    const out = newTextBuilder();
    const emitCode = (code) => {
      const first = !state.started;
      state.started = true;
      if (!(first && code === 0xfeff && !keepBOM)) appendCodePoint(out, code);
    };
    const damage = () => {
      state.damaged = true;
      state.needed = state.seen = state.code = 0;
      state.lower = 0x80;
      state.upper = 0xbf;
      emitCode(0xfffd);
    };
    const length = TypedArrayPrototypeGetLength(bytes);
    for (let i = 0; i < length; i++) {
      const byte = bytes[i];
      if (state.needed === 0) {
        if (byte < 0x80) {
          emitCode(byte);
        } else if (byte >= 0xc2 && byte <= 0xdf) {
          state.needed = 1;
          state.code = byte & 0x1f;
        } else if (byte >= 0xe0 && byte <= 0xef) {
          if (byte === 0xe0) state.lower = 0xa0; // else overlong
          if (byte === 0xed) state.upper = 0x9f; // else a surrogate
          state.needed = 2;
          state.code = byte & 0xf;
        } else if (byte >= 0xf0 && byte <= 0xf4) {
          if (byte === 0xf0) state.lower = 0x90; // else overlong
          if (byte === 0xf4) state.upper = 0x8f; // else above U+10FFFF
          state.needed = 3;
          state.code = byte & 0x7;
        } else {
          damage();
        }
        continue;
      }
      if (byte < state.lower || byte > state.upper) {
        damage();
        i--; // the byte may start a sequence
        continue;
      }
      state.lower = 0x80;
      state.upper = 0xbf;
      state.code = (state.code << 6) | (byte & 0x3f);
      if (++state.seen === state.needed) {
        const { code } = state;
        state.needed = state.seen = state.code = 0;
        emitCode(code);
      }
    }
    if (last && state.needed !== 0) damage();
    return finishText(out);
  }

  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const sextetOf = (code) => {
    if (code >= 65 && code <= 90) return code - 65;
    if (code >= 97 && code <= 122) return code - 71;
    if (code >= 48 && code <= 57) return code + 4;
    return code === 43 ? 62 : code === 47 ? 63 : -1;
  };
  const requireInput = (args, fn) => {
    if (args.length === 0) throw codedError(NativeTypeError, "ERR_MISSING_ARGS", 'The "data" argument must be specified', fn);
    return `${args[0]}`;
  };

  const { atob, btoa } = {
    btoa() {
      const text = requireInput(arguments, btoa);
      let out = "";
      for (let i = 0; i < text.length; i += 3) {
        let bits = 0;
        for (let j = 0; j < 3; j++) {
          const code = i + j < text.length ? StringPrototypeCharCodeAt(text, i + j) : 0;
          if (code > 255) throw domError("InvalidCharacterError", "Invalid character", btoa);
          bits = (bits << 8) | code;
        }
        out += alphabet[bits >> 18] + alphabet[(bits >> 12) & 63] +
          (i + 1 < text.length ? alphabet[(bits >> 6) & 63] : "=") + (i + 2 < text.length ? alphabet[bits & 63] : "=");
      }
      return out;
    },
    atob() {
      const text = requireInput(arguments, atob);
      const fail = (message) => domError("InvalidCharacterError", message, atob);
      const out = newTextBuilder();
      let bits = 0;
      let count = 0; // digits
      let padding = 0;
      for (let i = 0; i < text.length; i++) {
        const code = StringPrototypeCharCodeAt(text, i);
        if (code === 32 || code === 9 || code === 10 || code === 12 || code === 13) continue;
        if (code === 61) {
          padding++;
          continue;
        }
        const sextet = sextetOf(code);
        if (sextet < 0 || padding > 0) throw fail("Invalid character");
        bits = ((bits << 6) | sextet) & 0xffffff;
        if (++count % 4 === 0) {
          appendCodePoint(out, bits >> 16);
          appendCodePoint(out, (bits >> 8) & 255);
          appendCodePoint(out, bits & 255);
        }
      }
      const rest = count % 4;
      // Padding may be missing. Padding that is there must be right.
      if (padding > 2 || (padding > 0 && rest !== 1 && rest + padding !== 4)) throw fail("Invalid character");
      if (rest === 1) throw fail("The string to be decoded is not correctly encoded.");
      if (rest === 2) appendCodePoint(out, (bits >> 4) & 255);
      if (rest === 3) {
        appendCodePoint(out, (bits >> 10) & 255);
        appendCodePoint(out, (bits >> 2) & 255);
      }
      return finishText(out);
    },
  };
  defineHidden(global, "atob", setMeta(atob, "atob", 1));
  defineHidden(global, "btoa", setMeta(btoa, "btoa", 1));
})();
