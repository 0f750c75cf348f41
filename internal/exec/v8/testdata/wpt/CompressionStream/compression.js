// Compressed content, with its counterpart.

for (const name of ["readable", "writable"]) test(`the attribute ${name}`, () => assert_idl_attribute(CompressionStream.prototype, name));
test("the class string", () => assert_class_string(new CompressionStream("gzip"), "CompressionStream"));
for (const format of ["", "zip", "GZIP", "br", undefined, null]) test(`the format ${format} is refused`, () => assert_throws_js(TypeError, () => new CompressionStream(format)));
test("a format is needed", () => assert_throws_js(TypeError, () => new CompressionStream()));
const pass = async (stream, chunks) => {
  const out = [];
  for await (const chunk of ReadableStream.from(chunks).pipeThrough(stream)) out.push(...chunk);
  return new Uint8Array(out);
};
for (const format of ["gzip", "deflate", "deflate-raw"]) {
  promise_test(`${format}: content comes back`, async () => {
    const text = "content ".repeat(500);
    const small = await pass(new CompressionStream(format), [new TextEncoder().encode(text)]);
    assert_true(small.length < 200);
    assert_equals(new TextDecoder().decode(await pass(new DecompressionStream(format), [small])), text);
  });
  promise_test(`${format}: many chunks`, async () => {
    const small = await pass(new CompressionStream(format), [Uint8Array.of(1), Uint8Array.of(2, 3).buffer, new DataView(Uint8Array.of(4).buffer)]);
    assert_array_equals(await pass(new DecompressionStream(format), Array.from(small, (byte) => Uint8Array.of(byte))), [1, 2, 3, 4]);
  });
  promise_test(`${format}: no content`, async () => {
    const small = await pass(new CompressionStream(format), []);
    assert_true(small.length > 0);
    assert_equals((await pass(new DecompressionStream(format), [small])).length, 0);
  });
  for (const chunk of ["text", 1, {}, null]) {
    promise_test(`${format}: the chunk ${JSON.stringify(chunk)} is refused`, async () => {
      const { writable, readable } = new CompressionStream(format);
      const read = readable.getReader().read();
      const writer = writable.getWriter();
      writer.closed.catch(() => {});
      writer.ready.catch(() => {});
      await promise_rejects_js(TypeError, writer.write(chunk));
      await promise_rejects_js(TypeError, read);
    });
  }
}
promise_test("gzip has its header", async () => {
  const small = await pass(new CompressionStream("gzip"), [Uint8Array.of(1)]);
  assert_array_equals(small.slice(0, 3), [0x1f, 0x8b, 8]);
});
