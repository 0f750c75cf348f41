// CryptoKey: a key of Web Crypto. Its material is bytes in the heap: of a secret key the key
// itself, of a private key its PKCS #8 encoding, of a public key its SubjectPublicKeyInfo.

const {
  codedError, isObject, inspectCustom, inspectWith, ObjectCreate, ObjectDefineProperty, ObjectKeys, setTag, TypeError, Uint8Array,
} = platform;

const copyBytes = (bytes) => new Uint8Array(bytes);

let slotsOf; // returns the slots of a CryptoKey, or undefined
let newKey; // creates a CryptoKey from its slots
const token = ObjectCreate(null);

// toPublic copies the internal form of an algorithm, which has no prototype.
const toPublic = (value) => {
  if (!isObject(value)) return value;
  if (platform.bytesOf(value) !== undefined) return copyBytes(value);
  const copy = {};
  const keys = ObjectKeys(value);
  for (let i = 0; i < keys.length; i++) {
    ObjectDefineProperty(copy, keys[i], { __proto__: null, value: toPublic(value[keys[i]]), writable: true, enumerable: true, configurable: true });
  }
  return copy;
};

const toArray = (list) => {
  const array = [];
  for (let i = 0; i < list.length; i++) {
    ObjectDefineProperty(array, i, { __proto__: null, value: list[i], writable: true, enumerable: true, configurable: true });
  }
  return array;
};

const need = (key, fn) => {
  const slots = slotsOf(key);
  if (slots === undefined) throw codedError(TypeError, "ERR_INVALID_THIS", 'Value of "this" must be of type CryptoKey', fn);
  return slots;
};

const algorithmOf = (slots) => (slots.shownAlgorithm === undefined ? slots.shownAlgorithm = toPublic(slots.algorithm) : slots.shownAlgorithm);
const usagesOf = (slots) => (slots.shownUsages === undefined ? slots.shownUsages = toArray(slots.usages) : slots.shownUsages);

class CryptoKey {
  #slots;
  constructor() {
    if (arguments[0] !== token) throw codedError(TypeError, "ERR_ILLEGAL_CONSTRUCTOR", "Illegal constructor", CryptoKey);
    this.#slots = arguments[1];
  }
  static {
    slotsOf = (key) => (isObject(key) && #slots in key ? key.#slots : undefined);

    newKey = (type, extractable, algorithm, usages, material) =>
      new CryptoKey(token, { __proto__: null, type, extractable, algorithm, usages, material, shownAlgorithm: undefined, shownUsages: undefined });
  }
  get type() { return need(this).type; }
  get extractable() { return need(this).extractable; }
  get algorithm() { return algorithmOf(need(this)); }
  get usages() { return usagesOf(need(this)); }
}

const members = ["type", "extractable", "algorithm", "usages"];
for (let i = 0; i < members.length; i++) ObjectDefineProperty(CryptoKey.prototype, members[i], { __proto__: null, enumerable: true });
setTag(CryptoKey.prototype, "CryptoKey");
platform.defineHidden(CryptoKey.prototype, inspectCustom, { inspect(depth, options) {
  const slots = slotsOf(this);
  if (slots === undefined || depth < 0) return this;
  const inner = ObjectCreate(null);
  const names = isObject(options) ? ObjectKeys(options) : [];
  for (let i = 0; i < names.length; i++) inner[names[i]] = options[names[i]];
  inner.depth = depth === null || depth === undefined ? null : depth - 1;
  const shown = { type: slots.type, extractable: slots.extractable, algorithm: algorithmOf(slots), usages: usagesOf(slots) };
  return `CryptoKey ${inspectWith(shown, inner)}`;
} }.inspect);

// A copy has the same material, which nothing changes.
platform.addCloneable((value) => {
  const slots = slotsOf(value);
  if (slots === undefined) return undefined;
  const clone = () => newKey(slots.type, slots.extractable, slots.algorithm, slots.usages, slots.material);
  return { __proto__: null, clone, transfer: undefined };
});

return { CryptoKey, slotsOf, newKey, toArray };
