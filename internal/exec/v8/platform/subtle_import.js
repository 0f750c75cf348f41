// Import and export of keys of Web Crypto: raw, pkcs8, spki and jwk.

const { codedError, compute, domError, isObject, lengthOf, listIncludes, listJoin, newList, ObjectDefineProperty, ReflectApply, splitText, String, SymbolIterator, TypeError, Uint8Array } = platform;
const { newKey, toArray } = platform.load("cryptokey");
const { checkUsages, isAES, isCurve, isEC, isOKP, isRSA, usagesOf } = platform.load("subtle_algorithms");
const charCodeAt = platform.method("String.prototype", "charCodeAt");
const slice = platform.method("String.prototype", "slice");

const dataError = (message) => domError("DataError", message);

// ---- base64url -----------------------------------------------------------------------

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const toBase64 = (bytes) => {
  let out = "";
  const length = lengthOf(bytes);
  for (let i = 0; i < length; i += 3) {
    const bits = (bytes[i] << 16) | ((i + 1 < length ? bytes[i + 1] : 0) << 8) | (i + 2 < length ? bytes[i + 2] : 0);
    out += alphabet[bits >> 18] + alphabet[(bits >> 12) & 63];
    if (i + 1 < length) out += alphabet[(bits >> 6) & 63];
    if (i + 2 < length) out += alphabet[bits & 63];
  }
  return out;
};

const digitOf = (code) => {
  if (code >= 65 && code <= 90) return code - 65;
  if (code >= 97 && code <= 122) return code - 71;
  if (code >= 48 && code <= 57) return code + 4;
  return code === 45 ? 62 : code === 95 ? 63 : -1;
};

// fromBase64 returns the bytes of base64url without padding.
const fromBase64 = (text) => {
  if (text.length % 4 === 1) throw dataError("The JWK has a member that is not base64url");
  const bytes = new Uint8Array((text.length * 3) >> 2);
  let bits = 0;
  let at = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = digitOf(charCodeAt(text, i));
    if (digit < 0) throw dataError("The JWK has a member that is not base64url");
    bits = ((bits << 6) | digit) & 0xffffff;
    if (i % 4 === 1) bytes[at++] = bits >> 4;
    else if (i % 4 === 2) bytes[at++] = bits >> 2;
    else if (i % 4 === 3) bytes[at++] = bits;
  }
  return bytes;
};

// ---- JSON Web Keys ---------------------------------------------------------------------

const jwkMembers = ["alg", "crv", "d", "dp", "dq", "e", "ext", "k", "key_ops", "kty", "n", "p", "q", "qi", "use", "x", "y"];

// readJWK converts the dictionary JsonWebKey. The value is what was parsed if isParsed is true.
const readJWK = (value, isParsed = false) => {
  if (!isObject(value) || platform.bytesOf(value) !== undefined) {
    throw codedError(TypeError, "ERR_INVALID_ARG_TYPE", "Failed to execute 'importKey' on 'SubtleCrypto': 2nd argument can not be converted to a dictionary");
  }
  const jwk = { __proto__: null };
  for (let i = 0; i < jwkMembers.length; i++) {
    const name = jwkMembers[i];
    const member = value[name];
    if (member === undefined) continue;
    if (name === "ext") jwk.ext = member ? true : false;
    else if (name === "key_ops") jwk.key_ops = isParsed && platform.ArrayIsArray(member) ? readParsed(member) : readList(member);
    else jwk[name] = String(member);
  }
  return jwk;
};

const readList = (value) => {
  const iterate = isObject(value) ? value[SymbolIterator] : undefined;
  if (typeof iterate !== "function") throw codedError(TypeError, "ERR_INVALID_ARG_TYPE", "The member 'key_ops' of the JWK can not be converted to sequence.");
  const list = newList();
  const iterator = ReflectApply(iterate, value, []);
  const { next } = iterator;
  for (;;) {
    const step = ReflectApply(next, iterator, []);
    if (!isObject(step)) throw new TypeError("The result of the iterator is not an object");
    if (step.done) return list;
    list[list.length] = String(step.value);
  }
};

const readParsed = (array) => {
  const list = newList();
  for (let i = 0; i < array.length; i++) list[i] = String(array[i]);
  return list;
};

const ofHash = (prefix, hash) => (hash === "SHA-1" ? `${prefix}1` : `${prefix}${slice(hash, 4)}`);

// algOf returns the member alg of the JWK of a key, or undefined.
const algOf = (algorithm, length) => {
  switch (algorithm.name) {
    case "HMAC": return ofHash("HS", algorithm.hash.name);
    case "RSASSA-PKCS1-v1_5": return ofHash("RS", algorithm.hash.name);
    case "RSA-PSS": return ofHash("PS", algorithm.hash.name);
    case "RSA-OAEP": return algorithm.hash.name === "SHA-1" ? "RSA-OAEP" : `RSA-OAEP-${slice(algorithm.hash.name, 4)}`;
    case "Ed25519": return "Ed25519";
  }
  return isAES(algorithm.name) ? `A${length}${slice(algorithm.name, 4)}` : undefined;
};

const checkJWK = (jwk, kty, use, usages, extractable) => {
  if (jwk.kty !== kty) throw dataError('Invalid JWK "kty" Parameter');
  if (usages.length > 0 && jwk.use !== undefined && jwk.use !== use) throw dataError('Invalid JWK "use" Parameter');
  const ops = jwk.key_ops;
  if (ops !== undefined) {
    for (let i = 0; i < ops.length; i++) {
      for (let j = 0; j < i; j++) if (ops[i] === ops[j]) throw dataError("Duplicate key operation");
    }
    for (let i = 0; i < usages.length; i++) if (!listIncludes(ops, usages[i])) throw dataError("Key operations and usage mismatch");
  }
  if (jwk.ext === false && extractable) throw dataError('JWK "ext" Parameter and extractable mismatch');
};

const useOf = (name) => (name === "RSA-OAEP" || name === "ECDH" || name === "X25519" || isAES(name) ? "enc" : "sig");

const member = (jwk, name) => {
  if (jwk[name] === undefined) return "";
  fromBase64(jwk[name]); // refuses other characters
  return jwk[name];
};

// asymmetricJWK returns the material of a private or public key, and whether it is private.
const asymmetricJWK = (jwk, algorithm, usages, extractable) => {
  const { name } = algorithm;
  const isPrivate = jwk.d !== undefined;
  const kind = kindOf(algorithm);
  checkUsages(usages, usagesOf[name][isPrivate ? "private" : "public"], name);
  checkJWK(jwk, isRSA(name) ? "RSA" : isEC(name) ? "EC" : "OKP", useOf(name), usages, extractable);
  const names = isRSA(name) ? ["n", "e", "d", "p", "q", "dp", "dq", "qi"] : ["x", "y", "d"];
  const required = isRSA(name) ? ["n", "e"] : isEC(name) ? ["x", "y"] : ["x"];
  for (let i = 0; i < required.length; i++) if (!jwk[required[i]]) throw dataError(`The JWK has no member "${required[i]}"`);
  if (isPrivate && jwk.d === "") throw dataError('Invalid JWK "d" Parameter');
  if (isRSA(name) ? jwk.alg !== undefined && jwk.alg !== algOf(algorithm) : jwk.crv !== kind) {
    throw dataError(isRSA(name) ? 'JWK "alg" does not match the requested algorithm' : 'JWK "crv" does not match the requested algorithm');
  }
  if (name === "ECDSA" && jwk.alg !== undefined && jwk.alg !== ecdsaAlg(kind)) throw dataError('JWK "alg" does not match the requested algorithm');
  if (name === "Ed25519" && jwk.alg !== undefined && jwk.alg !== "EdDSA" && jwk.alg !== "Ed25519") throw dataError('JWK "alg" does not match the requested algorithm');
  const texts = newList();
  for (let i = 0; i < names.length; i++) texts[i] = isPrivate || listIncludes(required, names[i]) ? member(jwk, names[i]) : "";
  return { __proto__: null, isPrivate, material: compute("keyFromJWK", kind, listJoin(texts, " ")) };
};

const ecdsaAlg = (curve) => (curve === "P-521" ? "ES512" : `ES${slice(curve, 2)}`);

// ---- import --------------------------------------------------------------------------

// kindOf returns what the worker calls the keys of an algorithm.
const kindOf = (algorithm) => (isRSA(algorithm.name) ? "RSA" : isEC(algorithm.name) ? algorithm.namedCurve : algorithm.name);

// keyAlgorithm returns the algorithm of a key with a private and a public part.
const keyAlgorithm = (algorithm, spki) => {
  if (isEC(algorithm.name)) return { __proto__: null, name: algorithm.name, namedCurve: algorithm.namedCurve };
  if (isOKP(algorithm.name)) return { __proto__: null, name: algorithm.name };
  const parts = splitText(compute("keyDescribe", spki), " ");
  let e = +parts[1];
  const bytes = newList();
  for (; e > 0; e = (e - (e % 256)) / 256) bytes[bytes.length] = e % 256;
  const publicExponent = new Uint8Array(bytes.length);
  for (let i = 0; i < bytes.length; i++) publicExponent[i] = bytes[bytes.length - 1 - i];
  return { __proto__: null, name: algorithm.name, modulusLength: +parts[0], publicExponent, hash: { __proto__: null, name: algorithm.hash.name } };
};

const importSecret = (format, data, algorithm, extractable, usages) => {
  const { name } = algorithm;
  const derives = name === "HKDF" || name === "PBKDF2";
  if (format !== "raw" && (derives || format !== "jwk")) throw domError("NotSupportedError", `Unable to import ${name} key with format ${format}`);
  checkUsages(usages, usagesOf[name].secret, name);
  let bytes = data;
  if (format === "jwk") {
    if (data.kty !== "oct" || data.k === undefined) throw dataError("Invalid keyData");
    checkJWK(data, "oct", useOf(name), usages, extractable);
    bytes = fromBase64(data.k);
  }
  const bits = lengthOf(bytes) * 8;
  if (derives) {
    if (extractable) throw domError("SyntaxError", `Keys of ${name} cannot be extractable`);
    return finishSecret(bytes, { __proto__: null, name }, false, usages);
  }
  if (isAES(name)) {
    if (bits !== 128 && bits !== 192 && bits !== 256) throw dataError("Invalid key length");
    if (format === "jwk" && data.alg !== undefined && data.alg !== algOf(algorithm, bits)) throw dataError('JWK "alg" does not match the requested algorithm');
    return finishSecret(bytes, { __proto__: null, name, length: bits }, extractable, usages);
  }
  if (bits === 0) throw dataError("Zero-length key is not supported");
  if (format === "jwk" && data.alg !== undefined && data.alg !== algOf(algorithm)) throw dataError('JWK "alg" does not match the requested algorithm');
  let { length } = algorithm;
  if (length === undefined) length = bits;
  else if (length > bits || length <= bits - 8) throw dataError("Invalid key length");
  if (length % 8 !== 0) throw domError("NotSupportedError", "The length of an HMAC key must be a multiple of 8 bits");
  return finishSecret(bytes, { __proto__: null, name, length, hash: { __proto__: null, name: algorithm.hash.name } }, extractable, usages);
};

const finishSecret = (bytes, algorithm, extractable, usages) => {
  if (usages.length === 0) throw domError("SyntaxError", "Usages cannot be empty when importing a secret key.");
  return newKey("secret", extractable, algorithm, usages, bytes);
};

// importKey returns a CryptoKey. data is bytes, or what readJWK returned for the format jwk.
const importKey = (format, data, algorithm, extractable, usages) => {
  const { name } = algorithm;
  if (usagesOf[name].secret !== undefined) return importSecret(format, data, algorithm, extractable, usages);
  if (isEC(name) && !isCurve(algorithm.namedCurve)) throw domError("NotSupportedError", "Unrecognized namedCurve");
  let isPrivate = format === "pkcs8";
  let material;
  if (format === "jwk") {
    ({ isPrivate, material } = asymmetricJWK(data, algorithm, usages, extractable));
  } else {
    if (format === "raw" && isRSA(name)) throw domError("NotSupportedError", `Unable to import ${name} key with format raw`);
    checkUsages(usages, usagesOf[name][isPrivate ? "private" : "public"], name);
    material = compute("keyImport", kindOf(algorithm), format, data);
  }
  const shown = keyAlgorithm(algorithm, isPrivate ? compute("keyPublic", material) : material);
  if (isPrivate && usages.length === 0) throw domError("SyntaxError", "Usages cannot be empty when importing a private key.");
  return newKey(isPrivate ? "private" : "public", extractable, shown, usages, material);
};

// ---- export --------------------------------------------------------------------------

const setMember = (object, name, value) => {
  ObjectDefineProperty(object, name, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
};

const exportJWK = (slots) => {
  const { algorithm, material, type } = slots;
  const { name } = algorithm;
  const jwk = {};
  setMember(jwk, "key_ops", toArray(slots.usages));
  setMember(jwk, "ext", slots.extractable);
  if (type === "secret") {
    setMember(jwk, "kty", "oct");
    setMember(jwk, "k", toBase64(material));
  } else {
    const values = splitText(compute("keyToJWK", material), " ");
    const names = isRSA(name) ? ["n", "e", "d", "p", "q", "dp", "dq", "qi"] : ["x", "y", "d"];
    setMember(jwk, "kty", isRSA(name) ? "RSA" : isEC(name) ? "EC" : "OKP");
    for (let i = 0; i < values.length; i++) if (values[i] !== "") setMember(jwk, names[i], values[i]);
    if (!isRSA(name)) setMember(jwk, "crv", kindOf(algorithm));
  }
  const alg = algOf(algorithm, algorithm.length);
  if (alg !== undefined) setMember(jwk, "alg", alg);
  return jwk;
};

// exportKey returns bytes, or an object for the format jwk.
const exportKey = (format, slots) => {
  const { algorithm, material, type } = slots;
  const { name } = algorithm;
  if (name === "HKDF" || name === "PBKDF2") throw domError("NotSupportedError", `Unable to export a key of ${name}`);
  if (!slots.extractable) throw domError("InvalidAccessError", "key is not extractable");
  if (format === "jwk") return exportJWK(slots);
  if (type === "secret") {
    if (format !== "raw") throw domError("NotSupportedError", `Unable to export a secret key of ${name} with format ${format}`);
    return new Uint8Array(material);
  }
  if (format === "raw" && isRSA(name)) throw domError("NotSupportedError", `Unable to export a key of ${name} with format raw`);
  if ((format === "pkcs8") !== (type === "private")) throw domError("InvalidAccessError", `Unable to export a ${type} key of ${name} with format ${format}`);
  return format === "raw" ? compute("keyExport", "raw", material) : new Uint8Array(material);
};

return { importKey, exportKey, readJWK, keyAlgorithm };
