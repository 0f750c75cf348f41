// Events about errors.

for (const [name, want] of [["message", ""], ["filename", ""], ["lineno", 0], ["colno", 0], ["error", undefined]]) {
  test(`the default of ${name}`, () => {
    assert_equals(new ErrorEvent("error")[name], want);
    assert_equals(new ErrorEvent("error", {})[name], want);
  });
  test(`${name} is an attribute`, () => assert_idl_attribute(ErrorEvent.prototype, name));
}
test("the members of the dictionary", () => {
  const error = new RangeError("r");
  const event = new ErrorEvent("error", { message: "m", filename: "f", lineno: 3, colno: 4, error, cancelable: true });
  assert_object_equals([event.type, event.message, event.filename, event.lineno, event.colno, event.cancelable], ["error", "m", "f", 3, 4, true]);
  assert_equals(event.error, error);
});
test("line and column are unsigned 32-bit integers", () => {
  assert_equals(new ErrorEvent("x", { lineno: -1 }).lineno, 4294967295);
  assert_equals(new ErrorEvent("x", { colno: 4294967297.5 }).colno, 1);
  assert_equals(new ErrorEvent("x", { colno: "x" }).colno, 0);
});
test("the error may be any value", () => {
  assert_equals(new ErrorEvent("x", { error: null }).error, null);
  assert_equals(new ErrorEvent("x", { error: 0 }).error, 0);
});
test("the file name is a string without lone surrogates", () => {
  assert_equals(new ErrorEvent("x", { filename: "a\ud800" }).filename, "a\ufffd");
  assert_equals(new ErrorEvent("x", { message: "a\ud800" }).message, "a\ud800");
});
test("it is an event", () => {
  assert_true(new ErrorEvent("x") instanceof Event);
  assert_class_string(new ErrorEvent("x"), "ErrorEvent");
  assert_throws_js(TypeError, () => new ErrorEvent());
  assert_equals(ErrorEvent.length, 1);
});
