// Text to UTF-8.

test("the attribute encoding", () => assert_idl_attribute(TextEncoder.prototype, "encoding"));
test("the method encode", () => assert_idl_method(TextEncoder.prototype, "encode", 0));
test("the method encodeInto", () => assert_idl_method(TextEncoder.prototype, "encodeInto", 2));
test("the class string", () => assert_class_string(new TextEncoder(), "TextEncoder"));
test("the encoding", () => assert_equals(new TextEncoder("latin1").encoding, "utf-8"));
for (const [text, want] of [
  ["", []], [undefined, []], ["a\u00e9", [0x61, 0xc3, 0xa9]], ["\u20ac", [0xe2, 0x82, 0xac]], ["\ud83d\ude00", [0xf0, 0x9f, 0x98, 0x80]],
  ["\ud800", [0xef, 0xbf, 0xbd]], ["\udc00a", [0xef, 0xbf, 0xbd, 0x61]], [null, [0x6e, 0x75, 0x6c, 0x6c]], [1, [0x31]],
]) {
  test(`encode(${JSON.stringify(text)})`, () => assert_array_equals(new TextEncoder().encode(text), want));
}
for (const [text, size, read, written] of [["ab", 1, 1, 1], ["a\u20ac", 3, 1, 1], ["\ud83d\ude00b", 4, 2, 4], ["\ud83d\ude00b", 3, 0, 0], ["\ud800", 3, 1, 3], ["", 0, 0, 0]]) {
  test(`encodeInto(${JSON.stringify(text)}, ${size} bytes)`, () =>
    assert_object_equals(new TextEncoder().encodeInto(text, new Uint8Array(size)), { read, written }));
}
test("encodeInto needs bytes", () => {
  assert_throws_js(TypeError, () => new TextEncoder().encodeInto("a"));
  assert_throws_js(TypeError, () => new TextEncoder().encodeInto("a", []));
  assert_throws_js(TypeError, () => new TextEncoder().encodeInto("a", new Int8Array(1)));
});
test("members need an encoder", () => {
  assert_throws_js(TypeError, () => TextEncoder.prototype.encode.call({}, ""));
  assert_throws_js(TypeError, () => TextEncoder.prototype.encodeInto.call({}, "", new Uint8Array(1)));
  assert_throws_js(TypeError, () => Object.getOwnPropertyDescriptor(TextEncoder.prototype, "encoding").get.call({}));
});
