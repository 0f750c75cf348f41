// Events with a value.

test("the detail is null without a dictionary", () => {
  assert_equals(new CustomEvent("x").detail, null);
  assert_equals(new CustomEvent("x", undefined).detail, null);
  assert_equals(new CustomEvent("x", {}).detail, null);
  assert_equals(new CustomEvent("x", { detail: undefined }).detail, null);
});
for (const value of [0, "", false, "text", Symbol.iterator, NaN]) {
  test(`the detail is kept: ${String(value)}`, () => assert_equals(new CustomEvent("x", { detail: value }).detail, value));
}
test("the detail is not copied", () => {
  const detail = { a: [] };
  assert_equals(new CustomEvent("x", { detail }).detail, detail);
});
test("it is an event", () => {
  const event = new CustomEvent("x", { bubbles: true, cancelable: true, composed: true });
  assert_true(event instanceof Event);
  assert_object_equals([event.type, event.bubbles, event.cancelable, event.composed], ["x", true, true, true]);
});
test("the type is required", () => {
  assert_throws_js(TypeError, () => new CustomEvent());
  assert_throws_js(TypeError, () => CustomEvent("x"));
});
test("initCustomEvent sets everything", () => {
  const event = new CustomEvent("x");
  event.initCustomEvent("y", true, true, 5);
  assert_object_equals([event.type, event.bubbles, event.cancelable, event.detail], ["y", true, true, 5]);
  event.initCustomEvent("z");
  assert_object_equals([event.type, event.bubbles, event.cancelable, event.detail], ["z", false, false, null]);
});
test("initCustomEvent does nothing during a dispatch", () => {
  const target = new EventTarget();
  const event = new CustomEvent("x", { detail: 1 });
  target.addEventListener("x", () => event.initCustomEvent("y", true, true, 2));
  target.dispatchEvent(event);
  assert_object_equals([event.type, event.detail], ["x", 1]);
});
test("a target passes the detail", () => {
  const target = new EventTarget();
  let detail;
  target.addEventListener("x", (e) => { detail = e.detail; });
  target.dispatchEvent(new CustomEvent("x", { detail: "given" }));
  assert_equals(detail, "given");
});
test("the interface", () => {
  assert_idl_attribute(CustomEvent.prototype, "detail");
  assert_class_string(new CustomEvent("x"), "CustomEvent");
  assert_equals(CustomEvent.length, 1);
  assert_equals(Object.getPrototypeOf(CustomEvent), Event);
});
test("the detail needs a custom event", () => {
  const { get } = Object.getOwnPropertyDescriptor(CustomEvent.prototype, "detail");
  assert_throws_js(TypeError, () => get.call(new Event("x")));
});
