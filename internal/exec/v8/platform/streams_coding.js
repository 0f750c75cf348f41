// The streams that convert text and compressed content.

const { TypeError, isObject, newList, bytesOf, codedError, invalidArgument, compute } = platform;
const { expose, defineLevelInspection, illegalInvocation } = platform.load("webidl");
const { badValue } = platform.load("streams_core");
const { createInternal, sidesOf } = platform.load("streams_transform");
const { internal: blobs } = platform.load("blob");
const charCodeAt = platform.method("String.prototype", "charCodeAt");
const slice = platform.method("String.prototype", "slice");
const lengthOf = platform.getter("TypedArray.prototype", "length");
const TextDecoder = platform.provided("TextDecoder");
const decode = platform.method("TextDecoder.prototype", "decode");
const encodingOf = platform.getter("TextDecoder.prototype", "encoding");
const fatalOf = platform.getter("TextDecoder.prototype", "fatal");
const ignoreBOMOf = platform.getter("TextDecoder.prototype", "ignoreBOM");

const needBytes = (chunk) => {
  const bytes = bytesOf(chunk);
  if (bytes === undefined || platform.host.kindOf(chunk) === "sharedArrayBuffer") {
    throw invalidArgument("chunk", "an instance of ArrayBuffer or ArrayBufferView", chunk);
  }
  return bytes;
};

class TextEncoderStream {
  #sides;
  constructor() {
    // A high surrogate at the end of a chunk waits for the next chunk.
    let pending = "";
    this.#sides = sidesOf(createInternal((chunk, enqueue) => {
      let text = pending + `${chunk}`;
      pending = "";
      const last = text.length === 0 ? 0 : charCodeAt(text, text.length - 1);
      if (last >= 0xd800 && last <= 0xdbff) {
        pending = slice(text, -1);
        text = slice(text, 0, -1);
      }
      if (text !== "") enqueue(blobs.encodeText(text));
    }, (enqueue) => {
      if (pending !== "") enqueue(blobs.encodeText(pending));
    }));
  }
  static sides(value) {
    if (!isObject(value) || !(#sides in value)) throw illegalInvocation("TextEncoderStream");
    return value.#sides;
  }
  get encoding() { encoderSides(this); return "utf-8"; }
  get readable() { return encoderSides(this).readable(); }
  get writable() { return encoderSides(this).writable(); }
}
const { sides: encoderSides } = TextEncoderStream;
delete TextEncoderStream.sides;
expose(TextEncoderStream, "TextEncoderStream");
defineLevelInspection(TextEncoderStream, "TextEncoderStream", (stream) => {
  const sides = encoderSides(stream);
  return { encoding: "utf-8", readable: sides.readable(), writable: sides.writable() };
});

class TextDecoderStream {
  #sides;
  #decoder;
  constructor(label = "utf-8", options = undefined) {
    const decoder = new TextDecoder(label, options);
    const more = { __proto__: null, stream: true };
    this.#decoder = decoder;
    this.#sides = sidesOf(createInternal((chunk, enqueue) => {
      const text = decode(decoder, needBytes(chunk), more);
      if (text !== "") enqueue(text);
    }, (enqueue) => {
      const text = decode(decoder);
      if (text !== "") enqueue(text);
    }));
  }
  static sides(value) {
    if (!isObject(value) || !(#sides in value)) throw illegalInvocation("TextDecoderStream");
    return value.#sides;
  }
  static decoder(value) {
    decoderSides(value);
    return value.#decoder;
  }
  get encoding() { return encodingOf(decoderOf(this)); }
  get fatal() { return fatalOf(decoderOf(this)); }
  get ignoreBOM() { return ignoreBOMOf(decoderOf(this)); }
  get readable() { return decoderSides(this).readable(); }
  get writable() { return decoderSides(this).writable(); }
}
const { sides: decoderSides, decoder: decoderOf } = TextDecoderStream;
delete TextDecoderStream.sides;
delete TextDecoderStream.decoder;
expose(TextDecoderStream, "TextDecoderStream");
defineLevelInspection(TextDecoderStream, "TextDecoderStream", (stream) => {
  const sides = decoderSides(stream);
  const decoder = decoderOf(stream);
  return {
    encoding: encodingOf(decoder), fatal: fatalOf(decoder), ignoreBOM: ignoreBOMOf(decoder), readable: sides.readable(), writable: sides.writable(),
  };
});

// ---- compression --------------------------------------------------------------------

// The state of a compressor cannot be saved in a heap. So a stream gathers the chunks that are
// written, and computes when it is closed. All output is one chunk.
const gather = (format, name) => {
  if (format !== "gzip" && format !== "deflate" && format !== "deflate-raw") throw badValue(TypeError, "argument 'format'", format);
  const chunks = newList();
  return sidesOf(createInternal((chunk) => { chunks[chunks.length] = blobs.copyBytes(needBytes(chunk)); }, (enqueue) => {
    const input = blobs.concatBytes(chunks);
    chunks.length = 0;
    const output = compute(name, format, input);
    if (lengthOf(output) > 0) enqueue(output);
  }));
};

const needFormat = (args) => {
  if (args.length === 0) throw codedError(TypeError, "ERR_MISSING_ARGS", 'The "format" argument must be specified');
};

class CompressionStream {
  #sides;
  constructor(format) {
    needFormat(arguments);
    this.#sides = gather(`${format}`, "compress");
  }
  static sides(value) {
    if (!isObject(value) || !(#sides in value)) throw illegalInvocation("CompressionStream");
    return value.#sides;
  }
  get readable() { return compressionSides(this).readable(); }
  get writable() { return compressionSides(this).writable(); }
}
const { sides: compressionSides } = CompressionStream;
delete CompressionStream.sides;

class DecompressionStream {
  #sides;
  constructor(format) {
    needFormat(arguments);
    this.#sides = gather(`${format}`, "decompress");
  }
  static sides(value) {
    if (!isObject(value) || !(#sides in value)) throw illegalInvocation("DecompressionStream");
    return value.#sides;
  }
  get readable() { return decompressionSides(this).readable(); }
  get writable() { return decompressionSides(this).writable(); }
}
const { sides: decompressionSides } = DecompressionStream;
delete DecompressionStream.sides;

expose(CompressionStream, "CompressionStream");
expose(DecompressionStream, "DecompressionStream");
const show = (sides) => ({ readable: sides.readable(), writable: sides.writable() });
defineLevelInspection(CompressionStream, "CompressionStream", (stream) => show(compressionSides(stream)));
defineLevelInspection(DecompressionStream, "DecompressionStream", (stream) => show(decompressionSides(stream)));

return { TextEncoderStream, TextDecoderStream, CompressionStream, DecompressionStream };
