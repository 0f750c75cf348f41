// Events about rejected promises.

test("promise and reason", () => {
  const promise = Promise.resolve();
  const event = new PromiseRejectionEvent("unhandledrejection", { promise, reason: 5, cancelable: true });
  assert_equals(event.promise, promise);
  assert_equals(event.reason, 5);
  assert_true(event.cancelable);
});
test("the reason is optional", () => assert_equals(new PromiseRejectionEvent("x", { promise: Promise.resolve() }).reason, undefined));
test("the promise is required", () => {
  assert_throws_js(TypeError, () => new PromiseRejectionEvent("x"));
  assert_throws_js(TypeError, () => new PromiseRejectionEvent("x", {}));
  assert_throws_js(TypeError, () => new PromiseRejectionEvent("x", null));
  assert_throws_js(TypeError, () => new PromiseRejectionEvent("x", { promise: undefined }));
});
test("the interface", () => {
  assert_idl_attribute(PromiseRejectionEvent.prototype, "promise");
  assert_idl_attribute(PromiseRejectionEvent.prototype, "reason");
  assert_equals(PromiseRejectionEvent.length, 2);
  assert_class_string(new PromiseRejectionEvent("x", { promise: Promise.resolve() }), "PromiseRejectionEvent");
});
