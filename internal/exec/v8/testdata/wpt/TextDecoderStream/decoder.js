// UTF-8 and other encodings to text.

for (const name of ["encoding", "fatal", "ignoreBOM", "readable", "writable"]) test(`the attribute ${name}`, () => assert_idl_attribute(TextDecoderStream.prototype, name));
const decode = async (chunks, ...args) => {
  let text = "";
  for await (const chunk of ReadableStream.from(chunks).pipeThrough(new TextDecoderStream(...args))) {
    assert_true(chunk.length > 0);
    text += chunk;
  }
  return text;
};
test("a label that is none", () => assert_throws_js(RangeError, () => new TextDecoderStream("none")));
test("options", () => {
  const stream = new TextDecoderStream("UTF8", { fatal: true, ignoreBOM: true });
  assert_array_equals([stream.encoding, stream.fatal, stream.ignoreBOM], ["utf-8", true, true]);
});
promise_test("a character in two chunks", async () => assert_equals(await decode([Uint8Array.of(0xe6, 0xbc), Uint8Array.of(0xa2)]), "\u6f22"));
promise_test("a character that is cut", async () => assert_equals(await decode([Uint8Array.of(97, 0xe6, 0xbc)]), "a\ufffd"));
promise_test("a byte order mark", async () => assert_equals(await decode([Uint8Array.of(0xef), Uint8Array.of(0xbb, 0xbf, 97)]), "a"));
promise_test("a byte order mark that stays", async () => assert_equals(await decode([Uint8Array.of(0xef, 0xbb, 0xbf, 97)], "utf-8", { ignoreBOM: true }), "\ufeffa"));
promise_test("fatal", async () => promise_rejects_js(TypeError, decode([Uint8Array.of(0xff)], "utf-8", { fatal: true })));
promise_test("fatal at the end", async () => promise_rejects_js(TypeError, decode([Uint8Array.of(0xe6)], "utf-8", { fatal: true })));
promise_test("buffers and views", async () => assert_equals(await decode([Uint8Array.of(97).buffer, new DataView(Uint8Array.of(98).buffer)]), "ab"));
for (const chunk of ["text", 1, {}]) promise_test(`the chunk ${JSON.stringify(chunk)}`, async () => promise_rejects_js(TypeError, decode([chunk])));
promise_test("UTF-16 in odd chunks", async () => assert_equals(await decode([Uint8Array.of(0x3d), Uint8Array.of(0xd8, 0x00), Uint8Array.of(0xde)], "utf-16le"), "\ud83d\ude00"));
