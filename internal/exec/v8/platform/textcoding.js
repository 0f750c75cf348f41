// TextEncoder and TextDecoder. The part encodings decodes what is not UTF-8.

const {
  TypeError, RangeError, Uint8Array, bytesOf, classNameOf, codedError, host, inspectCustom, inspectWith, invalidArgument, isObject, lengthOf, ObjectDefineProperty, setTag,
} = platform;
const { newTextBuilder, appendCodePoint, finishText } = platform.load("textbuilder");
const codePointAt = platform.method("String.prototype", "codePointAt");
const toLowerCase = platform.method("String.prototype", "toLowerCase");
const nameOfView = platform.getter("TypedArray.prototype", platform.SymbolToStringTag);

// scalarAt returns the code point at an index, and U+FFFD for a lone surrogate.
const scalarAt = (text, index) => {
  const code = codePointAt(text, index);
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

const requireThis = (isOwn, name) => {
  if (!isOwn) throw codedError(TypeError, "ERR_INVALID_THIS", `Value of "this" must be of type ${name}`);
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
    const bytes = new Uint8Array(size);
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
    if (host.kindOf(destination) !== "typedArray" || nameOfView(destination) !== "Uint8Array") {
      throw invalidArgument("dest", "an instance of Uint8Array", destination, encodeInto);
    }
    const capacity = lengthOf(destination);
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
    const lower = toLowerCase(label);
    if (lower !== "utf-8" && lower !== "utf8") this.#encoding = platform.load("encodings").nameOf(label);
    if (this.#encoding === undefined) {
      throw codedError(RangeError, "ERR_ENCODING_NOT_SUPPORTED", `The "${label}" encoding is not supported`, TextDecoder);
    }
    if (this.#encoding !== "utf-8") this.#state = platform.load("encodings").newState();
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
    const bytes = input === undefined ? new Uint8Array(0) : bytesOf(input);
    if (bytes === undefined) {
      throw invalidArgument("list", "an instance of SharedArrayBuffer, ArrayBuffer or ArrayBufferView", input, decode);
    }
    const given = options !== undefined && options !== null;
    if (given && !isObject(options)) throw invalidArgument("options", "of type object", options, decode);
    const stream = given && options.stream ? true : false;
    const state = this.#state;
    if (this.#encoding !== "utf-8") {
      const { newState, decode: decodeOther } = platform.load("encodings");
      const other = decodeOther(this.#encoding, state, bytes, !stream, this.#ignoreBOM);
      const isRefused = this.#fatal && other.damaged;
      if (!stream || isRefused) this.#state = newState();
      if (isRefused) {
        throw codedError(TypeError, "ERR_ENCODING_INVALID_ENCODED_DATA", `The encoded data was not valid for encoding ${this.#encoding}`, decode);
      }
      return other.text;
    }
    const text = decodeUtf8(state, bytes, this.#ignoreBOM, !stream);
    if (!stream || state.damaged) this.#state = newDecoderState();
    if (state.damaged && this.#fatal) {
      throw codedError(TypeError, "ERR_ENCODING_INVALID_ENCODED_DATA", "The encoded data was not valid for encoding utf-8", decode);
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
  const length = lengthOf(bytes);
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

return { TextEncoder, TextDecoder };
