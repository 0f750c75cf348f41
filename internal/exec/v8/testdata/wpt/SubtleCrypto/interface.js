// The interfaces SubtleCrypto and CryptoKey, usages, and wrapped keys.

const hex = (buffer) => Array.from(new Uint8Array(buffer), (b) => b.toString(16).padStart(2, "0")).join("");
const { subtle } = crypto;
const methods = { encrypt: 3, decrypt: 3, sign: 3, verify: 4, digest: 2, generateKey: 3, deriveKey: 5, deriveBits: 2, importKey: 5, exportKey: 2, wrapKey: 4, unwrapKey: 7 };
const aes = (usages = ["encrypt", "decrypt", "wrapKey", "unwrapKey"], extractable = true) => subtle.generateKey({ name: "AES-GCM", length: 128 }, extractable, usages);

test("crypto.subtle is an attribute", () => {
  assert_equals(crypto.subtle, subtle, "one object");
  assert_true(subtle instanceof SubtleCrypto);
  assert_equals(Object.prototype.toString.call(subtle), "[object SubtleCrypto]");
  const { get, set, enumerable } = Object.getOwnPropertyDescriptor(Crypto.prototype, "subtle");
  assert_equals(typeof get, "function");
  assert_equals(set, undefined);
  assert_true(enumerable);
});
test("crypto.subtle checks its receiver", () => assert_throws_js(TypeError, () => Crypto.prototype.subtle));
test("SubtleCrypto has no constructor", () => assert_throws_js(TypeError, () => new SubtleCrypto()));
test("CryptoKey has no constructor", () => assert_throws_js(TypeError, () => new CryptoKey()));
for (const [name, length] of Object.entries(methods)) {
  test(`${name} is a method with ${length} arguments`, () => {
    const { value, writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(SubtleCrypto.prototype, name);
    assert_equals(value.length, length);
    assert_equals(value.name, name);
    assert_true(writable && enumerable && configurable);
  });
  promise_test(`${name} rejects its promise if it is called wrongly`, async () => {
    await promise_rejects_js(TypeError, subtle[name](), "no arguments");
    await promise_rejects_js(TypeError, subtle[name].call({}, ...Array(length).fill("x")), "another receiver");
  });
}
test("the attributes of CryptoKey check their receiver", () => {
  for (const name of ["type", "extractable", "algorithm", "usages"]) {
    const { get, set, enumerable } = Object.getOwnPropertyDescriptor(CryptoKey.prototype, name);
    assert_true(enumerable, name);
    assert_equals(set, undefined, name);
    assert_throws_js(TypeError, () => get.call({}), name);
  }
});
promise_test("a CryptoKey has four attributes", async () => {
  const key = await aes(["encrypt"], 1);
  assert_true(key instanceof CryptoKey);
  assert_equals(Object.prototype.toString.call(key), "[object CryptoKey]");
  assert_equals(key.type, "secret");
  assert_equals(key.extractable, true);
  assert_equals(key.algorithm, key.algorithm, "the same object");
  assert_equals(key.usages, key.usages, "the same array");
  assert_array_equals(Object.keys(key), []);
});
promise_test("changes of algorithm and usages have no effect", async () => {
  const key = await aes(["encrypt"]);
  key.algorithm.name = "AES-CBC";
  key.usages.push("decrypt");
  const sealed = await subtle.encrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, key, new Uint8Array(1));
  await promise_rejects_dom("InvalidAccessError", subtle.decrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, key, sealed));
});
promise_test("double usages count once", async () => {
  const key = await subtle.generateKey({ name: "AES-GCM", length: 128 }, true, ["decrypt", "encrypt", "encrypt"]);
  assert_array_equals([...key.usages].sort(), ["decrypt", "encrypt"]);
});
promise_test("usages are any iterable", async () => {
  const key = await subtle.generateKey({ name: "AES-GCM", length: 128 }, true, new Set(["encrypt"]));
  assert_array_equals(key.usages, ["encrypt"]);
});
promise_test("a usage is known", () => promise_rejects_js(TypeError, aes(["fly"])));
promise_test("usages are a sequence", () => promise_rejects_js(TypeError, aes("encrypt")));
promise_test("a secret key needs usages", () => promise_rejects_dom("SyntaxError", aes([])));
promise_test("a format is known", () => promise_rejects_js(TypeError, subtle.exportKey("der", {})));
promise_test("a key that is not extractable is not exported", async () => {
  const key = await aes(["encrypt"], false);
  assert_false(key.extractable);
  await promise_rejects_dom("InvalidAccessError", subtle.exportKey("raw", key), "raw");
  await promise_rejects_dom("InvalidAccessError", subtle.exportKey("jwk", key), "jwk");
  const wrapping = await aes();
  await promise_rejects_dom("InvalidAccessError", subtle.wrapKey("raw", key, wrapping, { name: "AES-GCM", iv: new Uint8Array(12) }), "wrapKey");
});
promise_test("a key is used for its algorithm and usages only", async () => {
  const key = await aes(["encrypt"]);
  const algorithm = { name: "AES-GCM", iv: new Uint8Array(12) };
  await promise_rejects_dom("InvalidAccessError", subtle.decrypt(algorithm, key, new Uint8Array(16)), "usage");
  await promise_rejects_dom("InvalidAccessError", subtle.encrypt({ name: "AES-CBC", iv: new Uint8Array(16) }, key, new Uint8Array(16)), "algorithm");
  await promise_rejects_dom("InvalidAccessError", subtle.sign("HMAC", key, new Uint8Array(16)), "sign");
  await promise_rejects_js(TypeError, subtle.encrypt(algorithm, {}, new Uint8Array(16)), "no key");
});
promise_test("structuredClone copies a CryptoKey", async () => {
  const key = await aes();
  const sealed = await subtle.encrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, key, new Uint8Array(3));
  const copy = structuredClone({ key, again: key });
  assert_true(copy.key instanceof CryptoKey);
  assert_true(copy.key !== key, "a copy");
  assert_equals(copy.key, copy.again, "one copy");
  assert_array_equals(copy.key.usages, key.usages);
  assert_equals(hex(await subtle.decrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, copy.key, sealed)), "000000");
});
promise_test("a JWK of a secret key is checked", async () => {
  const jwk = { kty: "oct", k: "AAECAwQFBgcICQoLDA0ODw", alg: "A128GCM", ext: true, key_ops: ["encrypt"] };
  const load = (changes, extractable = true) => subtle.importKey("jwk", { ...jwk, ...changes }, "AES-GCM", extractable, ["encrypt"]);
  assert_equals(hex(await subtle.exportKey("raw", await load({}))), "000102030405060708090a0b0c0d0e0f");
  await promise_rejects_dom("DataError", load({ kty: "RSA" }), "kty");
  await promise_rejects_dom("DataError", load({ k: undefined }), "k");
  await promise_rejects_dom("DataError", load({ alg: "A256GCM" }), "alg");
  await promise_rejects_dom("DataError", load({ ext: false }), "ext");
  await promise_rejects_dom("DataError", load({ key_ops: ["decrypt"] }), "key_ops");
  await promise_rejects_dom("DataError", load({ use: "sig" }), "use");
  await promise_rejects_js(TypeError, subtle.importKey("jwk", new Uint8Array(16), "AES-GCM", true, ["encrypt"]), "bytes");
});
for (const format of ["raw", "jwk"]) {
  promise_test(`AES-GCM wraps an HMAC key as ${format}`, async () => {
    const key = await subtle.generateKey({ name: "HMAC", hash: "SHA-256" }, true, ["sign"]);
    const wrapping = await aes();
    const algorithm = { name: "AES-GCM", iv: new Uint8Array(12) };
    const wrapped = await subtle.wrapKey(format, key, wrapping, algorithm);
    const again = await subtle.unwrapKey(format, wrapped, wrapping, algorithm, { name: "HMAC", hash: "SHA-256" }, true, ["sign"]);
    assert_equals(hex(await subtle.exportKey("raw", again)), hex(await subtle.exportKey("raw", key)));
  });
}
for (const format of ["pkcs8", "jwk"]) {
  promise_test(`AES-CBC wraps a private key as ${format}`, async () => {
    const { privateKey, publicKey } = await subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]);
    const wrapping = await subtle.generateKey({ name: "AES-CBC", length: 256 }, true, ["wrapKey", "unwrapKey"]);
    const algorithm = { name: "AES-CBC", iv: new Uint8Array(16) };
    const wrapped = await subtle.wrapKey(format, privateKey, wrapping, algorithm);
    const again = await subtle.unwrapKey(format, wrapped, wrapping, algorithm, { name: "ECDSA", namedCurve: "P-256" }, false, ["sign"]);
    const signature = await subtle.sign({ name: "ECDSA", hash: "SHA-256" }, again, new Uint8Array(5));
    assert_true(await subtle.verify({ name: "ECDSA", hash: "SHA-256" }, publicKey, signature, new Uint8Array(5)));
  });
}
promise_test("RSA-OAEP wraps an AES key", async () => {
  const { privateKey, publicKey } = await subtle.generateKey({ name: "RSA-OAEP", hash: "SHA-256", modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) }, true, ["wrapKey", "unwrapKey"]);
  const key = await aes(["encrypt"]);
  const wrapped = await subtle.wrapKey("raw", key, publicKey, "RSA-OAEP");
  const again = await subtle.unwrapKey("raw", wrapped, privateKey, "RSA-OAEP", "AES-GCM", true, ["encrypt"]);
  assert_equals(hex(await subtle.exportKey("raw", again)), hex(await subtle.exportKey("raw", key)));
});
promise_test("wrapKey needs the usage", async () => {
  const key = await aes(["encrypt"]);
  const wrapping = await aes(["encrypt", "decrypt"]);
  await promise_rejects_dom("InvalidAccessError", subtle.wrapKey("raw", key, wrapping, { name: "AES-GCM", iv: new Uint8Array(12) }));
});
promise_test("the name of an algorithm is read twice, other members once", async () => {
  let reads = "";
  const algorithm = { get name() { reads += "name "; return "AES-GCM"; }, get tagLength() { reads += "tagLength "; return 128; }, get iv() { reads += "iv "; return new Uint8Array(12); } };
  await subtle.encrypt(algorithm, await aes(), new Uint8Array(1));
  assert_equals(reads, "name name iv tagLength ");
});
promise_test("numbers of algorithms are in range", async () => {
  const key = await aes();
  const iv = new Uint8Array(12);
  for (const tagLength of [-1, 256, NaN, Infinity]) {
    await promise_rejects_js(TypeError, subtle.encrypt({ name: "AES-GCM", iv, tagLength }, key, iv), `${tagLength}`);
  }
});
