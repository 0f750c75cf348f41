// HMAC: RFC 2202 and RFC 4231. Keys that are derived: RFC 5869, RFC 6070 and RFC 7914.

const hex = (buffer) => Array.from(new Uint8Array(buffer), (b) => b.toString(16).padStart(2, "0")).join("");
const bytes = (h) => Uint8Array.from(h.match(/../g) ?? [], (b) => parseInt(b, 16));
const text = (s) => new TextEncoder().encode(s);
const { subtle } = crypto;

const macs = [
  ["SHA-1", "0b".repeat(20), text("Hi There"), "b617318655057264e28bc0b6fb378c8ef146be00"],
  ["SHA-1", hex(text("Jefe")), text("what do ya want for nothing?"), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"],
  ["SHA-256", "0b".repeat(20), text("Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"],
  ["SHA-256", hex(text("Jefe")), text("what do ya want for nothing?"), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"],
  ["SHA-256", "aa".repeat(20), new Uint8Array(50).fill(0xdd), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"],
  ["SHA-384", hex(text("Jefe")), text("what do ya want for nothing?"), "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649"],
  ["SHA-512", hex(text("Jefe")), text("what do ya want for nothing?"), "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"],
];
for (const [hash, key, data, want] of macs) {
  promise_test(`HMAC with ${hash}, key of ${key.length / 2} bytes, data of ${data.length}`, async () => {
    const k = await subtle.importKey("raw", bytes(key), { name: "HMAC", hash }, false, ["sign", "verify"]);
    assert_equals(hex(await subtle.sign("HMAC", k, data)), want);
    assert_true(await subtle.verify("HMAC", k, bytes(want), data), "verify");
    assert_false(await subtle.verify("HMAC", k, bytes(want).fill(0, 0, 1), data), "another signature");
    assert_false(await subtle.verify("HMAC", k, bytes(want).subarray(1), data), "a shorter signature");
  });
}

promise_test("a generated HMAC key has the length of a block", async () => {
  for (const [hash, length] of [["SHA-1", 512], ["SHA-256", 512], ["SHA-384", 1024], ["SHA-512", 1024]]) {
    const key = await subtle.generateKey({ name: "HMAC", hash }, true, ["sign"]);
    assert_equals(key.algorithm.length, length, hash);
    assert_equals((await subtle.exportKey("raw", key)).byteLength * 8, length, hash);
  }
});
promise_test("a generated HMAC key has the given length", async () => {
  const key = await subtle.generateKey({ name: "HMAC", hash: "SHA-256", length: 128 }, true, ["sign"]);
  assert_equals((await subtle.exportKey("raw", key)).byteLength, 16);
});
promise_test("an HMAC key is not empty", () => promise_rejects_dom("DataError", subtle.importKey("raw", new Uint8Array(0), { name: "HMAC", hash: "SHA-256" }, true, ["sign"])));
promise_test("an HMAC key is not shorter than its length", () => promise_rejects_dom("DataError", subtle.importKey("raw", new Uint8Array(8), { name: "HMAC", hash: "SHA-256", length: 128 }, true, ["sign"])));

const derive = async (algorithm, secret, bits) => {
  const key = await subtle.importKey("raw", secret, algorithm.name, false, ["deriveBits"]);
  return hex(await subtle.deriveBits(algorithm, key, bits));
};
const hkdf = [
  ["SHA-256", "0b".repeat(22), "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9", 42, "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"],
  ["SHA-256", "0b".repeat(22), "", "", 42, "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"],
  ["SHA-1", "0b".repeat(11), "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9", 42, "085a01ea1b10f36933068b56efa5ad81a4f14b822f5b091568a9cdd4f155fda2c22e422478d305f3f896"],
];
for (const [hash, secret, salt, info, size, want] of hkdf) {
  promise_test(`HKDF with ${hash}, salt of ${salt.length / 2} bytes`, async () => {
    assert_equals(await derive({ name: "HKDF", hash, salt: bytes(salt), info: bytes(info) }, bytes(secret), size * 8), want);
  });
}
const pbkdf2 = [
  ["SHA-1", "password", "salt", 1, 20, "0c60c80f961f0e71f3a9b524af6012062fe037a6"],
  ["SHA-1", "password", "salt", 2, 20, "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957"],
  ["SHA-1", "password", "salt", 4096, 20, "4b007901b765489abead49d926f721d065a429c1"],
  ["SHA-1", "passwordPASSWORDpassword", "saltSALTsaltSALTsaltSALTsaltSALTsalt", 4096, 25, "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038"],
  ["SHA-256", "passwd", "salt", 1, 64, "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783"],
];
for (const [hash, password, salt, iterations, size, want] of pbkdf2) {
  promise_test(`PBKDF2 with ${hash}, ${iterations} iterations, ${size} bytes`, async () => {
    assert_equals(await derive({ name: "PBKDF2", hash, salt: text(salt), iterations }, text(password), size * 8), want);
  });
}
promise_test("deriveKey returns an AES key", async () => {
  const key = await subtle.importKey("raw", text("password"), "PBKDF2", false, ["deriveKey"]);
  const derived = await subtle.deriveKey({ name: "PBKDF2", hash: "SHA-256", salt: text("salt"), iterations: 10 }, key, { name: "AES-GCM", length: 256 }, true, ["encrypt"]);
  assert_equals(derived.type, "secret");
  assert_equals(derived.algorithm.length, 256);
  assert_equals((await subtle.exportKey("raw", derived)).byteLength, 32);
});
promise_test("deriveKey returns an HMAC key with the length of a block", async () => {
  const key = await subtle.importKey("raw", text("password"), "HKDF", false, ["deriveKey"]);
  const derived = await subtle.deriveKey({ name: "HKDF", hash: "SHA-256", salt: text("salt"), info: text("") }, key, { name: "HMAC", hash: "SHA-512" }, true, ["sign"]);
  assert_equals(derived.algorithm.length, 1024);
});
const deriving = (name, extra) => ({ name, hash: "SHA-256", salt: text("salt"), ...extra });
promise_test("PBKDF2 refuses lengths and iterations", async () => {
  const key = await subtle.importKey("raw", text("x"), "PBKDF2", false, ["deriveBits"]);
  await promise_rejects_dom("OperationError", subtle.deriveBits(deriving("PBKDF2", { iterations: 1 }), key, null), "no length");
  await promise_rejects_dom("OperationError", subtle.deriveBits(deriving("PBKDF2", { iterations: 1 }), key, 9), "a part of a byte");
  await promise_rejects_dom("OperationError", subtle.deriveBits(deriving("PBKDF2", { iterations: 0 }), key, 8), "no iteration");
});
promise_test("HKDF derives at most 255 blocks", async () => {
  const key = await subtle.importKey("raw", text("x"), "HKDF", false, ["deriveBits"]);
  await promise_rejects_dom("OperationError", subtle.deriveBits(deriving("HKDF", { info: text("") }), key, 8 * (255 * 32 + 1)));
});
promise_test("deriving needs the usage and the algorithm of the key", async () => {
  const key = await subtle.importKey("raw", text("x"), "HKDF", false, ["deriveBits"]);
  await promise_rejects_dom("InvalidAccessError", subtle.deriveKey(deriving("HKDF", { info: text("") }), key, { name: "AES-GCM", length: 128 }, true, ["encrypt"]), "usage");
  await promise_rejects_dom("InvalidAccessError", subtle.deriveBits(deriving("PBKDF2", { iterations: 1 }), key, 8), "another algorithm");
});
for (const name of ["HKDF", "PBKDF2"]) {
  promise_test(`a key of ${name} cannot be extractable`, () => promise_rejects_dom("SyntaxError", subtle.importKey("raw", text("x"), name, true, ["deriveBits"])));
  promise_test(`a key of ${name} only derives`, () => promise_rejects_dom("SyntaxError", subtle.importKey("raw", text("x"), name, false, ["sign"])));
}
