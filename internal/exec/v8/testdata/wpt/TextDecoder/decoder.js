// Labels, encodings, options and parts.

for (const name of ["encoding", "fatal", "ignoreBOM"]) test(`the attribute ${name}`, () => assert_idl_attribute(TextDecoder.prototype, name));
test("the method decode", () => assert_idl_method(TextDecoder.prototype, "decode", 0));
test("members need a decoder", () => {
  assert_throws_js(TypeError, () => TextDecoder.prototype.decode.call({}));
  assert_throws_js(TypeError, () => Object.getOwnPropertyDescriptor(TextDecoder.prototype, "encoding").get.call({}));
});
test("options are an object", () => assert_throws_js(TypeError, () => new TextDecoder("utf-8", 5)));
for (const [label, name] of [
  ["utf8", "utf-8"], [" UTF-8\n", "utf-8"], ["unicode-1-1-utf-8", "utf-8"], ["latin1", "windows-1252"], ["ascii", "windows-1252"], ["iso-8859-1", "windows-1252"],
  ["cp1252", "windows-1252"], ["x-cp1251", "windows-1251"], ["iso-8859-2", "iso-8859-2"], ["koi8-r", "koi8-r"], ["KOI8_R", "koi8-r"], ["cp866", "ibm866"],
  ["gbk", "gbk"], ["gb2312", "gbk"], ["gb18030", "gb18030"], ["big5", "big5"], ["sjis", "shift_jis"], ["euc-jp", "euc-jp"], ["iso-2022-jp", "iso-2022-jp"],
  ["ks_c_5601-1987", "euc-kr"], ["utf-16", "utf-16le"], ["utf-16be", "utf-16be"], ["unicode", "utf-16le"], ["mac", "macintosh"], ["windows-874", "windows-874"],
]) {
  test(`the label ${JSON.stringify(label)}`, () => assert_equals(new TextDecoder(label).encoding, name));
}
for (const label of ["", "none", "utf-8\u00a0", "utf-7", "utf-32", "replacement", "iso-2022-kr", "\u000butf-8", "l\u00e1tin1", null]) {
  test(`the label ${JSON.stringify(label)} is refused`, () => assert_throws_js(RangeError, () => new TextDecoder(label)));
}
for (const [name, bytes, want] of [
  ["windows-1252", [0x63, 0xe9, 0x80, 0x81], "c\u00e9\u20ac\u0081"], ["windows-1251", [0xcf, 0xf0], "\u041f\u0440"], ["koi8-r", [0xd0, 0xd2], "\u043f\u0440"],
  ["iso-8859-2", [0xb1], "\u0105"], ["gbk", [0xc4, 0xe3], "\u4f60"], ["gb18030", [0x94, 0x39, 0xda, 0x33], "\ud83d\udca9"], ["big5", [0xa7, 0x41], "\u4f60"],
  ["shift_jis", [0x82, 0xa0, 0xb1], "\u3042\uff71"], ["euc-jp", [0xa4, 0xa2], "\u3042"], ["iso-2022-jp", [0x1b, 0x24, 0x42, 0x24, 0x22, 0x1b, 0x28, 0x42], "\u3042"],
  ["euc-kr", [0xb0, 0xa1], "\uac00"], ["utf-16le", [0x3d, 0xd8, 0, 0xde], "\ud83d\ude00"], ["utf-16be", [0xd8, 0x3d, 0xde, 0], "\ud83d\ude00"],
]) {
  test(`${name} as a whole`, () => assert_equals(new TextDecoder(name).decode(Uint8Array.from(bytes)), want));
  test(`${name} byte by byte`, () => {
    const decoder = new TextDecoder(name);
    let text = "";
    for (const byte of bytes) text += decoder.decode(Uint8Array.of(byte), { stream: true });
    assert_equals(text + decoder.decode(), want);
  });
}
for (const [name, bytes] of [["utf-16le", [0, 0xd8]], ["utf-16be", [0xdc, 0]], ["gbk", [0xff]], ["shift_jis", [0x82]], ["windows-1253", [0xaa]]]) {
  test(`${name}: damage`, () => assert_equals(new TextDecoder(name).decode(Uint8Array.from(bytes)), "\ufffd"));
  test(`${name}: damage is fatal`, () => assert_throws_js(TypeError, () => new TextDecoder(name, { fatal: true }).decode(Uint8Array.from(bytes))));
}
test("UTF-16 loses its byte order mark", () => {
  assert_equals(new TextDecoder("utf-16le").decode(Uint8Array.of(0xff, 0xfe, 97, 0)), "a");
  assert_equals(new TextDecoder("utf-16le", { ignoreBOM: true }).decode(Uint8Array.of(0xff, 0xfe, 97, 0)), "\ufeffa");
});
test("the mark of another encoding stays", () => assert_equals(new TextDecoder("windows-1252").decode(Uint8Array.of(0xef, 0xbb, 0xbf)), "\u00ef\u00bb\u00bf"));
test("a decoder is used again", () => {
  const decoder = new TextDecoder("utf-16le");
  assert_equals(decoder.decode(Uint8Array.of(97)), "\ufffd");
  assert_equals(decoder.decode(Uint8Array.of(98, 0)), "b");
});
for (const [name, bytes] of [["utf-8", [0xef, 0xbf, 0xbd]], ["utf-16le", [0xfd, 0xff]], ["utf-16be", [0xff, 0xfd]], ["gb18030", [0x84, 0x31, 0xa4, 0x37]], ["gbk", [0x84, 0x31, 0xa4, 0x37]]]) {
  test(`${name}: U+FFFD itself is no damage`, () => assert_equals(new TextDecoder(name, { fatal: true }).decode(Uint8Array.from(bytes)), "\ufffd"));
}
for (const name of ["utf-8", "utf-16le"]) {
  test(`${name}: a detached buffer has no bytes`, () => {
    const { buffer } = new Uint8Array(2);
    structuredClone(buffer, { transfer: [buffer] });
    assert_equals(new TextDecoder(name).decode(buffer), "");
  });
}
