// crypto.subtle. The worker computes each operation at once, while the script waits: the promise
// that a method returns is already settled. All random bytes come from the seed of the run.

const {
  bufferOf, codedError, compute, domError, host, lengthOf, listIncludes, ObjectCreate, ObjectDefineProperty, ObjectSetPrototypeOf, setTag, TypeError, Uint8Array,
} = platform;
const PromiseClass = platform.Promise;
const { newKey } = platform.load("cryptokey");
const algorithms = platform.load("subtle_algorithms");
const { normalize, supports, toUsages, toFormat, toKey, toBytes, checkUsages, commonUsages, usagesOf, blockBits, isAES, isRSA, isEC, isCurve, prefix } = algorithms;
const { importKey, exportKey, readJWK, keyAlgorithm } = platform.load("subtle_import");
const parseJSON = platform.original("JSON", "parse");
const stringifyJSON = platform.original("JSON", "stringify");
const TextEncoder = platform.provided("TextEncoder");
const TextDecoder = platform.provided("TextDecoder");
const encodeText = platform.method("TextEncoder.prototype", "encode");
const decodeText = platform.method("TextDecoder.prototype", "decode");

const empty = () => new Uint8Array(0);
const randomBytes = (size) => {
  const bytes = new Uint8Array(size);
  host.fillRandom(bytes);
  return bytes;
};

const operationError = (message) => domError("OperationError", message);
const invalidAccess = (message) => domError("InvalidAccessError", message);

// ---- encryption ------------------------------------------------------------------------

const tagLengths = [32, 64, 96, 104, 112, 120, 128];

const cipher = (encrypt, algorithm, slots, data) => {
  const { material, type } = slots;
  const operation = encrypt ? "aesEncrypt" : "aesDecrypt";
  switch (algorithm.name) {
    case "AES-CBC": return compute(operation, "CBC", material, algorithm.iv, "0", "", data);
    case "AES-CTR": return compute(operation, "CTR", material, algorithm.counter, `${algorithm.length}`, "", data);
    case "AES-KW": return compute(operation, "KW", material, "", "0", "", data);
    case "AES-GCM": {
      const { tagLength = 128, additionalData = "" } = algorithm;
      if (!listIncludes(tagLengths, tagLength)) throw operationError(`${tagLength} is not a valid AES-GCM tag length`);
      return compute(operation, "GCM", material, algorithm.iv, `${tagLength / 8}`, additionalData, data);
    }
  }
  if (type !== (encrypt ? "public" : "private")) throw invalidAccess(`Unable to use this key to ${encrypt ? "encrypt" : "decrypt"}`);
  const { label = "" } = algorithm;
  const hash = slots.algorithm.hash.name;
  return encrypt ? compute("oaepEncrypt", hash, material, label, randomBytes(hashSize(hash)), data) : compute("oaepDecrypt", hash, material, label, data);
};

const hashSize = (hash) => (hash === "SHA-1" ? 20 : +platform.splitText(hash, "-")[1] / 8);

const useCipher = (method, usage, algorithm, slots, data) => {
  if (algorithm.name !== slots.algorithm.name || !listIncludes(slots.usages, usage)) throw invalidAccess("The requested operation is not valid for the provided key");
  return cipher(method === "encrypt", algorithm, slots, data);
};

// ---- signatures --------------------------------------------------------------------------

const hashOf = (algorithm, slots) => (algorithm.hash !== undefined ? algorithm.hash.name : slots.algorithm.hash !== undefined ? slots.algorithm.hash.name : "");

const sign = (algorithm, slots, data) => {
  if (algorithm.name === "HMAC") return compute("hmac", hashOf(algorithm, slots), slots.material, data);
  if (slots.type !== "private") throw invalidAccess("Unable to use this key to sign");
  const { saltLength = 0 } = algorithm;
  if (saltLength > 1024) throw operationError("The salt is too long");
  return compute("sign", algorithm.name, hashOf(algorithm, slots), `${saltLength}`, slots.material, data, randomBytes(saltLength));
};

const sameBytes = (a, b) => {
  if (lengthOf(a) !== lengthOf(b)) return false;
  let different = 0;
  for (let i = 0; i < lengthOf(a); i++) different |= a[i] ^ b[i];
  return different === 0;
};

const verify = (algorithm, slots, signature, data) => {
  if (algorithm.name === "HMAC") return sameBytes(sign(algorithm, slots, data), signature);
  if (slots.type !== "public") throw invalidAccess("Unable to use this key to verify");
  const { saltLength = 0 } = algorithm;
  return compute("verify", algorithm.name, hashOf(algorithm, slots), `${saltLength}`, slots.material, signature, data)[0] === 1;
};

// ---- new keys ----------------------------------------------------------------------------

const refuseEmpty = (usages) => {
  if (usages.length === 0) throw domError("SyntaxError", "Usages cannot be empty when creating a key.");
};

const generateSecret = (algorithm, extractable, usages) => {
  const { name } = algorithm;
  checkUsages(usages, usagesOf[name].secret, name);
  let { length } = algorithm;
  let shown;
  if (isAES(name)) {
    if (length !== 128 && length !== 192 && length !== 256) throw operationError("AES key length must be 128, 192, or 256 bits");
    shown = { __proto__: null, name, length };
  } else {
    if (length === undefined) length = blockBits(algorithm.hash.name);
    if (length === 0) throw operationError("Zero-length key is not supported");
    if (length % 8 !== 0 || length > 65536) throw domError("NotSupportedError", "The length of an HMAC key must be a multiple of 8 bits, at most 65536");
    shown = { __proto__: null, name, length, hash: { __proto__: null, name: algorithm.hash.name } };
  }
  refuseEmpty(usages);
  return newKey("secret", extractable, shown, usages, randomBytes(length / 8));
};

const generatePair = (algorithm, extractable, usages) => {
  const { name } = algorithm;
  const allowed = usagesOf[name];
  for (let i = 0; i < usages.length; i++) {
    if (!listIncludes(allowed.public, usages[i]) && !listIncludes(allowed.private, usages[i])) {
      throw domError("SyntaxError", `Unsupported key usage for a key of ${name}`);
    }
  }
  let material;
  if (isRSA(name)) {
    refuseEmpty(commonUsages(usages, allowed.private));
    material = compute("rsaGenerate", `${algorithm.modulusLength}`, algorithm.publicExponent, randomBytes(64));
  } else if (isEC(name)) {
    if (!isCurve(algorithm.namedCurve)) throw domError("NotSupportedError", "Unrecognized namedCurve");
    refuseEmpty(commonUsages(usages, allowed.private));
    material = compute("ecGenerate", algorithm.namedCurve, randomBytes(66 * 8));
  } else {
    refuseEmpty(commonUsages(usages, allowed.private));
    material = compute("okpGenerate", name, randomBytes(32));
  }
  const spki = compute("keyPublic", material);
  const shown = keyAlgorithm(algorithm, spki);
  const pair = ObjectCreate(platform.original("globalThis", "Object").prototype);
  const set = (key, value) => ObjectDefineProperty(pair, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  set("publicKey", newKey("public", true, shown, commonUsages(usages, allowed.public), spki));
  set("privateKey", newKey("private", extractable, shown, commonUsages(usages, allowed.private), material));
  return pair;
};

// deriveBits returns length bits. null means all bits of an agreement.
const deriveBits = (algorithm, slots, length) => {
  const { name } = algorithm;
  if (name === "HKDF" || name === "PBKDF2") {
    if (length === null) throw operationError("length cannot be null");
    if (length % 8 !== 0) throw operationError("length must be a multiple of 8");
    return name === "HKDF"
      ? compute("hkdf", algorithm.hash.name, slots.material, algorithm.salt, algorithm.info, `${length / 8}`)
      : compute("pbkdf2", algorithm.hash.name, slots.material, algorithm.salt, `${algorithm.iterations}`, `${length / 8}`);
  }
  const other = toKey(algorithm.public, "deriveBits", 0);
  if (slots.type !== "private") throw invalidAccess("baseKey must be a private key");
  if (other.type !== "public") throw invalidAccess("algorithm.public must be a public key");
  if (other.algorithm.name !== name) throw invalidAccess("Keys must be of the same type");
  if (other.algorithm.namedCurve !== slots.algorithm.namedCurve) throw invalidAccess("Named curve mismatch");
  const secret = compute("agree", slots.material, other.material);
  if (length === null) return secret;
  if (length > lengthOf(secret) * 8) throw operationError("derived bit length is too small");
  const size = (length + 7 - ((length + 7) % 8)) / 8;
  const bits = new Uint8Array(new Uint8Array(bufferOf(secret), 0, size));
  if (length % 8 !== 0) bits[size - 1] &= 0xff << (8 - (length % 8));
  return bits;
};

// keyLength returns the bits that a derived key needs, or null if it takes any.
const keyLength = (algorithm) => {
  if (isAES(algorithm.name)) {
    const { length } = algorithm;
    if (length !== 128 && length !== 192 && length !== 256) throw operationError("Invalid key length");
    return length;
  }
  if (algorithm.name !== "HMAC") return null;
  const { length = blockBits(algorithm.hash.name) } = algorithm;
  if (length === 0) throw operationError("Invalid key length");
  return length;
};

const wrappingAlgorithm = (usual, given) => normalize(supports("wrapKey", given) ? "wrapKey" : usual, given);

// ---- the interface -----------------------------------------------------------------------

let isSubtle;
let subtle;
const token = ObjectCreate(null);

// settled runs a method and returns its promise. An argument that is missing or has the wrong
// type rejects the promise too.
const settled = (self, method, args, required, run) => {
  let outcome;
  let failed = false;
  try { // outside of the promise, which would be in the stack of an error
    if (!isSubtle(self)) throw codedError(TypeError, "ERR_INVALID_THIS", 'Value of "this" must be of type SubtleCrypto');
    if (args.length < required) {
      throw codedError(TypeError, "ERR_MISSING_ARGS", `${prefix(method)}${required} arguments required, but only ${args.length} present.`);
    }
    outcome = run();
  } catch (error) {
    failed = true;
    outcome = error;
  }
  return new PromiseClass((resolve, reject) => { (failed ? reject : resolve)(outcome); });
};

class SubtleCrypto {
  #isSubtle = true;
  constructor() {
    if (arguments[0] !== token) throw codedError(TypeError, "ERR_ILLEGAL_CONSTRUCTOR", "Illegal constructor", SubtleCrypto);
  }
  static {
    isSubtle = (value) => platform.isObject(value) && #isSubtle in value;
    subtle = new SubtleCrypto(token);
  }

  encrypt(algorithm, key, data) {
    return settled(this, "encrypt", arguments, 3, () => {
      const normalized = normalize("encrypt", algorithm);
      return bufferOf(useCipher("encrypt", "encrypt", normalized, toKey(key, "encrypt", 1), toBytes(data, "encrypt", 2)));
    });
  }
  decrypt(algorithm, key, data) {
    return settled(this, "decrypt", arguments, 3, () => {
      const normalized = normalize("encrypt", algorithm);
      return bufferOf(useCipher("decrypt", "decrypt", normalized, toKey(key, "decrypt", 1), toBytes(data, "decrypt", 2)));
    });
  }
  sign(algorithm, key, data) {
    return settled(this, "sign", arguments, 3, () => {
      const slots = toKey(key, "sign", 1);
      const bytes = toBytes(data, "sign", 2);
      const normalized = normalize("sign", algorithm);
      if (normalized.name !== slots.algorithm.name || !listIncludes(slots.usages, "sign")) throw invalidAccess("Unable to use this key to sign");
      return bufferOf(sign(normalized, slots, bytes));
    });
  }
  verify(algorithm, key, signature, data) {
    return settled(this, "verify", arguments, 4, () => {
      const slots = toKey(key, "verify", 1);
      const signed = toBytes(signature, "verify", 2);
      const bytes = toBytes(data, "verify", 3);
      const normalized = normalize("sign", algorithm);
      if (normalized.name !== slots.algorithm.name || !listIncludes(slots.usages, "verify")) throw invalidAccess("Unable to use this key to verify");
      return verify(normalized, slots, signed, bytes);
    });
  }
  digest(algorithm, data) {
    return settled(this, "digest", arguments, 2, () => {
      const bytes = toBytes(data, "digest", 1);
      return bufferOf(compute("hash", normalize("digest", algorithm).name, bytes));
    });
  }
  generateKey(algorithm, extractable, keyUsages) {
    return settled(this, "generateKey", arguments, 3, () => {
      const usages = toUsages(keyUsages, "generateKey", 2);
      const normalized = normalize("generateKey", algorithm);
      const generate = usagesOf[normalized.name].secret === undefined ? generatePair : generateSecret;
      return generate(normalized, extractable ? true : false, usages);
    });
  }
  deriveKey(algorithm, baseKey, derivedKeyType, extractable, keyUsages) {
    return settled(this, "deriveKey", arguments, 5, () => {
      const slots = toKey(baseKey, "deriveKey", 1);
      const usages = toUsages(keyUsages, "deriveKey", 4);
      const normalized = normalize("deriveBits", algorithm);
      const derived = normalize("importKey", derivedKeyType);
      const length = keyLength(normalize("getLength", derivedKeyType));
      if (!listIncludes(slots.usages, "deriveKey")) throw invalidAccess("baseKey does not have deriveKey usage");
      if (slots.algorithm.name !== normalized.name) throw invalidAccess("Key algorithm mismatch");
      return importKey("raw", deriveBits(normalized, slots, length), derived, extractable ? true : false, usages);
    });
  }
  deriveBits(algorithm, baseKey, length = null) {
    return settled(this, "deriveBits", arguments, 2, () => {
      const slots = toKey(baseKey, "deriveBits", 1);
      const bits = length === null ? null : algorithms.enforceRange(length, 4294967295, "length");
      const normalized = normalize("deriveBits", algorithm);
      if (!listIncludes(slots.usages, "deriveBits")) throw invalidAccess("baseKey does not have deriveBits usage");
      if (slots.algorithm.name !== normalized.name) throw invalidAccess("Key algorithm mismatch");
      return bufferOf(deriveBits(normalized, slots, bits));
    });
  }
  importKey(format, keyData, algorithm, extractable, keyUsages) {
    return settled(this, "importKey", arguments, 5, () => {
      const kind = toFormat(format, "importKey", 0);
      const usages = toUsages(keyUsages, "importKey", 4);
      const data = kind === "jwk" ? readJWK(keyData) : toBytes(keyData, "importKey", 1);
      return importKey(kind, data, normalize("importKey", algorithm), extractable ? true : false, usages);
    });
  }
  exportKey(format, key) {
    return settled(this, "exportKey", arguments, 2, () => {
      const kind = toFormat(format, "exportKey", 0);
      const exported = exportKey(kind, toKey(key, "exportKey", 1));
      return kind === "jwk" ? exported : bufferOf(exported);
    });
  }
  wrapKey(format, key, wrappingKey, wrapAlgorithm) {
    return settled(this, "wrapKey", arguments, 4, () => {
      const kind = toFormat(format, "wrapKey", 0);
      const slots = toKey(key, "wrapKey", 1);
      const wrapping = toKey(wrappingKey, "wrapKey", 2);
      const normalized = wrappingAlgorithm("encrypt", wrapAlgorithm);
      let bytes = exportKey(kind, slots);
      if (kind === "jwk") bytes = encodeText(new TextEncoder(), textOf(bytes, normalized.name));
      return bufferOf(useCipher("encrypt", "wrapKey", normalized, wrapping, bytes));
    });
  }
  unwrapKey(format, wrappedKey, unwrappingKey, unwrapAlgorithm, unwrappedKeyAlgorithm, extractable, keyUsages) {
    return settled(this, "unwrapKey", arguments, 7, () => {
      const kind = toFormat(format, "unwrapKey", 0);
      const wrapped = toBytes(wrappedKey, "unwrapKey", 1);
      const unwrapping = toKey(unwrappingKey, "unwrapKey", 2);
      const usages = toUsages(keyUsages, "unwrapKey", 6);
      const normalized = wrappingAlgorithm("encrypt", unwrapAlgorithm);
      const imported = normalize("importKey", unwrappedKeyAlgorithm);
      let data = useCipher("decrypt", "unwrapKey", normalized, unwrapping, wrapped);
      if (kind === "jwk") data = readJWK(parseWrapped(data), true);
      return importKey(kind, data, imported, extractable ? true : false, usages);
    });
  }
}

// A JWK is written and read without the methods that user code may have added to the
// prototypes. AES-KW wraps multiples of 8 bytes, so spaces fill the text, which is ASCII.
const textOf = (jwk, wrappedWith) => {
  ObjectSetPrototypeOf(jwk.key_ops, null);
  let text = stringifyJSON(ObjectSetPrototypeOf(jwk, null));
  if (wrappedWith === "AES-KW") while (text.length % 8 !== 0) text += " ";
  return text;
};

const parseWrapped = (bytes) => {
  try {
    const jwk = parseJSON(decodeText(new TextDecoder(), bytes));
    return platform.isObject(jwk) ? ObjectSetPrototypeOf(jwk, null) : jwk;
  } catch {
    throw domError("DataError", "Invalid wrapped JWK key");
  }
};

const methods = ["encrypt", "decrypt", "sign", "verify", "digest", "generateKey", "deriveKey", "deriveBits", "importKey", "exportKey", "wrapKey", "unwrapKey"];
for (let i = 0; i < methods.length; i++) ObjectDefineProperty(SubtleCrypto.prototype, methods[i], { __proto__: null, enumerable: true });
setTag(SubtleCrypto.prototype, "SubtleCrypto");

return { SubtleCrypto, subtle };
