// node:string_decoder: decodes chunks of bytes, and keeps what is incomplete at their ends.

const { bytesOf, codedError, invalidArgument, isObject, lengthOf, TypeError, Uint8Array } = platform;
const { encodingOf, toText } = platform.load("node_encodings");
const { toModule } = platform.load("node_tools");
const setBytes = platform.method("TypedArray.prototype", "set");

// completeSize returns how many of the bytes form complete units.
const completeSize = (bytes, encoding) => {
  const size = lengthOf(bytes);
  switch (encoding) {
    case "base64": case "base64url": return size - (size % 3);
    case "utf16le": {
      const even = size - (size % 2);
      return even >= 2 && bytes[even - 1] >= 0xd8 && bytes[even - 1] <= 0xdb ? even - 2 : even; // a first surrogate
    }
    case "utf8":
      for (let back = 1; back <= 3 && back <= size; back++) {
        const byte = bytes[size - back];
        if ((byte & 0xc0) === 0x80) continue;
        const needed = byte >= 0xf0 && byte <= 0xf4 ? 4 : byte >= 0xe0 && byte < 0xf0 ? 3 : byte >= 0xc2 && byte < 0xe0 ? 2 : 1;
        return needed > back ? size - back : size;
      }
  }
  return size;
};

class StringDecoder {
  #rest = new Uint8Array(0);
  #encoding;
  constructor(encoding) {
    this.#encoding = encodingOf(encoding);
    if (this.#encoding === undefined) throw codedError(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${encoding}`, StringDecoder);
    platform.ObjectDefineProperty(this, "encoding", { __proto__: null, value: this.#encoding, writable: true, enumerable: true, configurable: true });
  }
  write(buffer) {
    if (typeof buffer === "string") return buffer;
    const bytes = isObject(buffer) ? bytesOf(buffer) : undefined;
    if (bytes === undefined) throw invalidArgument("buf", "an instance of Buffer, TypedArray, or DataView", buffer, StringDecoder.prototype.write);
    const kept = lengthOf(this.#rest);
    const total = kept + lengthOf(bytes);
    const all = new Uint8Array(total);
    setBytes(all, this.#rest);
    setBytes(all, bytes, kept);
    const size = completeSize(all, this.#encoding);
    this.#rest = new Uint8Array(new Uint8Array(platform.bufferOf(all), size, total - size));
    return toText(all, this.#encoding, 0, size);
  }
  end(buffer) {
    const out = buffer === undefined ? "" : this.write(buffer);
    const rest = this.#rest;
    this.#rest = new Uint8Array(0);
    return out + toText(rest, this.#encoding, 0, lengthOf(rest));
  }
}

return { exports: toModule({ StringDecoder }), hidden: { StringDecoder } };
