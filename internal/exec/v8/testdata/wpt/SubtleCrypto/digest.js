// Digests: the examples of FIPS 180-4.

const hex = (buffer) => Array.from(new Uint8Array(buffer), (b) => b.toString(16).padStart(2, "0")).join("");
const text = (s) => new TextEncoder().encode(s);
const long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

const vectors = [
  ["SHA-1", "", "da39a3ee5e6b4b0d3255bfef95601890afd80709"],
  ["SHA-1", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"],
  ["SHA-1", long, "84983e441c3bd26ebaae4aa1f95129e5e54670f1"],
  ["SHA-256", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  ["SHA-256", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
  ["SHA-256", long, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"],
  ["SHA-384", "abc", "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"],
  ["SHA-512", "abc", "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"],
];
for (const [name, input, want] of vectors) {
  promise_test(`${name} of ${input.length} bytes`, async () => assert_equals(hex(await crypto.subtle.digest(name, text(input))), want));
}
promise_test("names of algorithms ignore case, and may be in a dictionary", async () => {
  const want = hex(await crypto.subtle.digest("SHA-256", text("abc")));
  assert_equals(hex(await crypto.subtle.digest("sha-256", text("abc"))), want, "lower case");
  assert_equals(hex(await crypto.subtle.digest({ name: "Sha-256" }, text("abc"))), want, "dictionary");
});
promise_test("data is any BufferSource", async () => {
  const bytes = text("..abc..");
  const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  assert_equals(hex(await crypto.subtle.digest("SHA-256", bytes.subarray(2, 5))), want, "a view");
  assert_equals(hex(await crypto.subtle.digest("SHA-256", new DataView(bytes.buffer, 2, 3))), want, "a DataView");
  assert_equals(hex(await crypto.subtle.digest("SHA-256", bytes.buffer.slice(2, 5))), want, "an ArrayBuffer");
});
promise_test("data is copied when the method is called", async () => {
  const bytes = text("abc");
  const promise = crypto.subtle.digest("SHA-256", bytes);
  bytes.fill(0);
  assert_equals(hex(await promise), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
});
promise_test("the result is an ArrayBuffer", async () => assert_true((await crypto.subtle.digest("SHA-1", text(""))) instanceof ArrayBuffer));
for (const name of ["MD5", "SHA-0", "SHA256", "", "AES-GCM"]) {
  promise_test(`digest of ${JSON.stringify(name)} is not supported`, () => promise_rejects_dom("NotSupportedError", crypto.subtle.digest(name, text(""))));
}
promise_test("data that is a number is refused", () => promise_rejects_js(TypeError, crypto.subtle.digest("SHA-1", 5)));
promise_test("digest needs two arguments", () => promise_rejects_js(TypeError, crypto.subtle.digest("SHA-1")));
promise_test("an algorithm needs a name", () => promise_rejects_js(TypeError, crypto.subtle.digest({}, text(""))));
