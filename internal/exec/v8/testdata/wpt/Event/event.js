// Events: construction, attributes, flags.

test("the type is required", () => {
  assert_throws_js(TypeError, () => new Event());
  assert_throws_js(TypeError, () => Event("x"));
});
for (const [given, want] of [["x", "x"], [undefined, "undefined"], [null, "null"], [12, "12"], ["", ""], [{ toString: () => "t" }, "t"]]) {
  test(`the type is converted to a string: ${typeof given} ${String(want)}`, () => assert_equals(new Event(given).type, want));
}
test("a symbol is no type", () => assert_throws_js(TypeError, () => new Event(Symbol("x"))));
for (const [name, want] of [
  ["target", null], ["srcElement", null], ["currentTarget", null], ["eventPhase", 0], ["bubbles", false], ["cancelable", false],
  ["returnValue", true], ["defaultPrevented", false], ["composed", false], ["isTrusted", false], ["cancelBubble", false],
]) {
  test(`a new event has ${name} ${want}`, () => assert_equals(new Event("x")[name], want));
}
for (const name of ["bubbles", "cancelable", "composed"]) {
  test(`${name} comes from the dictionary`, () => {
    assert_true(new Event("x", { [name]: true })[name]);
    assert_true(new Event("x", { [name]: 1 })[name]);
    assert_false(new Event("x", { [name]: 0 })[name]);
    assert_false(new Event("x", { [name]: undefined })[name]);
  });
}
test("the dictionary may be undefined or null", () => {
  assert_equals(new Event("x", undefined).type, "x");
  assert_equals(new Event("x", null).type, "x");
});
test("the dictionary must be an object", () => {
  assert_throws_js(TypeError, () => new Event("x", 1));
  assert_throws_js(TypeError, () => new Event("x", "y"));
});
test("the members of the dictionary are read in order, after the type", () => {
  const order = [];
  const type = { toString() { order.push("type"); return "x"; } };
  const init = {};
  for (const name of ["composed", "cancelable", "bubbles"]) Object.defineProperty(init, name, { get() { order.push(name); } });
  new Event(type, init);
  assert_array_equals(order, ["type", "bubbles", "cancelable", "composed"]);
});
test("inherited members of the dictionary count", () => assert_true(new Event("x", Object.create({ bubbles: true })).bubbles));
test("composedPath is empty outside a dispatch", () => assert_array_equals(new Event("x").composedPath(), []));
test("timeStamp is a time of performance.now", () => {
  const before = performance.now();
  const { timeStamp } = new Event("x");
  assert_true(timeStamp >= before && timeStamp <= performance.now());
});
test("timeStamp stays the same", () => {
  const event = new Event("x");
  assert_equals(event.timeStamp, event.timeStamp);
});
test("preventDefault cancels a cancelable event", () => {
  const event = new Event("x", { cancelable: true });
  event.preventDefault();
  assert_true(event.defaultPrevented);
  assert_false(event.returnValue);
});
test("preventDefault does nothing for other events", () => {
  const event = new Event("x");
  event.preventDefault();
  assert_false(event.defaultPrevented);
});
test("returnValue = false cancels", () => {
  const event = new Event("x", { cancelable: true });
  event.returnValue = true;
  assert_false(event.defaultPrevented);
  event.returnValue = 0;
  assert_true(event.defaultPrevented);
  event.returnValue = true;
  assert_true(event.defaultPrevented, "a canceled event stays canceled");
});
test("cancelBubble stops the propagation", () => {
  const event = new Event("x");
  event.cancelBubble = false;
  assert_false(event.cancelBubble);
  event.cancelBubble = true;
  assert_true(event.cancelBubble);
  event.cancelBubble = false;
  assert_true(event.cancelBubble, "false does nothing");
});
for (const method of ["stopPropagation", "stopImmediatePropagation"]) {
  test(`${method} sets cancelBubble`, () => {
    const event = new Event("x");
    assert_equals(event[method](), undefined);
    assert_true(event.cancelBubble);
  });
}
test("initEvent replaces type and flags", () => {
  const event = new Event("x", { cancelable: true });
  event.preventDefault();
  event.stopPropagation();
  event.initEvent("y", true, false);
  assert_object_equals([event.type, event.bubbles, event.cancelable, event.defaultPrevented, event.cancelBubble], ["y", true, false, false, false]);
});
test("initEvent has defaults", () => {
  const event = new Event("x", { bubbles: true, cancelable: true });
  event.initEvent("y");
  assert_object_equals([event.bubbles, event.cancelable], [false, false]);
});
test("initEvent needs a type", () => assert_throws_js(TypeError, () => new Event("x").initEvent()));
test("initEvent does nothing during a dispatch", () => {
  const target = new EventTarget();
  const event = new Event("x");
  target.addEventListener("x", () => event.initEvent("y", true, true));
  target.dispatchEvent(event);
  assert_equals(event.type, "x");
  assert_false(event.bubbles);
});
for (const [name, value] of [["NONE", 0], ["CAPTURING_PHASE", 1], ["AT_TARGET", 2], ["BUBBLING_PHASE", 3]]) {
  test(`the constant ${name}`, () => {
    for (const object of [Event, Event.prototype]) {
      const { enumerable, writable, configurable } = Object.getOwnPropertyDescriptor(object, name);
      assert_equals(object[name], value);
      assert_object_equals([enumerable, writable, configurable], [true, false, false]);
    }
  });
}
for (const name of ["type", "target", "srcElement", "currentTarget", "eventPhase", "bubbles", "cancelable", "defaultPrevented", "composed", "timeStamp"]) {
  test(`${name} is an attribute`, () => assert_idl_attribute(Event.prototype, name));
  test(`${name} needs an event`, () => {
    const { get } = Object.getOwnPropertyDescriptor(Event.prototype, name);
    assert_throws_js(TypeError, () => get.call({}));
    assert_throws_js(TypeError, () => get.call(Event.prototype));
  });
}
for (const name of ["cancelBubble", "returnValue"]) test(`${name} is a settable attribute`, () => assert_idl_attribute(Event.prototype, name, true));
for (const [name, length] of [["composedPath", 0], ["stopPropagation", 0], ["stopImmediatePropagation", 0], ["preventDefault", 0], ["initEvent", 1]]) {
  test(`${name} is a method`, () => assert_idl_method(Event.prototype, name, length));
}
test("isTrusted is an own property that cannot change", () => {
  const property = Object.getOwnPropertyDescriptor(new Event("x"), "isTrusted");
  assert_equals(typeof property.get, "function");
  assert_object_equals([property.set === undefined, property.enumerable, property.configurable], [true, true, false]);
  assert_equals(property.get, Object.getOwnPropertyDescriptor(new Event("y"), "isTrusted").get);
});
test("the interface object", () => {
  assert_equals(Event.length, 1);
  assert_equals(Event.name, "Event");
  assert_class_string(new Event("x"), "Event");
  assert_false(Object.keys(globalThis).includes("Event"));
});
test("subclasses", () => {
  class Mine extends Event {
    constructor() { super("mine", { cancelable: true }); }
    get extra() { return this.type + this.cancelable; }
  }
  const event = new Mine();
  assert_equals(event.extra, "minetrue");
  let seen;
  const target = new EventTarget();
  target.addEventListener("mine", (e) => { seen = e; });
  target.dispatchEvent(event);
  assert_equals(seen, event);
});
