// Files: blobs with a name and a time.

for (const name of ["name", "lastModified"]) test(`the attribute ${name}`, () => assert_idl_attribute(File.prototype, name));
test("the class string", () => assert_class_string(new File([], "n"), "File"));
test("the length of the constructor", () => assert_equals(File.length, 2));
test("a file is a blob", () => assert_true(new File([], "n") instanceof Blob));
test("two arguments are needed", () => {
  assert_throws_js(TypeError, () => new File());
  assert_throws_js(TypeError, () => new File([]));
});
for (const [name, want] of [["a/b", "a/b"], ["", ""], [null, "null"], [5, "5"], ["\ud800", "\ufffd"]]) {
  test(`the name ${JSON.stringify(name)}`, () => assert_equals(new File([], name).name, want));
}
for (const [time, want] of [[5, 5], [-5, -5], [5.9, 5], ["7", 7], [null, 0], [NaN, 0], [new Date(9), 9]]) {
  test(`the time ${typeof time} ${String(time)}`, () => assert_equals(new File([], "n", { lastModified: time }).lastModified, want));
}
test("the time is now without one", () => {
  const before = Date.now();
  const { lastModified } = new File([], "n");
  assert_true(lastModified >= before && lastModified <= Date.now());
});
test("the type", () => assert_equals(new File([], "n", { type: "A/B" }).type, "a/b"));
promise_test("the content", async () => assert_equals(await new File(["a", "b"], "n").text(), "ab"));
test("a slice is a blob", () => assert_false(new File(["a"], "n").slice() instanceof File));
test("attributes need a file", () => assert_throws_js(TypeError, () => Object.getOwnPropertyDescriptor(File.prototype, "name").get.call(new Blob())));
for (const parts of [null, "text", 1]) {
  test(`${String(parts)} has no parts`, () => assert_throws_js(TypeError, () => new File(parts, "n")));
}
