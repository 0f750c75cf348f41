// Content that was compressed elsewhere, and damage.

for (const name of ["readable", "writable"]) test(`the attribute ${name}`, () => assert_idl_attribute(DecompressionStream.prototype, name));
for (const format of ["", "zip", "br"]) test(`the format ${format} is refused`, () => assert_throws_js(TypeError, () => new DecompressionStream(format)));
const expand = async (format, chunks) => {
  const out = [];
  for await (const chunk of ReadableStream.from(chunks).pipeThrough(new DecompressionStream(format))) out.push(...chunk);
  return new TextDecoder().decode(new Uint8Array(out));
};
const samples = {
  "gzip": [31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0, 0],
  "deflate": [120, 156, 203, 72, 205, 201, 201, 7, 0, 6, 44, 2, 21],
  "deflate-raw": [203, 72, 205, 201, 201, 7, 0],
};
for (const [format, bytes] of Object.entries(samples)) {
  const all = Uint8Array.from(bytes);
  promise_test(`${format}: content`, async () => assert_equals(await expand(format, [all]), "hello"));
  promise_test(`${format}: byte by byte`, async () => assert_equals(await expand(format, bytes.map((byte) => Uint8Array.of(byte))), "hello"));
  promise_test(`${format}: too short`, async () => promise_rejects_js(TypeError, expand(format, [all.slice(0, -1)])));
  promise_test(`${format}: nothing`, async () => promise_rejects_js(TypeError, expand(format, [])));
  promise_test(`${format}: more after the end`, async () => promise_rejects_js(TypeError, expand(format, [all, Uint8Array.of(0)])));
}
promise_test("gzip: another header", async () => promise_rejects_js(TypeError, expand("gzip", [Uint8Array.from(samples.gzip).fill(0, 0, 1)])));
promise_test("gzip: another check sum", async () => promise_rejects_js(TypeError, expand("gzip", [Uint8Array.from(samples.gzip).fill(1, 17, 18)])));
promise_test("deflate: another check sum", async () => promise_rejects_js(TypeError, expand("deflate", [Uint8Array.from(samples.deflate).fill(1, 12)])));
promise_test("deflate: another header", async () => promise_rejects_js(TypeError, expand("deflate", [Uint8Array.from(samples.deflate).fill(0, 0, 1)])));
promise_test("a chunk that is no bytes", async () => promise_rejects_js(TypeError, expand("gzip", ["text"])));
