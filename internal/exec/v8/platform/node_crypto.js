// node:crypto: hashes, random bytes, and what crypto.subtle does. There are no ciphers.

const { bytesOf, codedError, compute, host, invalidArgument, isObject, lengthOf, ObjectKeys, RangeError, TypeError, Uint8Array, Error } = platform;
const { text, needFunction, needInteger, needString, nodeError, outOfRange, isInteger, toModule } = platform.load("node_tools");
const { encodingOf, toBytes, toText } = platform.load("node_encodings");
const { toBuffer } = platform.load("node_buffer");
const setBytes = platform.method("TypedArray.prototype", "set");
const queue = platform.original("globalThis", "queueMicrotask");
const trunc = platform.original("Math", "trunc");
const webCrypto = platform.original("globalThis", "crypto");
const randomUUID = platform.method("Crypto.prototype", "randomUUID");
const getRandomValues = platform.method("Crypto.prototype", "getRandomValues");

const hashNames = {
  __proto__: null,
  md5: "MD5", sha1: "SHA-1", sha224: "SHA-224", sha256: "SHA-256", sha384: "SHA-384", sha512: "SHA-512", "sha512-224": "SHA-512/224", "sha512-256": "SHA-512/256",
  "sha3-224": "SHA3-224", "sha3-256": "SHA3-256", "sha3-384": "SHA3-384", "sha3-512": "SHA3-512",
};
const hashOf = (name) => {
  const lower = text.toLowerCase(name);
  return hashNames[lower] ?? hashNames[platform.replaceText(lower, "sha-", "sha")] ?? (text.startsWith(lower, "rsa-") ? hashNames[text.slice(lower, 4)] : undefined);
};
const maxRandom = 2147483647;

const toInput = (data, encoding, name, fn) => {
  if (typeof data === "string") return toBytes(data, encodingOf(encoding) ?? "utf8");
  const bytes = isObject(data) && (host.kindOf(data) === "typedArray" || host.kindOf(data) === "dataView") ? bytesOf(data) : undefined;
  if (bytes === undefined) throw invalidArgument(name, "of type string or an instance of Buffer, TypedArray, or DataView", data, fn);
  return new Uint8Array(bytes);
};
const toKey = (key, name, fn) => {
  const bytes = typeof key === "string" ? toBytes(key, "utf8") : isObject(key) ? bytesOf(key) : undefined;
  if (bytes === undefined) throw invalidArgument(name, "of type string or an instance of ArrayBuffer, Buffer, TypedArray, DataView, KeyObject, or CryptoKey", key, fn);
  return new Uint8Array(bytes);
};

// A hash keeps the chunks of its data until digest: then it is computed at once.
const joinChunks = (chunks) => {
  let size = 0;
  for (let i = 0; i < chunks.length; i++) size += lengthOf(chunks[i]);
  const all = new Uint8Array(size);
  let at = 0;
  for (let i = 0; i < chunks.length; i++) {
    setBytes(all, chunks[i], at);
    at += lengthOf(chunks[i]);
  }
  return all;
};

class Hash {
  #name;
  #chunks = platform.newList();
  #isDone = false;
  constructor(algorithm) {
    needString(algorithm, "algorithm", Hash);
    this.#name = hashOf(algorithm);
    if (this.#name === undefined) throw new Error("Digest method not supported");
  }
  update(data, inputEncoding) {
    if (this.#isDone) throw nodeError(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called", Hash.prototype.update);
    const chunks = this.#chunks;
    chunks[chunks.length] = toInput(data, inputEncoding, "data", Hash.prototype.update);
    return this;
  }
  digest(outputEncoding) {
    if (this.#isDone) throw nodeError(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called", Hash.prototype.digest);
    this.#isDone = true;
    return finish(compute("hash", this.#name, joinChunks(this.#chunks)), outputEncoding);
  }
  copy() {
    if (this.#isDone) throw nodeError(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called", Hash.prototype.copy);
    const copy = new Hash("sha1");
    copy.#name = this.#name;
    for (let i = 0; i < this.#chunks.length; i++) copy.#chunks[i] = this.#chunks[i];
    return copy;
  }
}

class Hmac {
  #name;
  #key;
  #chunks = platform.newList();
  #isDone = false;
  constructor(algorithm, key) {
    needString(algorithm, "hmac", Hmac);
    this.#key = toKey(key, "key", Hmac);
    this.#name = hashOf(algorithm);
    if (this.#name === undefined) throw codedError(TypeError, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${algorithm}`, Hmac);
  }
  update(data, inputEncoding) {
    if (this.#isDone) throw nodeError(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called", Hmac.prototype.update);
    const chunks = this.#chunks;
    chunks[chunks.length] = toInput(data, inputEncoding, "data", Hmac.prototype.update);
    return this;
  }
  digest(outputEncoding) {
    const empty = new Uint8Array(0);
    if (this.#isDone) return finish(empty, outputEncoding);
    this.#isDone = true;
    return finish(compute("hmac", this.#name, this.#key, joinChunks(this.#chunks)), outputEncoding);
  }
}

const finish = (bytes, encoding) => (encoding === undefined || encoding === null || encoding === "buffer" ? toBuffer(bytes) : toText(bytes, encodingOf(encoding) ?? "utf8", 0, lengthOf(bytes)));

const randomBytes = (size) => {
  const bytes = new Uint8Array(size);
  host.fillRandom(bytes);
  return bytes;
};

// fillRandom fills a part of a buffer. offset and size count elements, which are bytes unless the
// buffer is an array of larger ones.
const fillRandom = (buffer, offset, size, fn) => {
  const bytes = isObject(buffer) ? bytesOf(buffer) : undefined;
  if (bytes === undefined) throw invalidArgument("buf", "an instance of ArrayBuffer or ArrayBufferView", buffer, fn);
  const total = lengthOf(bytes);
  const element = host.kindOf(buffer) === "typedArray" && lengthOf(buffer) > 0 ? total / lengthOf(buffer) : 1;
  if (typeof offset !== "number") throw invalidArgument("offset", "of type number", offset, fn);
  offset *= element;
  if (!(offset >= 0 && offset <= total)) throw outOfRange("offset", `>= 0 && <= ${total}`, offset, fn);
  offset = trunc(offset);
  if (size === undefined) size = total - offset;
  else {
    if (typeof size !== "number") throw invalidArgument("size", "of type number", size, fn);
    size *= element;
    if (!(size >= 0 && size <= maxRandom)) throw outOfRange("size", `>= 0 && <= ${maxRandom}`, size, fn);
    if (size + offset > total) throw outOfRange("size + offset", `<= ${total}`, size + offset, fn);
    size = trunc(size);
  }
  setBytes(bytes, randomBytes(size), offset);
  return buffer;
};

// later calls a callback in a microtask.
const later = (callback, error, value) => queue(() => callback(error, value));

const randomInteger = (min, max) => {
  const range = max - min;
  const limit = 281474976710656 - (281474976710656 % range); // 2 ** 48
  for (;;) {
    const bytes = randomBytes(6);
    let value = 0;
    for (let i = 0; i < 6; i++) value = value * 256 + bytes[i];
    if (value < limit) return min + (value % range);
  }
};

const derive = (password, salt, iterations, length, digest, fn) => {
  needString(digest, "digest", fn);
  const secret = toKey(password, "password", fn);
  const salted = toKey(salt, "salt", fn);
  needInteger(iterations, "iterations", 1, maxRandom, fn);
  needInteger(length, "keylen", 0, maxRandom, fn);
  const hash = hashOf(digest);
  if (hash === undefined) throw codedError(TypeError, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${digest}`, fn);
  return toBuffer(compute("pbkdf2", hash, secret, salted, `${iterations}`, `${length}`));
};

const notBytes = (name) => codedError(TypeError, "ERR_INVALID_ARG_TYPE", `The "${name}" argument must be an instance of ArrayBuffer, Buffer, TypedArray, or DataView.`, crypto.timingSafeEqual);

const crypto = {
  createHash(algorithm, options) { return new Hash(algorithm); },
  createHmac(hmac, key, options) { return new Hmac(hmac, key); },
  getHashes() {
    return ObjectKeys(hashNames);
  },
  hash(algorithm, data, outputEncoding = "hex") {
    needString(algorithm, "algorithm", crypto.hash);
    const name = hashOf(algorithm);
    if (name === undefined) throw new Error("Digest method not supported");
    return finish(compute("hash", name, toInput(data, "utf8", "input", crypto.hash)), outputEncoding);
  },
  pbkdf2Sync(password, salt, iterations, keylen, digest) { return derive(password, salt, iterations, keylen, digest, crypto.pbkdf2Sync); },
  pbkdf2(password, salt, iterations, keylen, digest, callback) {
    needFunction(callback, "callback", crypto.pbkdf2);
    later(callback, null, derive(password, salt, iterations, keylen, digest, crypto.pbkdf2));
  },
  hkdfSync(digest, ikm, salt, info, keylen) {
    needString(digest, "digest", crypto.hkdfSync);
    const secret = toKey(ikm, "ikm", crypto.hkdfSync);
    const salted = toKey(salt, "salt", crypto.hkdfSync);
    const described = toKey(info, "info", crypto.hkdfSync);
    needInteger(keylen, "length", 0, maxRandom, crypto.hkdfSync);
    const hash = hashOf(digest);
    if (hash === undefined) throw codedError(TypeError, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${digest}`, crypto.hkdfSync);
    return platform.bufferOf(compute("hkdf", hash, secret, salted, described, `${keylen}`));
  },
  randomBytes(size, callback) {
    if (typeof size !== "number") throw invalidArgument("size", "of type number", size, crypto.randomBytes);
    if (!isInteger(size) || size < 0 || size > maxRandom) throw outOfRange("size", `>= 0 && <= ${maxRandom}`, size, crypto.randomBytes);
    const bytes = toBuffer(randomBytes(size));
    if (callback === undefined) return bytes;
    needFunction(callback, "callback", crypto.randomBytes);
    later(callback, null, bytes);
  },
  randomFillSync(buffer, offset = 0, size) { return fillRandom(buffer, offset, size, crypto.randomFillSync); },
  randomFill(buffer, offset, size, callback) {
    if (typeof offset === "function") {
      callback = offset;
      offset = size = undefined;
    } else if (typeof size === "function") {
      callback = size;
      size = undefined;
    }
    needFunction(callback, "callback", crypto.randomFill);
    later(callback, null, fillRandom(buffer, offset ?? 0, size, crypto.randomFill));
  },
  randomInt(min, max, callback) {
    if (max === undefined || typeof max === "function") {
      callback = max;
      max = min;
      min = 0;
    }
    const isSafe = platform.original("Number", "isSafeInteger");
    if (!isSafe(min)) throw invalidArgument("min", "a safe integer", min, crypto.randomInt);
    if (!isSafe(max)) throw invalidArgument("max", "a safe integer", max, crypto.randomInt);
    if (max <= min) throw outOfRange("max", `greater than the value of "min" (${min})`, max, crypto.randomInt);
    if (max - min > 281474976710655) throw outOfRange("max - min", "<= 281474976710655", platform.load("node_tools").withCommas(max - min), crypto.randomInt);
    const value = randomInteger(min, max);
    if (callback === undefined) return value;
    needFunction(callback, "callback", crypto.randomInt);
    later(callback, undefined, value);
  },
  randomUUID() { return randomUUID(webCrypto); },
  getRandomValues(array) { return getRandomValues(webCrypto, array); },
  timingSafeEqual(a, b) {
    const x = isObject(a) ? bytesOf(a) : undefined;
    if (x === undefined) throw notBytes("buf1");
    const y = isObject(b) ? bytesOf(b) : undefined;
    if (y === undefined) throw notBytes("buf2");
    const size = lengthOf(x);
    if (size !== lengthOf(y)) throw codedError(RangeError, "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length", crypto.timingSafeEqual);
    let different = 0;
    for (let i = 0; i < size; i++) different |= x[i] ^ y[i];
    return different === 0;
  },
  Hash,
  Hmac,
  webcrypto: webCrypto,
};
platform.ObjectDefineProperty(crypto, "subtle", { __proto__: null, get: () => platform.load("subtle").subtle, enumerable: true, configurable: true });

return { exports: toModule(crypto), hidden: { Hash, Hmac } };
