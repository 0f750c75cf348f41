// Signals.

test("a signal cannot be constructed", () => assert_throws_js(TypeError, () => new AbortSignal()));
test("abort() returns an aborted signal", () => {
  const signal = AbortSignal.abort();
  assert_true(signal instanceof AbortSignal);
  assert_true(signal.aborted);
  assert_equals(signal.reason.name, "AbortError");
});
for (const reason of [null, 0, "text", false]) {
  test(`abort(${JSON.stringify(reason)}) has the reason`, () => assert_equals(AbortSignal.abort(reason).reason, reason));
}
test("abort() returns a new signal each time", () => {
  assert_not_equals(AbortSignal.abort(), AbortSignal.abort());
  assert_not_equals(AbortSignal.abort().reason, AbortSignal.abort().reason);
});
test("an aborted signal fires no event", () => {
  const signal = AbortSignal.abort();
  let n = 0;
  signal.onabort = () => n++;
  assert_equals(n, 0);
});
test("throwIfAborted throws the reason", () => {
  const reason = { a: 1 };
  assert_throws_exactly(reason, () => AbortSignal.abort(reason).throwIfAborted());
  assert_throws_exactly(null, () => AbortSignal.abort(null).throwIfAborted());
  assert_throws_dom("AbortError", () => AbortSignal.abort().throwIfAborted());
});
test("throwIfAborted returns undefined otherwise", () => assert_equals(new AbortController().signal.throwIfAborted(), undefined));
test("onabort is null at first", () => assert_equals(new AbortController().signal.onabort, null));
test("onabort is called with the signal as its receiver", () => {
  const controller = new AbortController();
  let seen;
  controller.signal.onabort = function (event) { seen = [this, event.type]; };
  controller.abort();
  assert_array_equals(seen, [controller.signal, "abort"]);
});
test("onabort keeps its place among the listeners", () => {
  const controller = new AbortController();
  const order = [];
  const { signal } = controller;
  signal.addEventListener("abort", () => order.push(1));
  signal.onabort = () => order.push("wrong");
  signal.addEventListener("abort", () => order.push(3));
  signal.onabort = () => order.push(2);
  controller.abort();
  assert_array_equals(order, [1, 2, 3]);
});
test("onabort = null removes the handler and its place", () => {
  const controller = new AbortController();
  const order = [];
  const { signal } = controller;
  signal.onabort = () => order.push("wrong");
  signal.addEventListener("abort", () => order.push(1));
  signal.onabort = null;
  assert_equals(signal.onabort, null);
  signal.onabort = () => order.push(2);
  controller.abort();
  assert_array_equals(order, [1, 2]);
});
for (const value of [1, "f", undefined, true, Symbol("s")]) {
  test(`onabort = ${String(value)} is null`, () => {
    const { signal } = new AbortController();
    signal.onabort = () => {};
    signal.onabort = value;
    assert_equals(signal.onabort, null);
  });
}
test("onabort keeps an object that is no function, and does not call it", () => {
  const controller = new AbortController();
  const object = { handleEvent() { throw new Error("called"); } };
  controller.signal.onabort = object;
  assert_equals(controller.signal.onabort, object);
  controller.abort();
});
test("a script can dispatch abort events itself", () => {
  const { signal } = new AbortController();
  let trusted;
  signal.onabort = (e) => { trusted = e.isTrusted; };
  signal.dispatchEvent(new Event("abort"));
  assert_equals(trusted, false);
  assert_false(signal.aborted);
});
test("the listener of another signal is removed before the abort event", () => {
  const controller = new AbortController();
  let n = 0;
  controller.signal.addEventListener("abort", () => n++, { signal: controller.signal });
  controller.abort();
  assert_equals(n, 0);
});
promise_test("timeout aborts with a TimeoutError", async () => {
  const signal = AbortSignal.timeout(5);
  assert_false(signal.aborted);
  await wait(30);
  assert_true(signal.aborted);
  assert_equals(signal.reason.name, "TimeoutError");
  assert_equals(signal.reason.code, 23);
});
promise_test("timeout fires the event", async () => {
  let event;
  AbortSignal.timeout(5).onabort = (e) => { event = e; };
  await wait(30);
  assert_equals(event.type, "abort");
  assert_true(event.isTrusted);
});
promise_test("timeouts fire in the order of their delays", async () => {
  const order = [];
  AbortSignal.timeout(40).onabort = () => order.push(40);
  AbortSignal.timeout(10).onabort = () => order.push(10);
  AbortSignal.timeout(20).onabort = () => order.push(20);
  await wait(100);
  assert_array_equals(order, [10, 20, 40]);
});
test("timeout needs a number in range", () => {
  for (const value of [-1, NaN, Infinity, 2 ** 64]) assert_true([TypeError, RangeError].includes((() => { try { AbortSignal.timeout(value); } catch (e) { return e.constructor; } })()), `${value}`);
  assert_throws_js(TypeError, () => AbortSignal.timeout());
});
test("any() of no signals is never aborted", () => {
  const signal = AbortSignal.any([]);
  assert_true(signal instanceof AbortSignal);
  assert_false(signal.aborted);
});
test("any() needs an iterable of signals", () => {
  for (const value of [undefined, null, 1, {}, [1], [null], ["s"]]) assert_throws_js(TypeError, () => AbortSignal.any(value));
  assert_throws_js(TypeError, () => AbortSignal.any());
});
test("any() takes any iterable", () => {
  const controller = new AbortController();
  const signal = AbortSignal.any(new Set([controller.signal]));
  controller.abort();
  assert_true(signal.aborted);
});
test("any() of an aborted signal", () => {
  assert_equals(AbortSignal.any([new AbortController().signal, AbortSignal.abort("a"), AbortSignal.abort("b")]).reason, "a");
});
test("any() returns a new signal", () => {
  const { signal } = new AbortController();
  assert_not_equals(AbortSignal.any([signal]), signal);
});
for (const at of [0, 1, 2]) {
  test(`any() follows signal ${at}`, () => {
    const controllers = [new AbortController(), new AbortController(), new AbortController()];
    const signal = AbortSignal.any(controllers.map((c) => c.signal));
    let n = 0;
    signal.addEventListener("abort", () => n++);
    controllers[at].abort(at);
    assert_true(signal.aborted);
    assert_equals(signal.reason, at);
    for (const controller of controllers) controller.abort("late");
    assert_equals(signal.reason, at);
    assert_equals(n, 1);
  });
}
test("any() without listeners follows the first signal that is aborted", () => {
  const [a, b] = [new AbortController(), new AbortController()];
  const signal = AbortSignal.any([a.signal, b.signal]);
  b.abort("first");
  a.abort("second");
  assert_equals(signal.reason, "first");
});
test("any() of any()", () => {
  const controller = new AbortController();
  const inner = AbortSignal.any([controller.signal]);
  const outer = AbortSignal.any([inner, new AbortController().signal]);
  let seen;
  outer.onabort = () => { seen = inner.aborted; };
  controller.abort("r");
  assert_equals(outer.reason, "r");
  assert_true(seen);
});
test("all dependent signals are aborted before the first event", () => {
  const controller = new AbortController();
  const first = AbortSignal.any([controller.signal]);
  const second = AbortSignal.any([controller.signal]);
  const seen = [];
  controller.signal.addEventListener("abort", () => seen.push(first.aborted, second.aborted));
  first.addEventListener("abort", () => seen.push(second.aborted));
  second.addEventListener("abort", () => seen.push(first.aborted));
  controller.abort();
  assert_array_equals(seen, [true, true, true, true]);
});
test("the source fires before its dependents, which fire in the order of their creation", () => {
  const controller = new AbortController();
  const order = [];
  AbortSignal.any([controller.signal]).onabort = () => order.push(1);
  AbortSignal.any([controller.signal]).onabort = () => order.push(2);
  controller.signal.onabort = () => order.push(0);
  controller.abort();
  assert_array_equals(order, [0, 1, 2]);
});
test("a signal that any() names twice", () => {
  const controller = new AbortController();
  const signal = AbortSignal.any([controller.signal, controller.signal]);
  let n = 0;
  signal.onabort = () => n++;
  controller.abort();
  assert_equals(n, 1);
});
promise_test("any() of a timeout", async () => {
  const signal = AbortSignal.any([new AbortController().signal, AbortSignal.timeout(5)]);
  await wait(30);
  assert_equals(signal.reason.name, "TimeoutError");
});
for (const name of ["aborted", "reason"]) {
  test(`${name} is an attribute`, () => assert_idl_attribute(AbortSignal.prototype, name));
  test(`${name} needs a signal`, () => assert_throws_js(TypeError, () => AbortSignal.prototype[name]));
}
test("onabort is a settable attribute", () => assert_idl_attribute(AbortSignal.prototype, "onabort", true));
test("throwIfAborted is a method", () => assert_idl_method(AbortSignal.prototype, "throwIfAborted", 0));
for (const [name, length] of [["abort", 0], ["timeout", 1], ["any", 1]]) test(`${name} is a static method`, () => assert_idl_method(AbortSignal, name, length));
test("a signal is a target", () => {
  assert_true(new AbortController().signal instanceof EventTarget);
  assert_class_string(new AbortController().signal, "AbortSignal");
});
test("a dependent signal that is aborted fires no event later", () => {
  const one = new AbortController();
  const two = new AbortController();
  const signal = AbortSignal.any([one.signal, two.signal]);
  one.abort("first");
  signal.onabort = () => assert_unreached("abort");
  two.abort("second");
  assert_equals(signal.reason, "first");
});
