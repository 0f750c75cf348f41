// Targets: adding and removing listeners.

const log = (target, type, options) => {
  const calls = [];
  const listener = (event) => calls.push(event);
  target.addEventListener(type, listener, options);
  return { calls, listener };
};

test("a target can be constructed", () => assert_class_string(new EventTarget(), "EventTarget"));
test("a target needs new", () => assert_throws_js(TypeError, () => EventTarget()));
test("addEventListener returns undefined", () => assert_equals(new EventTarget().addEventListener("x", () => {}), undefined));
test("addEventListener needs two arguments", () => {
  assert_throws_js(TypeError, () => new EventTarget().addEventListener());
  assert_throws_js(TypeError, () => new EventTarget().addEventListener("x"));
});
for (const value of [null, undefined]) {
  test(`the listener ${value} is ignored`, () => {
    const target = new EventTarget();
    target.addEventListener("x", value);
    target.removeEventListener("x", value);
    assert_true(target.dispatchEvent(new Event("x")));
  });
}
for (const value of [1, "f", true, Symbol("s")]) {
  test(`the listener of type ${typeof value} is refused`, () => assert_throws_js(TypeError, () => new EventTarget().addEventListener("x", value)));
}
test("the type is converted to a string", () => {
  const target = new EventTarget();
  const { calls } = log(target, { toString: () => "12" });
  target.dispatchEvent(new Event(12));
  assert_equals(calls.length, 1);
});
test("a listener is called once for each event", () => {
  const target = new EventTarget();
  const { calls } = log(target, "x");
  target.dispatchEvent(new Event("x"));
  target.dispatchEvent(new Event("x"));
  target.dispatchEvent(new Event("y"));
  assert_equals(calls.length, 2);
});
test("an equal listener is added once", () => {
  const target = new EventTarget();
  let n = 0;
  const f = () => n++;
  for (let i = 0; i < 3; i++) target.addEventListener("x", f);
  target.addEventListener("x", f, { once: true });
  target.addEventListener("x", f, false);
  target.dispatchEvent(new Event("x"));
  target.dispatchEvent(new Event("x"));
  assert_equals(n, 2);
});
test("listeners that capture are others than those that do not", () => {
  const target = new EventTarget();
  let n = 0;
  const f = () => n++;
  target.addEventListener("x", f, true);
  target.addEventListener("x", f, { capture: false });
  target.dispatchEvent(new Event("x"));
  assert_equals(n, 2);
  target.removeEventListener("x", f);
  target.dispatchEvent(new Event("x"));
  assert_equals(n, 3);
  target.removeEventListener("x", f, { capture: true });
  target.dispatchEvent(new Event("x"));
  assert_equals(n, 3);
});
for (const options of [true, 1, "yes", { capture: true }, { capture: 1 }]) {
  test(`options that capture: ${JSON.stringify(options)}`, () => {
    const target = new EventTarget();
    const { calls, listener } = log(target, "x", options);
    target.removeEventListener("x", listener);
    target.dispatchEvent(new Event("x"));
    assert_equals(calls.length, 1);
    target.removeEventListener("x", listener, true);
    target.dispatchEvent(new Event("x"));
    assert_equals(calls.length, 1);
  });
}
for (const options of [undefined, null, false, 0, "", {}, { capture: false }]) {
  test(`options that do not capture: ${JSON.stringify(options)}`, () => {
    const target = new EventTarget();
    const { calls, listener } = log(target, "x", options);
    target.removeEventListener("x", listener, true);
    target.dispatchEvent(new Event("x"));
    assert_equals(calls.length, 1);
    target.removeEventListener("x", listener, options);
    target.dispatchEvent(new Event("x"));
    assert_equals(calls.length, 1);
  });
}
test("the members of the options are read in order", () => {
  const order = [];
  const options = {};
  for (const name of ["signal", "passive", "once", "capture"]) Object.defineProperty(options, name, { get() { order.push(name); } });
  new EventTarget().addEventListener("x", () => {}, options);
  assert_array_equals(order, ["capture", "once", "passive", "signal"]);
});
test("a once listener is removed before it is called", () => {
  const target = new EventTarget();
  let n = 0;
  target.addEventListener("x", () => {
    n++;
    target.dispatchEvent(new Event("x"));
  }, { once: true });
  target.dispatchEvent(new Event("x"));
  assert_equals(n, 1);
});
test("a once listener can be added again", () => {
  const target = new EventTarget();
  let n = 0;
  const f = () => n++;
  for (let i = 0; i < 2; i++) {
    target.addEventListener("x", f, { once: true });
    target.dispatchEvent(new Event("x"));
  }
  assert_equals(n, 2);
});
test("a passive listener cannot cancel", () => {
  const target = new EventTarget();
  const event = new Event("x", { cancelable: true });
  let prevented;
  target.addEventListener("x", (e) => {
    e.preventDefault();
    e.returnValue = false;
    prevented = e.defaultPrevented;
  }, { passive: true });
  assert_true(target.dispatchEvent(event));
  assert_false(prevented);
});
test("a listener after a passive one can cancel", () => {
  const target = new EventTarget();
  target.addEventListener("x", () => {}, { passive: true });
  target.addEventListener("x", (e) => e.preventDefault());
  assert_false(target.dispatchEvent(new Event("x", { cancelable: true })));
});
test("an object with handleEvent", () => {
  const target = new EventTarget();
  const calls = [];
  const listener = { handleEvent(event) { calls.push(this === listener, event.type); } };
  target.addEventListener("x", listener);
  target.dispatchEvent(new Event("x"));
  assert_array_equals(calls, [true, "x"]);
});
test("handleEvent is looked up for each event", () => {
  const target = new EventTarget();
  const calls = [];
  const listener = {};
  target.addEventListener("x", listener);
  listener.handleEvent = () => calls.push(1);
  target.dispatchEvent(new Event("x"));
  listener.handleEvent = () => calls.push(2);
  target.dispatchEvent(new Event("x"));
  assert_array_equals(calls, [1, 2]);
});
test("handleEvent of a function is not called", () => {
  const target = new EventTarget();
  const calls = [];
  const listener = () => calls.push("function");
  listener.handleEvent = () => calls.push("method");
  target.addEventListener("x", listener);
  target.dispatchEvent(new Event("x"));
  assert_array_equals(calls, ["function"]);
});
test("the receiver of a function is the target", () => {
  const target = new EventTarget();
  let self;
  target.addEventListener("x", function () { self = this; });
  target.dispatchEvent(new Event("x"));
  assert_equals(self, target);
});
test("a signal removes the listener", () => {
  const target = new EventTarget();
  const controller = new AbortController();
  const { calls } = log(target, "x", { signal: controller.signal });
  target.dispatchEvent(new Event("x"));
  controller.abort();
  target.dispatchEvent(new Event("x"));
  assert_equals(calls.length, 1);
});
test("an aborted signal adds no listener", () => {
  const target = new EventTarget();
  const { calls } = log(target, "x", { signal: AbortSignal.abort() });
  target.dispatchEvent(new Event("x"));
  assert_equals(calls.length, 0);
});
test("a signal removes the listeners of several targets", () => {
  const controller = new AbortController();
  const targets = [new EventTarget(), new EventTarget(), new EventTarget()];
  const logs = targets.map((target) => log(target, "x", { signal: controller.signal, once: true }));
  controller.abort();
  for (const target of targets) target.dispatchEvent(new Event("x"));
  assert_array_equals(logs.map((l) => l.calls.length), [0, 0, 0]);
});
test("a signal that is aborted during a dispatch removes the listeners that follow", () => {
  const target = new EventTarget();
  const controller = new AbortController();
  target.addEventListener("x", () => controller.abort(), { signal: controller.signal });
  const { calls } = log(target, "x", { signal: controller.signal });
  target.dispatchEvent(new Event("x"));
  assert_equals(calls.length, 0);
});
for (const signal of [null, 1, {}, "s"]) {
  test(`${JSON.stringify(signal)} is no signal`, () => assert_throws_js(TypeError, () => new EventTarget().addEventListener("x", () => {}, { signal })));
}
test("removing a listener that is not there", () => {
  const target = new EventTarget();
  assert_equals(target.removeEventListener("x", () => {}), undefined);
  assert_throws_js(TypeError, () => target.removeEventListener("x"));
});
test("a removed listener can be added again, at the end", () => {
  const target = new EventTarget();
  const order = [];
  const a = () => order.push("a");
  const b = () => order.push("b");
  target.addEventListener("x", a);
  target.addEventListener("x", b);
  target.removeEventListener("x", a);
  target.addEventListener("x", a);
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, ["b", "a"]);
});
for (const [name, length] of [["addEventListener", 2], ["removeEventListener", 2], ["dispatchEvent", 1]]) {
  test(`${name} is a method`, () => assert_idl_method(EventTarget.prototype, name, length));
  test(`${name} needs a target`, () => assert_throws_js(TypeError, () => EventTarget.prototype[name].call({}, "x", () => {})));
}
test("subclasses", () => {
  class Mine extends EventTarget {
    constructor() { super(); this.n = 0; }
    emit() { return this.dispatchEvent(new Event("x", { cancelable: true })); }
  }
  const target = new Mine();
  target.addEventListener("x", (e) => { target.n++; e.preventDefault(); });
  assert_false(target.emit());
  assert_equals(target.n, 1);
});
