// Controllers of signals.

test("a controller has one signal", () => {
  const controller = new AbortController();
  assert_equals(controller.signal, controller.signal);
  assert_true(controller.signal instanceof AbortSignal);
  assert_false(controller.signal.aborted);
  assert_equals(controller.signal.reason, undefined);
});
test("a controller needs new", () => assert_throws_js(TypeError, () => AbortController()));
test("signal cannot be set", () => {
  "use strict";
  assert_throws_js(TypeError, () => { "use strict"; new AbortController().signal = 1; });
});
test("abort aborts the signal", () => {
  const controller = new AbortController();
  assert_equals(controller.abort(), undefined);
  assert_true(controller.signal.aborted);
  assert_equals(controller.signal.reason.name, "AbortError");
  assert_equals(controller.signal.reason.code, 20);
  assert_true(controller.signal.reason instanceof DOMException);
});
test("abort(undefined) has the default reason", () => {
  const controller = new AbortController();
  controller.abort(undefined);
  assert_equals(controller.signal.reason.name, "AbortError");
});
for (const reason of [null, 0, "", false, "text", NaN]) {
  test(`the reason is kept: ${typeof reason} ${String(reason)}`, () => {
    const controller = new AbortController();
    controller.abort(reason);
    assert_equals(controller.signal.reason, reason);
  });
}
test("the second abort does nothing", () => {
  const controller = new AbortController();
  let n = 0;
  controller.signal.addEventListener("abort", () => n++);
  controller.abort(1);
  controller.abort(2);
  assert_equals(controller.signal.reason, 1);
  assert_equals(n, 1);
});
test("the reason stays the same object", () => {
  const controller = new AbortController();
  controller.abort();
  assert_equals(controller.signal.reason, controller.signal.reason);
});
test("the event", () => {
  const controller = new AbortController();
  let event;
  controller.signal.addEventListener("abort", (e) => { event = e; });
  controller.abort();
  assert_object_equals([event.type, event.bubbles, event.cancelable, event.isTrusted], ["abort", false, false, true]);
  assert_equals(event.target, controller.signal);
  assert_equals(event.constructor, Event);
});
test("the signal is aborted before listeners run", () => {
  const controller = new AbortController();
  let seen;
  controller.signal.addEventListener("abort", () => { seen = [controller.signal.aborted, controller.signal.reason]; });
  controller.abort("r");
  assert_array_equals(seen, [true, "r"]);
});
test("abort in a listener does nothing", () => {
  const controller = new AbortController();
  let n = 0;
  controller.signal.addEventListener("abort", () => { n++; controller.abort(); });
  controller.abort();
  assert_equals(n, 1);
});
test("the interface", () => {
  assert_idl_attribute(AbortController.prototype, "signal");
  assert_idl_method(AbortController.prototype, "abort", 0);
  assert_class_string(new AbortController(), "AbortController");
  assert_equals(AbortController.length, 0);
});
test("the members need a controller", () => {
  assert_throws_js(TypeError, () => AbortController.prototype.abort.call({}));
  assert_throws_js(TypeError, () => AbortController.prototype.signal);
});
test("subclasses", () => {
  class Mine extends AbortController {}
  const controller = new Mine();
  controller.abort();
  assert_true(controller.signal.aborted);
});
