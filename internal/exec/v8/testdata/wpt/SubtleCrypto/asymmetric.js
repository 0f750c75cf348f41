// ECDSA, Ed25519, RSA, ECDH and X25519: RFC 6979, RFC 8032, RFC 7515, RFC 5903 and RFC 7748.

const hex = (buffer) => Array.from(new Uint8Array(buffer), (b) => b.toString(16).padStart(2, "0")).join("");
const bytes = (h) => Uint8Array.from(h.match(/../g) ?? [], (b) => parseInt(b, 16));
const text = (s) => new TextEncoder().encode(s);
const base64 = (h) => btoa(String.fromCharCode(...bytes(h))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const { subtle } = crypto;

const p256 = {
  d: "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721",
  x: "60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6",
  y: "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299",
};
const ecdsa = [
  ["SHA-1", "sample", "61340c88c3aaebeb4f6d667f672ca9759a6ccaa9fa8811313039ee4a35471d326d7f147dac089441bb2e2fe8f7a3fa264b9c475098fdcf6e00d7c996e1b8b7eb"],
  ["SHA-256", "sample", "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"],
  ["SHA-256", "test", "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083"],
  ["SHA-512", "sample", "8496a60b5e9b47c825488827e0495b0e3fa109ec4568fd3f8d1097678eb97f002362ab1adbe2b8adf9cb9edab740ea6049c028114f2460f96554f61fae3302fe"],
];
for (const [hash, message, signature] of ecdsa) {
  promise_test(`ECDSA P-256 with ${hash} verifies "${message}"`, async () => {
    const key = await subtle.importKey("raw", bytes("04" + p256.x + p256.y), { name: "ECDSA", namedCurve: "P-256" }, true, ["verify"]);
    const algorithm = { name: "ECDSA", hash };
    assert_true(await subtle.verify(algorithm, key, bytes(signature), text(message)));
    assert_false(await subtle.verify(algorithm, key, bytes(signature), text(message + ".")), "another message");
    assert_false(await subtle.verify(algorithm, key, bytes(signature).subarray(1), text(message)), "a short signature");
    assert_false(await subtle.verify(algorithm, key, new Uint8Array(64), text(message)), "zeros");
  });
}
promise_test("a private key of ECDSA is imported and exported as a JWK", async () => {
  const jwk = { kty: "EC", crv: "P-256", x: base64(p256.x), y: base64(p256.y), d: base64(p256.d) };
  const key = await subtle.importKey("jwk", jwk, { name: "ECDSA", namedCurve: "P-256" }, true, ["sign"]);
  const exported = await subtle.exportKey("jwk", key);
  assert_equals(exported.d, jwk.d);
  assert_equals(exported.x, jwk.x);
  assert_equals(exported.y, jwk.y);
  assert_array_equals(exported.key_ops, ["sign"]);
  assert_equals(exported.ext, true);
});
promise_test("a JWK of ECDSA is checked", async () => {
  const jwk = { kty: "EC", crv: "P-256", x: base64(p256.x), y: base64(p256.y), d: base64(p256.d) };
  const load = (changes, usages = ["sign"]) => subtle.importKey("jwk", { ...jwk, ...changes }, { name: "ECDSA", namedCurve: "P-256" }, false, usages);
  await promise_rejects_dom("DataError", load({ kty: "RSA" }), "kty");
  await promise_rejects_dom("DataError", load({ crv: "P-384" }), "crv");
  await promise_rejects_dom("DataError", load({ x: undefined }), "x");
  await promise_rejects_dom("DataError", load({ use: "enc" }), "use");
  await promise_rejects_dom("DataError", load({ key_ops: ["verify"] }), "key_ops");
  await promise_rejects_dom("DataError", load({ y: base64(p256.x) }), "not a point");
  await promise_rejects_dom("SyntaxError", load({}, ["verify"]), "usages of a private key");
  await promise_rejects_dom("SyntaxError", load({}, []), "no usages");
});

for (const namedCurve of ["P-256", "P-384", "P-521"]) {
  const sizes = { "P-256": 32, "P-384": 48, "P-521": 66 };
  promise_test(`ECDSA ${namedCurve} signs and verifies`, async () => {
    const pair = await subtle.generateKey({ name: "ECDSA", namedCurve }, true, ["sign", "verify"]);
    assert_equals(pair.publicKey.algorithm.namedCurve, namedCurve);
    assert_array_equals(pair.publicKey.usages, ["verify"]);
    assert_array_equals(pair.privateKey.usages, ["sign"]);
    for (const hash of ["SHA-1", "SHA-256", "SHA-384", "SHA-512"]) {
      const signature = await subtle.sign({ name: "ECDSA", hash }, pair.privateKey, text("message"));
      assert_equals(signature.byteLength, 2 * sizes[namedCurve]);
      assert_true(await subtle.verify({ name: "ECDSA", hash }, pair.publicKey, signature, text("message")), hash);
    }
  });
  promise_test(`ECDSA ${namedCurve} keys have all formats`, async () => {
    const { publicKey, privateKey } = await subtle.generateKey({ name: "ECDSA", namedCurve }, true, ["sign", "verify"]);
    const signature = await subtle.sign({ name: "ECDSA", hash: "SHA-256" }, privateKey, text("message"));
    for (const format of ["raw", "spki", "jwk"]) {
      const data = await subtle.exportKey(format, publicKey);
      if (format === "raw") assert_equals(data.byteLength, 1 + 2 * sizes[namedCurve]);
      const again = await subtle.importKey(format, data, { name: "ECDSA", namedCurve }, true, ["verify"]);
      assert_true(await subtle.verify({ name: "ECDSA", hash: "SHA-256" }, again, signature, text("message")), format);
    }
    for (const format of ["pkcs8", "jwk"]) {
      const again = await subtle.importKey(format, await subtle.exportKey(format, privateKey), { name: "ECDSA", namedCurve }, true, ["sign"]);
      const second = await subtle.sign({ name: "ECDSA", hash: "SHA-256" }, again, text("message"));
      assert_true(await subtle.verify({ name: "ECDSA", hash: "SHA-256" }, publicKey, second, text("message")), format);
    }
  });
  promise_test(`ECDH ${namedCurve} derives the same bits on both sides`, async () => {
    const algorithm = { name: "ECDH", namedCurve };
    const a = await subtle.generateKey(algorithm, false, ["deriveBits", "deriveKey"]);
    const b = await subtle.generateKey(algorithm, false, ["deriveBits"]);
    assert_array_equals(a.publicKey.usages, []);
    assert_true(a.publicKey.extractable, "public keys are extractable");
    assert_false(a.privateKey.extractable);
    const one = await subtle.deriveBits({ name: "ECDH", public: b.publicKey }, a.privateKey, null);
    const two = await subtle.deriveBits({ name: "ECDH", public: a.publicKey }, b.privateKey, null);
    assert_equals(hex(one), hex(two));
    assert_equals(one.byteLength, sizes[namedCurve]);
    const part = await subtle.deriveBits({ name: "ECDH", public: a.publicKey }, b.privateKey, 128);
    assert_equals(hex(part), hex(one).slice(0, 32));
    await promise_rejects_dom("OperationError", subtle.deriveBits({ name: "ECDH", public: a.publicKey }, b.privateKey, 8 * sizes[namedCurve] + 8));
    const key = await subtle.deriveKey({ name: "ECDH", public: b.publicKey }, a.privateKey, { name: "AES-GCM", length: 256 }, true, ["encrypt"]);
    assert_equals(hex(await subtle.exportKey("raw", key)), hex(one).slice(0, 64));
  });
}
promise_test("ECDH P-256 computes the example of RFC 5903", async () => {
  const jwk = {
    kty: "EC", crv: "P-256", d: base64("c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433"),
    x: base64("dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180"), y: base64("5271a0461cdb8252d61f1c456fa3e59ab1f45b33accf5f58389e0577b8990bb3"),
  };
  const other = "04d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf6356fbf3ca366cc23e8157854c13c58d6aac23f046ada30f8353e74f33039872ab";
  const key = await subtle.importKey("jwk", jwk, { name: "ECDH", namedCurve: "P-256" }, false, ["deriveBits"]);
  const publicKey = await subtle.importKey("raw", bytes(other), { name: "ECDH", namedCurve: "P-256" }, false, []);
  assert_equals(hex(await subtle.deriveBits({ name: "ECDH", public: publicKey }, key, 256)), "d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de");
});
promise_test("ECDH checks both keys", async () => {
  const a = await subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, false, ["deriveBits"]);
  const b = await subtle.generateKey({ name: "ECDH", namedCurve: "P-384" }, false, ["deriveBits"]);
  await promise_rejects_dom("InvalidAccessError", subtle.deriveBits({ name: "ECDH", public: b.publicKey }, a.privateKey, 8), "another curve");
  await promise_rejects_dom("InvalidAccessError", subtle.deriveBits({ name: "ECDH", public: a.privateKey }, a.privateKey, 8), "a private key");
  await promise_rejects_dom("InvalidAccessError", subtle.deriveBits({ name: "ECDH", public: a.publicKey }, a.publicKey, 8), "the base is public");
  await promise_rejects_js(TypeError, subtle.deriveBits({ name: "ECDH", public: {} }, a.privateKey, 8), "no key");
  await promise_rejects_js(TypeError, subtle.deriveBits({ name: "ECDH" }, a.privateKey, 8), "no public key");
});
promise_test("a curve is known", () => promise_rejects_dom("NotSupportedError", subtle.generateKey({ name: "ECDSA", namedCurve: "P-255" }, true, ["sign"])));
promise_test("a pair whose private key has no usage is refused", () => promise_rejects_dom("SyntaxError", subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["verify"])));
promise_test("raw bytes are a point of the curve", () => promise_rejects_dom("DataError", subtle.importKey("raw", new Uint8Array(65), { name: "ECDSA", namedCurve: "P-256" }, true, ["verify"])));
promise_test("spki is parsed", () => promise_rejects_dom("DataError", subtle.importKey("spki", new Uint8Array(65), { name: "ECDSA", namedCurve: "P-256" }, true, ["verify"])));
promise_test("pkcs8 is parsed", () => promise_rejects_dom("DataError", subtle.importKey("pkcs8", new Uint8Array(65), { name: "ECDSA", namedCurve: "P-256" }, true, ["sign"])));

// ---- Ed25519 and X25519 ----
const ed25519 = [
  ["9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"],
  ["4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"],
  ["c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7", "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"],
];
for (const [seed, point, message, signature] of ed25519) {
  promise_test(`Ed25519 signs ${message.length / 2} bytes`, async () => {
    const jwk = { kty: "OKP", crv: "Ed25519", d: base64(seed), x: base64(point) };
    const key = await subtle.importKey("jwk", jwk, "Ed25519", true, ["sign"]);
    assert_equals(hex(await subtle.sign("Ed25519", key, bytes(message))), signature);
    const publicKey = await subtle.importKey("raw", bytes(point), "Ed25519", true, ["verify"]);
    assert_true(await subtle.verify("Ed25519", publicKey, bytes(signature), bytes(message)));
    assert_false(await subtle.verify("Ed25519", publicKey, bytes(signature), bytes(message + "00")), "another message");
    const pkcs8 = hex(await subtle.exportKey("pkcs8", key));
    assert_equals(pkcs8, "302e020100300506032b657004220420" + seed);
    assert_equals(hex(await subtle.exportKey("spki", publicKey)), "302a300506032b6570032100" + point);
  });
}
promise_test("Ed25519 keys are generated", async () => {
  const { publicKey, privateKey } = await subtle.generateKey("Ed25519", false, ["sign", "verify"]);
  const signature = await subtle.sign({ name: "ed25519" }, privateKey, text("message"));
  assert_equals(signature.byteLength, 64);
  assert_true(await subtle.verify("Ed25519", publicKey, signature, text("message")));
});
promise_test("a public key of Ed25519 has 32 bytes", () => promise_rejects_dom("DataError", subtle.importKey("raw", new Uint8Array(31), "Ed25519", true, ["verify"])));
promise_test("X25519 computes the example of RFC 7748", async () => {
  const load = (d, x) => subtle.importKey("jwk", { kty: "OKP", crv: "X25519", d: base64(d), x: base64(x) }, "X25519", false, ["deriveBits"]);
  const alice = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
  const bob = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
  const key = await load("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a", alice);
  const other = await subtle.importKey("raw", bytes(bob), "X25519", false, []);
  assert_equals(hex(await subtle.deriveBits({ name: "X25519", public: other }, key, 256)), "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
});
promise_test("X25519 derives the same bits on both sides", async () => {
  const a = await subtle.generateKey("X25519", true, ["deriveBits"]);
  const b = await subtle.generateKey("X25519", true, ["deriveBits", "deriveKey"]);
  const one = await subtle.deriveBits({ name: "X25519", public: b.publicKey }, a.privateKey, 256);
  const two = await subtle.deriveBits({ name: "X25519", public: a.publicKey }, b.privateKey, 256);
  assert_equals(hex(one), hex(two));
  for (const format of ["raw", "spki", "jwk"]) {
    const again = await subtle.importKey(format, await subtle.exportKey(format, b.publicKey), "X25519", true, []);
    assert_equals(hex(await subtle.deriveBits({ name: "X25519", public: again }, a.privateKey, 256)), hex(one), format);
  }
});

// ---- RSA ----
const rsaJWK = {
  kty: "RSA",
  n: "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ",
  e: "AQAB",
  d: "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ",
  p: "4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw_Py5PJdTJNPY8cQn7ouZ2KKDcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc",
  q: "uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6ul7TjeLQeZD_YwD66t62wDmpe_HlB-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc",
  dp: "BwKfV3Akq5_MFZDFZCnW-wzl-CCo83WoZvnLQwCTeDv8uzluRSnm71I3QCLdhrqE2e9YkxvuxdBfpT_PI7Yz-FOKnu1R6HsJeDCjn12Sk3vmAktV2zb34MCdy7cpdTh_YVr7tss2u6vneTwrA86rZtu5Mbr1C1XsmvkxHQAdYo0",
  dq: "h_96-mK1R_7glhsum81dZxjTnYynPbZpHziZjeeHcXYsXaaMwkOlODsWa7I9xXDoRwbKgB719rrmI2oKr6N3Do9U0ajaHF-NKJnwgjMd2w9cjz3_-kyNlxAr2v4IKhGNpmM5iIgOS1VZnOZ68m6_pbLBSp3nssTdlqvd0tIiTHU",
  qi: "IYd7DHOhrWvxkwPQsRM2tOgrjbcrfvtQJipd-DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd_QJQ3ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp_gh6A5603k2-ZQwVK0JKSHuLFkuQ3U",
};
const exponent = new Uint8Array([1, 0, 1]);
const publicOf = ({ kty, n, e }) => ({ kty, n, e });
const loadRSA = (name, hash, usages, jwk = rsaJWK) => subtle.importKey("jwk", jwk, { name, hash }, true, usages);
promise_test("RSASSA-PKCS1-v1_5 computes the example of RFC 7515", async () => {
  const header = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
  const want = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
  const key = await loadRSA("RSASSA-PKCS1-v1_5", "SHA-256", ["sign"]);
  const signature = new Uint8Array(await subtle.sign("RSASSA-PKCS1-v1_5", key, text(header)));
  assert_equals(btoa(String.fromCharCode(...signature)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""), want);
  const publicKey = await loadRSA("RSASSA-PKCS1-v1_5", "SHA-256", ["verify"], publicOf(rsaJWK));
  assert_true(await subtle.verify("RSASSA-PKCS1-v1_5", publicKey, signature, text(header)));
  signature[0] ^= 1;
  assert_false(await subtle.verify("RSASSA-PKCS1-v1_5", publicKey, signature, text(header)), "changed");
});
for (const hash of ["SHA-1", "SHA-256", "SHA-384", "SHA-512"]) {
  promise_test(`RSA-PSS with ${hash} signs and verifies`, async () => {
    const key = await loadRSA("RSA-PSS", hash, ["sign"]);
    const publicKey = await loadRSA("RSA-PSS", hash, ["verify"], publicOf(rsaJWK));
    for (const saltLength of [20, 32, 64]) {
      const signature = await subtle.sign({ name: "RSA-PSS", saltLength }, key, text("message"));
      assert_true(await subtle.verify({ name: "RSA-PSS", saltLength }, publicKey, signature, text("message")));
      assert_false(await subtle.verify({ name: "RSA-PSS", saltLength }, publicKey, signature, text("Message")));
      assert_false(await subtle.verify({ name: "RSA-PSS", saltLength: saltLength + 1 }, publicKey, signature, text("message")), "another salt");
    }
  });
  promise_test(`RSA-OAEP with ${hash} encrypts and decrypts`, async () => {
    const key = await loadRSA("RSA-OAEP", hash, ["decrypt"]);
    const publicKey = await loadRSA("RSA-OAEP", hash, ["encrypt"], publicOf(rsaJWK));
    const sealed = await subtle.encrypt("RSA-OAEP", publicKey, text("message"));
    assert_equals(sealed.byteLength, 256);
    assert_equals(hex(await subtle.decrypt("RSA-OAEP", key, sealed)), hex(text("message")));
    const labeled = await subtle.encrypt({ name: "RSA-OAEP", label: text("label") }, publicKey, text("message"));
    assert_equals(hex(await subtle.decrypt({ name: "RSA-OAEP", label: text("label") }, key, labeled)), hex(text("message")));
    await promise_rejects_dom("OperationError", subtle.decrypt("RSA-OAEP", key, labeled), "another label");
    await promise_rejects_dom("OperationError", subtle.encrypt("RSA-OAEP", publicKey, new Uint8Array(256)), "too long");
  });
}
promise_test("a private key of RSA is imported and exported as a JWK", async () => {
  const key = await loadRSA("RSA-PSS", "SHA-256", ["sign"]);
  assert_equals(key.type, "private");
  assert_equals(key.algorithm.modulusLength, 2048);
  assert_array_equals(key.algorithm.publicExponent, exponent);
  assert_equals(key.algorithm.hash.name, "SHA-256");
  const exported = await subtle.exportKey("jwk", key);
  for (const member of Object.keys(rsaJWK)) assert_equals(exported[member], rsaJWK[member], member);
  assert_equals(exported.alg, "PS256");
});
promise_test("keys of RSA have the formats pkcs8 and spki", async () => {
  const key = await loadRSA("RSA-PSS", "SHA-256", ["sign"]);
  const pkcs8 = await subtle.exportKey("pkcs8", key);
  const again = await subtle.importKey("pkcs8", pkcs8, { name: "RSA-PSS", hash: "SHA-256" }, true, ["sign"]);
  assert_equals((await subtle.exportKey("jwk", again)).d, rsaJWK.d);
  const publicKey = await loadRSA("RSA-PSS", "SHA-256", ["verify"], publicOf(rsaJWK));
  const spki = await subtle.exportKey("spki", publicKey);
  const second = await subtle.importKey("spki", spki, { name: "RSA-PSS", hash: "SHA-256" }, true, ["verify"]);
  assert_equals((await subtle.exportKey("jwk", second)).n, rsaJWK.n);
});
promise_test("a JWK of RSA is checked", async () => {
  await promise_rejects_dom("DataError", loadRSA("RSA-PSS", "SHA-256", ["sign"], { ...rsaJWK, alg: "PS512" }), "alg");
  await promise_rejects_dom("DataError", loadRSA("RSA-PSS", "SHA-256", ["sign"], { ...rsaJWK, use: "enc" }), "use");
  await promise_rejects_dom("DataError", loadRSA("RSA-PSS", "SHA-256", ["sign"], { ...rsaJWK, n: undefined }), "n");
  await promise_rejects_dom("NotSupportedError", subtle.importKey("raw", new Uint8Array(5), { name: "RSA-PSS", hash: "SHA-256" }, true, ["verify"]), "raw");
});
for (const name of ["RSASSA-PKCS1-v1_5", "RSA-PSS", "RSA-OAEP"]) {
  promise_test(`keys of ${name} are generated`, async () => {
    const usages = name === "RSA-OAEP" ? ["encrypt", "decrypt"] : ["sign", "verify"];
    const { publicKey, privateKey } = await subtle.generateKey({ name, hash: "SHA-256", modulusLength: 1024, publicExponent: exponent }, false, usages);
    assert_equals(publicKey.algorithm.modulusLength, 1024);
    assert_array_equals(privateKey.algorithm.publicExponent, exponent);
    if (name === "RSA-OAEP") {
      const sealed = await subtle.encrypt({ name }, publicKey, text("message"));
      assert_equals(hex(await subtle.decrypt({ name }, privateKey, sealed)), hex(text("message")));
    } else {
      const signature = await subtle.sign({ name, saltLength: 32 }, privateKey, text("message"));
      assert_true(await subtle.verify({ name, saltLength: 32 }, publicKey, signature, text("message")));
    }
  });
}
promise_test("generated keys of RSA need an exponent", () => promise_rejects_js(TypeError, subtle.generateKey({ name: "RSA-PSS", hash: "SHA-256", modulusLength: 2048 }, true, ["sign"])));
promise_test("the exponent of RSA is odd", () => promise_rejects_dom("OperationError", subtle.generateKey({ name: "RSA-PSS", hash: "SHA-256", modulusLength: 2048, publicExponent: new Uint8Array([2]) }, true, ["sign"])));
