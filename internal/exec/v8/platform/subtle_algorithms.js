// The algorithms of Web Crypto: which ones each operation takes, with their parameters, and the
// conversion of what scripts pass.

const {
  codedError, domError, isObject, listIncludes, newList, ObjectCreate, ReflectApply, splitText, String,
  SymbolIterator, TypeError, Uint8Array,
} = platform;
const { slotsOf } = platform.load("cryptokey");
const charCodeAt = platform.method("String.prototype", "charCodeAt");
const toUpperCase = platform.method("String.prototype", "toUpperCase");
const trunc = platform.original("Math", "trunc");
const isFinite = platform.original("Number", "isFinite");
const nameOfView = platform.getter("TypedArray.prototype", platform.SymbolToStringTag);

// For each operation, the names of the algorithms with the members of their dictionaries, in
// the order in which they are read. A required member ends with "!".
const rsaNames = ["RSASSA-PKCS1-v1_5", "RSA-PSS", "RSA-OAEP"];
const aesNames = ["AES-CBC", "AES-CTR", "AES-GCM", "AES-KW"];
const okpNames = ["Ed25519", "X25519"];
const ecNames = ["ECDSA", "ECDH"];
const table = ObjectCreate(null);
const register = (operation, names, members) => {
  if (table[operation] === undefined) table[operation] = ObjectCreate(null);
  for (let i = 0; i < names.length; i++) table[operation][names[i]] = members;
};
register("digest", ["SHA-1", "SHA-256", "SHA-384", "SHA-512"], "");
register("encrypt", ["AES-CBC"], "iv:bytes!");
register("encrypt", ["AES-CTR"], "counter:bytes! length:octet!");
register("encrypt", ["AES-GCM"], "additionalData:bytes iv:bytes! tagLength:octet");
register("encrypt", ["RSA-OAEP"], "label:bytes");
register("wrapKey", ["AES-KW"], "");
register("sign", ["HMAC", "RSASSA-PKCS1-v1_5", "Ed25519"], "");
register("sign", ["RSA-PSS"], "saltLength:long!");
register("sign", ["ECDSA"], "hash:hash!");
register("generateKey", ["HMAC"], "hash:hash! length:long");
register("generateKey", aesNames, "length:short!");
register("generateKey", ecNames, "namedCurve:string!");
register("generateKey", okpNames, "");
register("generateKey", rsaNames, "hash:hash! modulusLength:long! publicExponent:integer!");
register("importKey", ["HMAC"], "hash:hash! length:long");
register("importKey", aesNames, "");
register("importKey", ["HKDF", "PBKDF2"], "");
register("importKey", okpNames, "");
register("importKey", ecNames, "namedCurve:string!");
register("importKey", rsaNames, "hash:hash!");
register("deriveBits", ["ECDH", "X25519"], "public:key!");
register("deriveBits", ["HKDF"], "hash:hash! info:bytes! salt:bytes!");
register("deriveBits", ["PBKDF2"], "hash:hash! iterations:long! salt:bytes!");
register("getLength", ["HMAC"], "hash:hash! length:long");
register("getLength", aesNames, "length:short!");
register("getLength", ["HKDF", "PBKDF2"], "");

// enforceRange converts a value to an integer of Web IDL with [EnforceRange].
const enforceRange = (value, max, name) => {
  const number = +value;
  const integer = isFinite(number) ? trunc(number) : NaN;
  if (!(integer >= 0 && integer <= max)) throw new TypeError(`Failed to normalize algorithm: '${name}' is outside the range of 0 to ${max}`);
  return integer + 0; // no -0
};

// copyBytes returns a copy of a BufferSource.
const copyBytes = (value, describe) => {
  const bytes = platform.bytesOf(value);
  if (bytes === undefined) {
    throw codedError(TypeError, "ERR_INVALID_ARG_TYPE", `${describe} is not instance of ArrayBuffer, Buffer, TypedArray, or DataView.`);
  }
  return new Uint8Array(bytes);
};

const convert = (type, value, name) => {
  switch (type) {
    case "octet": return enforceRange(value, 255, name);
    case "short": return enforceRange(value, 65535, name);
    case "long": return enforceRange(value, 4294967295, name);
    case "string": return `${value}`;
    case "hash": return normalize("digest", value);
    case "bytes": return copyBytes(value, `Failed to normalize algorithm: '${name}'`);
    case "integer":
      if (!isObject(value) || platform.bytesOf(value) === undefined || platform.isProxy(value) || nameOfView(value) !== "Uint8Array") {
        throw codedError(TypeError, "ERR_INVALID_ARG_TYPE", `Failed to normalize algorithm: '${name}' is not instance of Uint8Array.`);
      }
      return copyBytes(value, name);
    case "key":
      if (slotsOf(value) === undefined) {
        throw codedError(TypeError, "ERR_INVALID_ARG_TYPE", `Failed to normalize algorithm: '${name}' is not of type CryptoKey.`);
      }
      return value;
  }
};

// toName returns the name of an algorithm in capital letters. Only letters of ASCII have capital
// ones that are equal. It uses no regular expression, which would change RegExp.lastMatch.
const toName = (value) => {
  const name = `${value}`;
  for (let i = 0; i < name.length; i++) if (charCodeAt(name, i) > 127) return name;
  return toUpperCase(name);
};

// normalize returns an algorithm as an object without a prototype, with its name as the
// standard writes it.
const normalize = (operation, given) => {
  const isName = !isObject(given);
  if (given === undefined || given === null) throw noName();
  const name = toName(isName ? given : readName(given));
  const algorithms = table[operation];
  for (const known in algorithms) {
    if (toUpperCase(known) !== name) continue;
    const out = { __proto__: null, name: known };
    if (!isName) readName(given); // the standard converts to two dictionaries that have the name
    const members = algorithms[known] === "" ? newList() : splitText(algorithms[known], " ");
    for (let i = 0; i < members.length; i++) {
      const parts = splitText(members[i], ":");
      const member = parts[0];
      const required = parts[1][parts[1].length - 1] === "!";
      const type = required ? splitText(parts[1], "!")[0] : parts[1];
      const value = isName ? undefined : given[member];
      if (value !== undefined) out[member] = convert(type, value, member);
      else if (required) {
        throw codedError(TypeError, "ERR_MISSING_OPTION", `Failed to normalize algorithm: passed algorithm can not be converted to the parameters of ${known} because '${member}' is required.`);
      }
    }
    return out;
  }
  throw domError("NotSupportedError", "Unrecognized algorithm name");
};

const noName = () => codedError(TypeError, "ERR_MISSING_OPTION", "Failed to normalize algorithm: passed algorithm can not be converted to 'Algorithm' because 'name' is required in 'Algorithm'.");

const readName = (dictionary) => {
  const { name } = dictionary;
  if (name === undefined) throw noName();
  return `${name}`;
};

const supports = (operation, given) => {
  const name = toName(isObject(given) ? given.name : given);
  for (const known in table[operation]) if (toUpperCase(known) === name) return true;
  return false;
};

// ---- arguments ----------------------------------------------------------------------

const allUsages = ["encrypt", "decrypt", "sign", "verify", "deriveKey", "deriveBits", "wrapKey", "unwrapKey"];
const ordinals = ["1st", "2nd", "3rd", "4th", "5th", "6th", "7th"];
const prefix = (method) => `Failed to execute '${method}' on 'SubtleCrypto': `;

// toUsages converts a sequence of usages. Double ones count once.
const toUsages = (value, method, index) => {
  const where = `${prefix(method)}${ordinals[index]} argument`;
  const iterate = isObject(value) ? value[SymbolIterator] : undefined;
  if (typeof iterate !== "function") throw codedError(TypeError, "ERR_INVALID_ARG_TYPE", `${where} can not be converted to sequence.`);
  const usages = newList();
  const iterator = ReflectApply(iterate, value, []);
  const { next } = iterator;
  let at = 0;
  for (let step = ReflectApply(next, iterator, []); !step.done; step = ReflectApply(next, iterator, [])) {
    const usage = String(step.value);
    if (!listIncludes(allUsages, usage)) {
      throw codedError(TypeError, "ERR_INVALID_ARG_VALUE", `${where}, index ${at} value '${usage}' is not a valid enum value of type KeyUsage.`);
    }
    if (!listIncludes(usages, usage)) usages[usages.length] = usage;
    at++;
  }
  return usages;
};

const toFormat = (value, method, index) => {
  const format = String(value);
  if (format !== "raw" && format !== "pkcs8" && format !== "spki" && format !== "jwk") {
    throw codedError(TypeError, "ERR_INVALID_ARG_VALUE", `${prefix(method)}${ordinals[index]} argument value '${format}' is not a valid enum value of type KeyFormat.`);
  }
  return format;
};

const toKey = (value, method, index) => {
  const slots = slotsOf(value);
  if (slots === undefined) throw codedError(TypeError, "ERR_INVALID_ARG_TYPE", `${prefix(method)}${ordinals[index]} argument is not of type CryptoKey.`);
  return slots;
};

const toBytes = (value, method, index) => copyBytes(value, `${prefix(method)}${ordinals[index]} argument`);

// checkUsages refuses usages that a key cannot have.
const checkUsages = (usages, allowed, name) => {
  for (let i = 0; i < usages.length; i++) {
    if (!listIncludes(allowed, usages[i])) throw domError("SyntaxError", `Unsupported key usage for a key of ${name}`);
  }
};

// commonUsages returns the usages that are in both lists.
const commonUsages = (usages, allowed) => {
  const common = newList();
  for (let i = 0; i < usages.length; i++) if (listIncludes(allowed, usages[i])) common[common.length] = usages[i];
  return common;
};

// The usages of keys by algorithm: of secret keys, or of public and private ones.
const usagesOf = ObjectCreate(null);
usagesOf.HMAC = { __proto__: null, secret: ["sign", "verify"] };
for (let i = 0; i < aesNames.length; i++) usagesOf[aesNames[i]] = { __proto__: null, secret: ["encrypt", "decrypt", "wrapKey", "unwrapKey"] };
usagesOf["AES-KW"] = { __proto__: null, secret: ["wrapKey", "unwrapKey"] };
usagesOf.HKDF = usagesOf.PBKDF2 = { __proto__: null, secret: ["deriveKey", "deriveBits"] };
const signing = { __proto__: null, public: ["verify"], private: ["sign"] };
usagesOf["RSASSA-PKCS1-v1_5"] = usagesOf["RSA-PSS"] = usagesOf.ECDSA = usagesOf.Ed25519 = signing;
usagesOf["RSA-OAEP"] = { __proto__: null, public: ["encrypt", "wrapKey"], private: ["decrypt", "unwrapKey"] };
usagesOf.ECDH = usagesOf.X25519 = { __proto__: null, public: [], private: ["deriveKey", "deriveBits"] };

const blockBits = (hash) => (hash === "SHA-1" || hash === "SHA-256" ? 512 : 1024);
const isAES = (name) => listIncludes(aesNames, name);
const isRSA = (name) => listIncludes(rsaNames, name);
const isEC = (name) => listIncludes(ecNames, name);
const isOKP = (name) => listIncludes(okpNames, name);
const isCurve = (name) => name === "P-256" || name === "P-384" || name === "P-521";

return {
  normalize, supports, toUsages, toFormat, toKey, toBytes, enforceRange, checkUsages, commonUsages, usagesOf, blockBits,
  isAES, isRSA, isEC, isOKP, isCurve, prefix,
};
