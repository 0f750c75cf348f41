// Text to UTF-8.

for (const name of ["encoding", "readable", "writable"]) test(`the attribute ${name}`, () => assert_idl_attribute(TextEncoderStream.prototype, name));
test("the encoding", () => assert_equals(new TextEncoderStream().encoding, "utf-8"));
const encode = async (...chunks) => {
  const out = [];
  for await (const bytes of ReadableStream.from(chunks).pipeThrough(new TextEncoderStream())) {
    assert_equals(bytes.constructor, Uint8Array);
    assert_true(bytes.length > 0);
    out.push(...bytes);
  }
  return out;
};
for (const [chunks, want] of [
  [["a", "b"], [97, 98]], [["\u00e9"], [0xc3, 0xa9]], [[""], []], [["\ud83d", "\ude00"], [0xf0, 0x9f, 0x98, 0x80]], [["\ud83d", "", "\ude00"], [0xf0, 0x9f, 0x98, 0x80]],
  [["\ud83d"], [0xef, 0xbf, 0xbd]], [["\ud83d", "a"], [0xef, 0xbf, 0xbd, 97]], [["\ude00"], [0xef, 0xbf, 0xbd]], [["\ud83d", "\ud83d\ude00"], [0xef, 0xbf, 0xbd, 0xf0, 0x9f, 0x98, 0x80]], [[1, null], [49, 110, 117, 108, 108]],
]) {
  promise_test(`the chunks ${JSON.stringify(chunks)}`, async () => {
    const defined = chunks.map((chunk) => (chunk === null ? "null" : chunk));
    assert_array_equals(await encode(...defined), want);
  });
}
promise_test("a chunk that is no text fails the stream", async () => promise_rejects_js(TypeError, encode(Symbol("x"))));
