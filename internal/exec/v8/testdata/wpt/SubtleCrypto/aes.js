// AES: SP 800-38A, the test cases of GCM, and RFC 3394.

const hex = (buffer) => Array.from(new Uint8Array(buffer), (b) => b.toString(16).padStart(2, "0")).join("");
const bytes = (h) => Uint8Array.from(h.match(/../g) ?? [], (b) => parseInt(b, 16));
const { subtle } = crypto;
const load = (name, key, usages = ["encrypt", "decrypt"]) => subtle.importKey("raw", bytes(key), name, true, usages);

const key128 = "2b7e151628aed2a6abf7158809cf4f3c";
const key192 = "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b";
const key256 = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
const plain = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";

const cbc = [
  [key128, "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b273bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7"],
  [key192, "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd"],
  [key256, "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b"],
];
for (const [key, want] of cbc) {
  promise_test(`AES-CBC with ${key.length * 4} bits`, async () => {
    const k = await load("AES-CBC", key);
    const iv = bytes("000102030405060708090a0b0c0d0e0f");
    const sealed = await subtle.encrypt({ name: "AES-CBC", iv }, k, bytes(plain));
    assert_equals(hex(sealed).slice(0, -32), want);
    assert_equals(sealed.byteLength, 80, "with padding");
    assert_equals(hex(await subtle.decrypt({ name: "AES-CBC", iv }, k, sealed)), plain);
  });
}
promise_test("AES-CBC pads data of any length", async () => {
  const k = await load("AES-CBC", key128);
  const iv = new Uint8Array(16);
  for (let size = 0; size <= 33; size++) {
    const data = new Uint8Array(size).fill(size);
    const sealed = await subtle.encrypt({ name: "AES-CBC", iv }, k, data);
    assert_equals(sealed.byteLength, size - size % 16 + 16);
    assert_equals(hex(await subtle.decrypt({ name: "AES-CBC", iv }, k, sealed)), hex(data));
  }
});
promise_test("AES-CBC refuses wrong lengths", async () => {
  const k = await load("AES-CBC", key128);
  const iv = new Uint8Array(16);
  await promise_rejects_dom("OperationError", subtle.decrypt({ name: "AES-CBC", iv }, k, new Uint8Array(15)), "15 bytes");
  await promise_rejects_dom("OperationError", subtle.decrypt({ name: "AES-CBC", iv }, k, new Uint8Array(0)), "nothing");
  await promise_rejects_dom("OperationError", subtle.encrypt({ name: "AES-CBC", iv: new Uint8Array(15) }, k, new Uint8Array(16)), "a short vector");
  await promise_rejects_js(TypeError, subtle.encrypt({ name: "AES-CBC" }, k, new Uint8Array(16)), "no vector");
});

const ctr = [
  [key128, "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee"],
  [key192, "1abc932417521ca24f2b0459fe7e6e0b090339ec0aa6faefd5ccc2c6f4ce8e941e36b26bd1ebc670d1bd1d665620abf74f78a7f6d29809585a97daec58c6b050"],
  [key256, "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c52b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"],
];
for (const [key, want] of ctr) {
  promise_test(`AES-CTR with ${key.length * 4} bits`, async () => {
    const k = await load("AES-CTR", key);
    const algorithm = { name: "AES-CTR", counter: bytes("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"), length: 128 };
    assert_equals(hex(await subtle.encrypt(algorithm, k, bytes(plain))), want);
    assert_equals(hex(await subtle.decrypt(algorithm, k, bytes(want))), plain);
  });
}
promise_test("the counter of AES-CTR starts again at zero", async () => {
  const k = await load("AES-CTR", key128);
  const at = async (counter, blocks, length = 128) => hex(await subtle.encrypt({ name: "AES-CTR", counter: bytes(counter), length }, k, new Uint8Array(16 * blocks)));
  const prefix = "a0".repeat(15);
  const wrapped = await at(prefix + "0e", 4, 4);
  assert_equals(wrapped, await at(prefix + "0e", 2) + await at(prefix + "00", 2));
});
promise_test("AES-CTR refuses wrong counters", async () => {
  const k = await load("AES-CTR", key128);
  const counter = new Uint8Array(16);
  await promise_rejects_dom("OperationError", subtle.encrypt({ name: "AES-CTR", counter, length: 4 }, k, new Uint8Array(257)), "too long");
  await promise_rejects_dom("OperationError", subtle.encrypt({ name: "AES-CTR", counter, length: 0 }, k, new Uint8Array(1)), "no bits");
  await promise_rejects_dom("OperationError", subtle.encrypt({ name: "AES-CTR", counter, length: 129 }, k, new Uint8Array(1)), "129 bits");
  await promise_rejects_dom("OperationError", subtle.encrypt({ name: "AES-CTR", counter: new Uint8Array(15), length: 1 }, k, new Uint8Array(1)), "15 bytes");
  await promise_rejects_js(TypeError, subtle.encrypt({ name: "AES-CTR", counter, length: 256 }, k, new Uint8Array(1)), "no octet");
});

const gcmKey = "feffe9928665731c6d6a8f9467308308";
const gcmPlain = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
const additional = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
const gcm = [
  ["no data", "00".repeat(16), "00".repeat(12), "", "", "58e2fccefa7e3061367f1d57a4e7455a"],
  ["one block", "00".repeat(16), "00".repeat(12), "", "00".repeat(16), "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"],
  ["additional data", gcmKey, "cafebabefacedbaddecaf888", additional, gcmPlain, "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47"],
  ["a vector of 8 bytes", gcmKey, "cafebabefacedbad", additional, gcmPlain, "61353b4c2806934a777ff51fa22a4755699b2a714fcdc6f83766e5f97b6c742373806900e49f24b22b097544d4896b424989b5e1ebac0f07c23f45983612d2e79e3b0785561be14aaca2fccb"],
];
for (const [what, key, iv, additionalData, data, want] of gcm) {
  promise_test(`AES-GCM with ${what}`, async () => {
    const k = await load("AES-GCM", key);
    const algorithm = { name: "AES-GCM", iv: bytes(iv), additionalData: bytes(additionalData) };
    assert_equals(hex(await subtle.encrypt(algorithm, k, bytes(data))), want);
    assert_equals(hex(await subtle.decrypt(algorithm, k, bytes(want))), data);
  });
}
for (const tagLength of [32, 64, 96, 104, 112, 120, 128]) {
  promise_test(`AES-GCM with a tag of ${tagLength} bits`, async () => {
    const k = await load("AES-GCM", gcmKey);
    const algorithm = { name: "AES-GCM", iv: bytes("cafebabefacedbaddecaf888"), tagLength };
    const full = hex(await subtle.encrypt({ ...algorithm, tagLength: 128 }, k, bytes(gcmPlain)));
    const sealed = await subtle.encrypt(algorithm, k, bytes(gcmPlain));
    assert_equals(hex(sealed), full.slice(0, gcmPlain.length + tagLength / 4));
    assert_equals(hex(await subtle.decrypt(algorithm, k, sealed)), gcmPlain);
    const wrong = new Uint8Array(sealed);
    wrong[wrong.length - 1] ^= 1;
    await promise_rejects_dom("OperationError", subtle.decrypt(algorithm, k, wrong));
  });
}
promise_test("AES-GCM refuses data that was changed", async () => {
  const k = await load("AES-GCM", gcmKey);
  const iv = new Uint8Array(12);
  const sealed = new Uint8Array(await subtle.encrypt({ name: "AES-GCM", iv }, k, new Uint8Array(20)));
  for (const at of [0, 19, 20, 35]) {
    const wrong = sealed.slice();
    wrong[at] ^= 0x80;
    await promise_rejects_dom("OperationError", subtle.decrypt({ name: "AES-GCM", iv }, k, wrong), `byte ${at}`);
  }
  await promise_rejects_dom("OperationError", subtle.decrypt({ name: "AES-GCM", iv, additionalData: new Uint8Array(1) }, k, sealed), "additional data");
  await promise_rejects_dom("OperationError", subtle.decrypt({ name: "AES-GCM", iv }, k, sealed.subarray(0, 15)), "too short");
  await promise_rejects_dom("OperationError", subtle.encrypt({ name: "AES-GCM", iv, tagLength: 40 }, k, sealed), "tag");
});

const wraps = [
  ["000102030405060708090a0b0c0d0e0f", "00112233445566778899aabbccddeeff", "1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5"],
  ["000102030405060708090a0b0c0d0e0f1011121314151617", "00112233445566778899aabbccddeeff0001020304050607", "031d33264e15d33268f24ec260743edce1c6c7ddee725a936ba814915c6762d2"],
  ["000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f", "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21"],
];
for (const [key, data, want] of wraps) {
  promise_test(`AES-KW wraps ${data.length * 4} bits with ${key.length * 4} bits`, async () => {
    const k = await load("AES-KW", key, ["wrapKey", "unwrapKey"]);
    const inner = await load("AES-CBC", data);
    assert_equals(hex(await subtle.wrapKey("raw", inner, k, "AES-KW")), want);
    const again = await subtle.unwrapKey("raw", bytes(want), k, "AES-KW", "AES-CBC", true, ["encrypt"]);
    assert_equals(hex(await subtle.exportKey("raw", again)), data);
  });
}
promise_test("AES-KW refuses a key that was changed", async () => {
  const k = await load("AES-KW", wraps[0][0], ["wrapKey", "unwrapKey"]);
  const wrong = bytes(wraps[0][2]);
  wrong[3] ^= 1;
  await promise_rejects_dom("OperationError", subtle.unwrapKey("raw", wrong, k, "AES-KW", "AES-CBC", true, ["encrypt"]));
  await promise_rejects_dom("NotSupportedError", subtle.encrypt("AES-KW", k, new Uint8Array(16)), "it does not encrypt data");
});

for (const name of ["AES-CBC", "AES-CTR", "AES-GCM", "AES-KW"]) {
  const usages = name === "AES-KW" ? ["wrapKey", "unwrapKey"] : ["encrypt", "decrypt", "wrapKey", "unwrapKey"];
  for (const length of [128, 192, 256]) {
    promise_test(`${name} of ${length} bits is generated, exported and imported`, async () => {
      const key = await subtle.generateKey({ name: name.toLowerCase(), length }, true, usages);
      assert_equals(key.algorithm.name, name);
      assert_equals(key.algorithm.length, length);
      assert_equals(key.type, "secret");
      const jwk = await subtle.exportKey("jwk", key);
      assert_equals(jwk.alg, `A${length}${name.slice(4)}`);
      const again = await subtle.importKey("jwk", jwk, name, true, usages);
      assert_equals(hex(await subtle.exportKey("raw", again)), hex(await subtle.exportKey("raw", key)));
    });
  }
  promise_test(`${name} has no keys of 64 bits`, () => promise_rejects_dom("OperationError", subtle.generateKey({ name, length: 64 }, true, usages)));
  promise_test(`${name} refuses raw keys of 8 bytes`, () => promise_rejects_dom("DataError", subtle.importKey("raw", new Uint8Array(8), name, true, usages)));
  promise_test(`${name} needs usages`, () => promise_rejects_dom("SyntaxError", subtle.generateKey({ name, length: 128 }, true, [])));
  promise_test(`${name} does not sign`, () => promise_rejects_dom("SyntaxError", subtle.generateKey({ name, length: 128 }, true, ["sign"])));
}
