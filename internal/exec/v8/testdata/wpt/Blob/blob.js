// Blobs: their parts, types and slices.

for (const [name, length] of [["arrayBuffer", 0], ["bytes", 0], ["slice", 0], ["stream", 0], ["text", 0]]) {
  test(`the method ${name}`, () => assert_idl_method(Blob.prototype, name, length));
}
for (const name of ["size", "type"]) test(`the attribute ${name}`, () => assert_idl_attribute(Blob.prototype, name));
test("the class string", () => assert_class_string(new Blob(), "Blob"));
test("the length of the constructor", () => assert_equals(Blob.length, 0));
test("the constructor needs new", () => assert_throws_js(TypeError, () => Blob()));
test("an empty blob", () => assert_array_equals([new Blob().size, new Blob().type], [0, ""]));
for (const [what, parts, want] of [
  ["texts", ["a", "b"], "ab"], ["numbers", [1, 2], "12"], ["an object", [{}], "[object Object]"], ["null and undefined", [null, undefined], "nullundefined"],
  ["nested arrays", [["a", "b"]], "a,b"], ["a lone surrogate", ["\ud800"], "\ufffd"], ["no parts", [], ""],
]) {
  promise_test(`the text of ${what}`, async () => assert_equals(await new Blob(parts).text(), want));
}
promise_test("buffers, views and blobs", async () => {
  const bytes = new Uint8Array([97, 98, 99, 100]);
  const blob = new Blob([bytes.buffer, bytes.subarray(1, 3), new DataView(bytes.buffer, 3), new Uint16Array([0x6161]), new Blob(["z"])]);
  assert_equals(await blob.text(), "abcdbcdaaz");
});
promise_test("the content is copied", async () => {
  const bytes = new Uint8Array([97]);
  const blob = new Blob([bytes]);
  bytes[0] = 98;
  assert_equals(await blob.text(), "a");
});
promise_test("any iterable has the parts", async () => assert_equals(await new Blob(new Set(["a", "b"])).text(), "ab"));
for (const parts of [null, 1, "text", true, {}, new Date(0)]) {
  test(`${Object.prototype.toString.call(parts)} has no parts`, () => assert_throws_js(TypeError, () => new Blob(parts)));
}
test("errors of conversions are passed on", () => {
  const error = new Error("x");
  assert_throws_exactly(error, () => new Blob([{ toString() { throw error; } }]));
});
for (const options of [1, "text", true]) {
  test(`the options ${options} are refused`, () => assert_throws_js(TypeError, () => new Blob([], options)));
}
for (const [type, want] of [["text/PLAIN", "text/plain"], ["a\u00e9", ""], ["\x1f", ""], ["\x7f", ""], ["any text", "any text"], [null, "null"], [undefined, ""]]) {
  test(`the type ${JSON.stringify(type)}`, () => assert_equals(new Blob([], { type }).type, want));
}
promise_test("line ends are kept", async () => assert_equals(await new Blob(["a\r\nb\rc\n"]).text(), "a\r\nb\rc\n"));
promise_test("line ends become native", async () => assert_equals(await new Blob(["a\r\nb\rc\n", "\r"], { endings: "native" }).text(), "a\nb\nc\n\n"));
test("other endings are refused", () => assert_throws_js(TypeError, () => new Blob([], { endings: "other" })));
for (const [args, want] of [
  [[], "abcdef"], [[2], "cdef"], [[2, 4], "cd"], [[-2], "ef"], [[-4, -2], "cd"], [[4, 2], ""], [[0, 100], "abcdef"], [[-100, 2], "ab"], [[undefined, 3], "abc"],
  [["1", "3"], "bc"], // Node 20 ends with NaN and fractions
]) {
  promise_test(`slice(${args.map(String).join(", ")})`, async () => assert_equals(await new Blob(["abcdef"]).slice(...args).text(), want));
}
test("a slice has its own type", () => {
  const blob = new Blob(["a"], { type: "a/b" });
  assert_array_equals([blob.slice().type, blob.slice(0, 1, "C/D").type, blob.slice(0, 1, "\u00e9").type], ["", "c/d", ""]);
});
promise_test("the bytes are a copy each time", async () => {
  const blob = new Blob(["a"]);
  const first = await blob.bytes();
  first[0] = 98;
  assert_array_equals(await blob.bytes(), [97]);
  assert_equals((await blob.arrayBuffer()).byteLength, 1);
});
promise_test("the stream has the bytes", async () => {
  const chunks = [];
  for await (const chunk of new Blob(["ab", "c"]).stream()) chunks.push(...chunk);
  assert_array_equals(chunks, [97, 98, 99]);
});
promise_test("the stream fills buffers", async () => {
  const { value } = await new Blob(["abc"]).stream().getReader({ mode: "byob" }).read(new Uint8Array(2));
  assert_array_equals(value, [97, 98]);
});
promise_test("methods need a blob", async () => {
  await promise_rejects_js(TypeError, Blob.prototype.text.call({}));
  assert_throws_js(TypeError, () => Blob.prototype.slice.call({}));
  assert_throws_js(TypeError, () => Object.getOwnPropertyDescriptor(Blob.prototype, "size").get.call({}));
});
for (const [args, want] of [[[0, Infinity], "abcdef"], [[-Infinity, 2], "ab"], [[0, 2 ** 64], "abcdef"], [[0, null], ""]]) {
  promise_test(`slice(${args.map(String).join(", ")})`, async () => assert_equals(await new Blob(["abcdef"]).slice(...args).text(), want));
}
promise_test("a structured clone has the content", async () => {
  const copy = structuredClone({ blob: new Blob(["ab"], { type: "a/b" }) }).blob;
  assert_true(copy instanceof Blob);
  assert_equals(copy.type, "a/b");
  assert_equals(await copy.text(), "ab");
});
