// The encodings of Buffer: strings to bytes and back.

const { bufferOf, lengthOf, newList, ReflectApply, Uint8Array } = platform;
const { text } = platform.load("node_tools");
const { charCodeAt, fromCharCode, toLowerCase } = text;
const TextEncoder = platform.provided("TextEncoder");
const TextDecoder = platform.provided("TextDecoder");
const encode = platform.method("TextEncoder.prototype", "encode");
const decode = platform.method("TextDecoder.prototype", "decode");

const names = {
  __proto__: null,
  utf8: "utf8", "utf-8": "utf8", hex: "hex", base64: "base64", base64url: "base64url", ascii: "ascii", latin1: "latin1", binary: "latin1",
  ucs2: "utf16le", "ucs-2": "utf16le", utf16le: "utf16le", "utf-16le": "utf16le",
};

// encodingOf returns the name of an encoding as this part uses it, or undefined.
const encodingOf = (name) => (name === undefined || name === null || name === "" ? "utf8" : typeof name === "string" ? names[toLowerCase(name)] : undefined);

const hexDigit = (code) => (code >= 48 && code <= 57 ? code - 48 : code >= 97 && code <= 102 ? code - 87 : code >= 65 && code <= 70 ? code - 55 : -1);
const base64Digit = (code) => {
  if (code >= 65 && code <= 90) return code - 65;
  if (code >= 97 && code <= 122) return code - 71;
  if (code >= 48 && code <= 57) return code + 4;
  return code === 43 || code === 45 ? 62 : code === 47 || code === 95 ? 63 : -1;
};

const take = (bytes, size) => (size === lengthOf(bytes) ? bytes : new Uint8Array(bufferOf(bytes), 0, size));

// toBytes returns the bytes of a string.
const toBytes = (string, encoding) => {
  const size = string.length;
  switch (encoding) {
    case "hex": {
      const bytes = new Uint8Array(size >> 1);
      let at = 0;
      for (; at < size >> 1; at++) {
        const high = hexDigit(charCodeAt(string, 2 * at));
        const low = hexDigit(charCodeAt(string, 2 * at + 1));
        if (high < 0 || low < 0) break;
        bytes[at] = 16 * high + low;
      }
      return take(bytes, at);
    }
    case "base64": case "base64url": {
      const bytes = new Uint8Array(((size * 3) >> 2) + 3);
      let at = 0;
      let bits = 0;
      let count = 0;
      for (let i = 0; i < size; i++) {
        const code = charCodeAt(string, i);
        if (code === 61) break;
        const digit = base64Digit(code);
        if (digit < 0) continue; // other characters are ignored
        bits = ((bits << 6) | digit) & 0xffffff;
        count++;
        if (count % 4 === 2) bytes[at++] = bits >> 4;
        else if (count % 4 === 3) bytes[at++] = bits >> 2;
        else if (count % 4 === 0) bytes[at++] = bits;
      }
      return take(bytes, at);
    }
    case "ascii": case "latin1": {
      const bytes = new Uint8Array(size);
      for (let i = 0; i < size; i++) bytes[i] = charCodeAt(string, i);
      return bytes;
    }
    case "utf16le": {
      const bytes = new Uint8Array(2 * size);
      for (let i = 0; i < size; i++) {
        const code = charCodeAt(string, i);
        bytes[2 * i] = code;
        bytes[2 * i + 1] = code >> 8;
      }
      return bytes;
    }
  }
  return encode(new TextEncoder(), string);
};

const byteLength = (string, encoding) => {
  switch (encoding) {
    case "hex": return string.length >> 1;
    case "ascii": case "latin1": return string.length;
    case "utf16le": return 2 * string.length;
    case "base64": case "base64url": {
      let size = string.length;
      if (size > 0 && string[size - 1] === "=") size--;
      if (size > 1 && string[size - 1] === "=") size--;
      return (size * 3) >> 2;
    }
  }
  return lengthOf(toBytes(string, encoding));
};

// fromUnits joins code units, some thousands at a time.
const unitsPerCall = 4096;
const fromUnits = (count, unitAt) => {
  let out = "";
  for (let start = 0; start < count; start += unitsPerCall) {
    const units = newList();
    for (let i = start; i < count && i < start + unitsPerCall; i++) units[units.length] = unitAt(i);
    out += ReflectApply(fromCharCode, undefined, units);
  }
  return out;
};

const hexDigits = "0123456789abcdef";
const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const base64urlAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// toText returns the text of the bytes from start to end.
const toText = (bytes, encoding, start, end) => {
  switch (encoding) {
    case "hex": {
      let out = "";
      for (let i = start; i < end; i++) out += hexDigits[bytes[i] >> 4] + hexDigits[bytes[i] & 15];
      return out;
    }
    case "base64": case "base64url": {
      const alphabet = encoding === "base64" ? base64Alphabet : base64urlAlphabet;
      const pad = encoding === "base64" ? "=" : "";
      let out = "";
      for (let i = start; i < end; i += 3) {
        const bits = (bytes[i] << 16) | ((i + 1 < end ? bytes[i + 1] : 0) << 8) | (i + 2 < end ? bytes[i + 2] : 0);
        out += alphabet[bits >> 18] + alphabet[(bits >> 12) & 63] + (i + 1 < end ? alphabet[(bits >> 6) & 63] : pad) + (i + 2 < end ? alphabet[bits & 63] : pad);
      }
      return out;
    }
    case "ascii": return fromUnits(end - start, (i) => bytes[start + i] & 127);
    case "latin1": return fromUnits(end - start, (i) => bytes[start + i]);
    case "utf16le": return fromUnits((end - start) >> 1, (i) => bytes[start + 2 * i] | (bytes[start + 2 * i + 1] << 8));
  }
  const view = new Uint8Array(bufferOf(bytes), platform.offsetOf(bytes) + start, end - start);
  return decode(new TextDecoder("utf-8", { __proto__: null, ignoreBOM: true, fatal: false }), view);
};

return { encodingOf, toBytes, toText, byteLength };
