// Targets: dispatching events.

test("an event is required", () => {
  const target = new EventTarget();
  assert_throws_js(TypeError, () => target.dispatchEvent());
  for (const value of [null, undefined, 1, "x", {}, Event.prototype, Object.create(Event.prototype)]) assert_throws_js(TypeError, () => target.dispatchEvent(value));
});
test("dispatchEvent returns true without listeners", () => assert_true(new EventTarget().dispatchEvent(new Event("x", { cancelable: true }))));
test("dispatchEvent returns false for a canceled event", () => {
  const target = new EventTarget();
  target.addEventListener("x", (e) => e.preventDefault());
  assert_false(target.dispatchEvent(new Event("x", { cancelable: true })));
  assert_true(target.dispatchEvent(new Event("x")));
});
test("an event that was canceled before", () => {
  const event = new Event("x", { cancelable: true });
  event.preventDefault();
  assert_false(new EventTarget().dispatchEvent(event));
});
test("attributes during the dispatch", () => {
  const target = new EventTarget();
  let seen;
  target.addEventListener("x", (e) => { seen = [e.target === target, e.srcElement === target, e.currentTarget === target, e.eventPhase, e.isTrusted]; });
  target.dispatchEvent(new Event("x"));
  assert_array_equals(seen, [true, true, true, Event.AT_TARGET, false]);
});
test("composedPath during the dispatch", () => {
  const target = new EventTarget();
  let path;
  let again;
  target.addEventListener("x", (e) => { path = e.composedPath(); again = e.composedPath(); });
  target.dispatchEvent(new Event("x"));
  assert_array_equals(path, [target]);
  assert_not_equals(path, again);
});
test("attributes after the dispatch", () => {
  const target = new EventTarget();
  const event = new Event("x");
  target.addEventListener("x", (e) => e.stopPropagation());
  target.dispatchEvent(event);
  assert_equals(event.target, target);
  assert_equals(event.currentTarget, null);
  assert_equals(event.eventPhase, Event.NONE);
  assert_array_equals(event.composedPath(), []);
  assert_false(event.cancelBubble);
});
test("an event can be dispatched again, at another target", () => {
  const event = new Event("x");
  const calls = [];
  for (let i = 0; i < 2; i++) {
    const target = new EventTarget();
    target.addEventListener("x", (e) => calls.push(e.target === target));
    target.dispatchEvent(event);
  }
  assert_array_equals(calls, [true, true]);
});
test("an event that is being dispatched is refused", () => {
  const target = new EventTarget();
  let name;
  target.addEventListener("x", (e) => {
    try {
      new EventTarget().dispatchEvent(e);
    } catch (error) {
      name = error.name;
    }
  });
  target.dispatchEvent(new Event("x"));
  assert_equals(name, "InvalidStateError");
});
test("listeners are called in the order of their addition", () => {
  const target = new EventTarget();
  const order = [];
  for (const i of [1, 2, 3]) target.addEventListener("x", () => order.push(i));
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, [1, 2, 3]);
});
test("listeners that capture are called first", () => {
  const target = new EventTarget();
  const order = [];
  target.addEventListener("x", () => order.push("bubble"));
  target.addEventListener("x", () => order.push("capture"), true);
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, ["capture", "bubble"]);
});
test("stopImmediatePropagation skips the listeners that follow", () => {
  const target = new EventTarget();
  const order = [];
  target.addEventListener("x", (e) => { order.push(1); e.stopImmediatePropagation(); });
  target.addEventListener("x", () => order.push(2));
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, [1]);
});
test("stopPropagation does not skip listeners of the same phase", () => {
  const target = new EventTarget();
  const order = [];
  target.addEventListener("x", (e) => { order.push(1); e.stopPropagation(); });
  target.addEventListener("x", () => order.push(2));
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, [1, 2]);
});
test("stopPropagation of a listener that captures skips the others", () => {
  const target = new EventTarget();
  const order = [];
  target.addEventListener("x", () => order.push("bubble"));
  target.addEventListener("x", (e) => { order.push("capture"); e.stopPropagation(); }, true);
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, ["capture"]);
});
test("an event that was stopped before reaches no listener", () => {
  const target = new EventTarget();
  let n = 0;
  target.addEventListener("x", () => n++);
  const event = new Event("x");
  event.stopPropagation();
  target.dispatchEvent(event);
  assert_equals(n, 0);
  target.dispatchEvent(event);
  assert_equals(n, 1, "the flag is cleared after the dispatch");
});
test("a listener that is removed during the dispatch is not called", () => {
  const target = new EventTarget();
  const order = [];
  const second = () => order.push(2);
  target.addEventListener("x", () => { order.push(1); target.removeEventListener("x", second); });
  target.addEventListener("x", second);
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, [1]);
});
test("a listener that is added during the dispatch is not called", () => {
  const target = new EventTarget();
  const order = [];
  target.addEventListener("x", () => { order.push(1); target.addEventListener("x", () => order.push(2)); });
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, [1]);
});
test("a listener that is removed and added again during the dispatch is not called", () => {
  const target = new EventTarget();
  const order = [];
  const second = () => order.push(2);
  target.addEventListener("x", () => { target.removeEventListener("x", second); target.addEventListener("x", second); });
  target.addEventListener("x", second);
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, []);
});
test("a listener that removes itself", () => {
  const target = new EventTarget();
  const order = [];
  const first = () => { order.push(1); target.removeEventListener("x", first); };
  target.addEventListener("x", first);
  target.addEventListener("x", () => order.push(2));
  target.dispatchEvent(new Event("x"));
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, [1, 2, 2]);
});
test("a dispatch within a dispatch", () => {
  const target = new EventTarget();
  const order = [];
  target.addEventListener("x", () => { order.push("x"); target.dispatchEvent(new Event("y")); order.push("x again"); });
  target.addEventListener("y", () => order.push("y"));
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, ["x", "y", "x again"]);
});
test("microtasks run after the dispatch", () => {
  const target = new EventTarget();
  const order = [];
  target.addEventListener("x", () => { queueMicrotask(() => order.push("microtask")); });
  target.addEventListener("x", () => order.push("second"));
  target.dispatchEvent(new Event("x"));
  assert_array_equals(order, ["second"]);
});
test("the value that a listener returns has no effect", () => {
  const target = new EventTarget();
  target.addEventListener("x", () => false);
  assert_true(target.dispatchEvent(new Event("x", { cancelable: true })));
});
