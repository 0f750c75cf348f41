// Events with messages.

for (const [name, want] of [["data", null], ["origin", ""], ["lastEventId", ""], ["source", null]]) {
  test(`the default of ${name}`, () => {
    assert_equals(new MessageEvent("message")[name], want);
    assert_equals(new MessageEvent("message", {})[name], want);
  });
  test(`${name} is an attribute`, () => assert_idl_attribute(MessageEvent.prototype, name));
}
test("ports is a frozen array", () => {
  const event = new MessageEvent("message");
  assert_array_equals(event.ports, []);
  assert_true(Object.isFrozen(event.ports));
  assert_equals(event.ports, event.ports);
});
test("the members of the dictionary", () => {
  const { port1, port2 } = new MessageChannel();
  const data = {};
  const event = new MessageEvent("x", { data, origin: "o", lastEventId: "l", source: port1, ports: [port1, port2], bubbles: true });
  assert_object_equals([event.type, event.origin, event.lastEventId, event.bubbles], ["x", "o", "l", true]);
  assert_equals(event.data, data);
  assert_equals(event.source, port1);
  assert_equals(event.ports[1], port2);
  port1.close();
  port2.close();
});
test("ports and source must be ports", () => {
  assert_throws_js(TypeError, () => new MessageEvent("x", { ports: [1] }));
  assert_throws_js(TypeError, () => new MessageEvent("x", { ports: 1 }));
  assert_throws_js(TypeError, () => new MessageEvent("x", { source: 1 }));
});
test("the interface", () => {
  assert_true(new MessageEvent("x") instanceof Event);
  assert_class_string(new MessageEvent("x"), "MessageEvent");
  assert_equals(MessageEvent.length, 1);
  assert_throws_js(TypeError, () => new MessageEvent());
});
