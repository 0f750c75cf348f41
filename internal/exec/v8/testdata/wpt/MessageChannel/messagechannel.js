// Channels and their ports.

const channel = (onmessage) => {
  const { port1, port2 } = new MessageChannel();
  if (onmessage !== undefined) port2.onmessage = onmessage;
  return [port1, port2];
};
const closeAll = (...ports) => { for (const port of ports) port.close(); };
const next = (port) => new Promise((resolve) => { port.onmessage = resolve; });
// until waits for messages, however slow the machine is.
const until = async (holds) => { while (!holds()) await wait(1); };

test("a channel has two ports", () => {
  const { port1, port2 } = new MessageChannel();
  assert_true(port1 instanceof MessagePort);
  assert_true(port2 instanceof MessagePort);
  assert_not_equals(port1, port2);
  closeAll(port1, port2);
});
test("the ports stay the same", () => {
  const channel = new MessageChannel();
  assert_equals(channel.port1, channel.port1);
  closeAll(channel.port1, channel.port2);
});
test("a channel needs new", () => assert_throws_js(TypeError, () => MessageChannel()));
test("a port cannot be constructed", () => assert_throws_js(TypeError, () => new MessagePort()));
test("a port is a target", () => {
  const [a, b] = channel();
  assert_true(a instanceof EventTarget);
  assert_class_string(a, "MessagePort");
  closeAll(a, b);
});
promise_test("a message arrives", async () => {
  const [a, b] = channel();
  const got = next(b);
  a.postMessage("hello");
  const event = await got;
  assert_equals(event.data, "hello");
  assert_equals(event.type, "message");
  assert_true(event instanceof MessageEvent);
  closeAll(a, b);
});
promise_test("the attributes of the event", async () => {
  const [a, b] = channel();
  const got = next(b);
  a.postMessage(1);
  const event = await got;
  assert_equals(event.target, b);
  assert_equals(event.origin, "");
  assert_equals(event.lastEventId, "");
  assert_equals(event.source, null);
  assert_array_equals(event.ports, []);
  assert_true(event.isTrusted);
  assert_false(event.cancelable);
  closeAll(a, b);
});
promise_test("messages pass in both directions", async () => {
  const [a, b] = channel();
  b.onmessage = (e) => b.postMessage(e.data * 2);
  const got = next(a);
  a.postMessage(21);
  assert_equals((await got).data, 42);
  closeAll(a, b);
});
promise_test("messages arrive in order, one event each", async () => {
  const seen = [];
  const [a, b] = channel((e) => seen.push(e.data));
  for (let i = 0; i < 5; i++) a.postMessage(i);
  await until(() => seen.length === 5);
  assert_array_equals(seen, [0, 1, 2, 3, 4]);
  closeAll(a, b);
});
promise_test("a message does not arrive at once", async () => {
  const seen = [];
  const [a, b] = channel(() => seen.push("message"));
  a.postMessage(1);
  seen.push("sync");
  await null;
  seen.push("microtask");
  await until(() => seen.length === 3);
  assert_array_equals(seen, ["sync", "microtask", "message"]);
  closeAll(a, b);
});
promise_test("microtasks run between messages", async () => {
  const seen = [];
  const [a, b] = channel((e) => { seen.push(e.data); Promise.resolve().then(() => seen.push("microtask")); });
  a.postMessage(1);
  a.postMessage(2);
  await until(() => seen.length === 4);
  assert_array_equals(seen, [1, "microtask", 2, "microtask"]);
  closeAll(a, b);
});
promise_test("the message is copied when it is sent", async () => {
  const [a, b] = channel();
  const got = next(b);
  const value = { list: [1], date: new Date(5), map: new Map([[1, { x: 2 }]]) };
  a.postMessage(value);
  value.list.push(2);
  const { data } = await got;
  assert_array_equals(data.list, [1]);
  assert_equals(data.date.getTime(), 5);
  assert_equals(data.map.get(1).x, 2);
  closeAll(a, b);
});
for (const [name, value] of [["a function", () => {}], ["a symbol", Symbol("x")], ["an object with a function", { f() {} }], ["a weak map", new WeakMap()]]) {
  test(`${name} cannot be sent`, () => {
    const [a, b] = channel();
    assert_throws_dom("DataCloneError", () => a.postMessage(value));
    closeAll(a, b);
  });
}
test("a message is required", () => {
  const [a, b] = channel();
  assert_throws_js(TypeError, () => a.postMessage());
  closeAll(a, b);
});
promise_test("undefined can be sent", async () => {
  const [a, b] = channel();
  const got = next(b);
  a.postMessage(undefined);
  assert_equals((await got).data, undefined);
  closeAll(a, b);
});
promise_test("messages wait for start()", async () => {
  const [a, b] = channel();
  const seen = [];
  b.addEventListener("message", (e) => seen.push(e.data));
  a.postMessage(1);
  a.postMessage(2);
  b.start();
  await until(() => seen.length === 2);
  assert_array_equals(seen, [1, 2]);
  closeAll(a, b);
});
promise_test("addEventListener alone does not start the port", async () => {
  const [a, b] = channel();
  let n = 0;
  b.addEventListener("message", () => n++);
  a.postMessage(1);
  await wait(200); // long enough for a message that must not come
  assert_equals(n, 0);
  closeAll(a, b);
});
promise_test("onmessage starts the port", async () => {
  const [a, b] = channel();
  a.postMessage(1);
  await wait(5);
  assert_equals((await next(b)).data, 1);
  closeAll(a, b);
});
promise_test("a buffer is transferred", async () => {
  const [a, b] = channel();
  const got = next(b);
  const buffer = new Uint8Array([1, 2, 3]).buffer;
  a.postMessage({ buffer }, [buffer]);
  assert_equals(buffer.byteLength, 0);
  assert_array_equals(new Uint8Array((await got).data.buffer), [1, 2, 3]);
  closeAll(a, b);
});
promise_test("the transfer list may be in an object", async () => {
  const [a, b] = channel();
  const got = next(b);
  const buffer = new ArrayBuffer(4);
  a.postMessage(buffer, { transfer: [buffer] });
  assert_equals(buffer.byteLength, 0);
  assert_equals((await got).data.byteLength, 4);
  closeAll(a, b);
});
test("a buffer cannot be transferred twice", () => {
  const [a, b] = channel();
  const buffer = new ArrayBuffer(4);
  assert_throws_dom("DataCloneError", () => a.postMessage(null, [buffer, buffer]));
  assert_equals(buffer.byteLength, 4);
  closeAll(a, b);
});
test("a value that cannot be copied leaves the buffers", () => {
  const [a, b] = channel();
  const buffer = new ArrayBuffer(4);
  assert_throws_dom("DataCloneError", () => a.postMessage(() => {}, [buffer]));
  assert_equals(buffer.byteLength, 4);
  closeAll(a, b);
});
promise_test("a port is transferred", async () => {
  const [a, b] = channel();
  const [c, d] = channel();
  const got = next(b);
  a.postMessage({ port: d }, [d]);
  const event = await got;
  assert_equals(event.ports.length, 1);
  assert_equals(event.data.port, event.ports[0]);
  assert_true(Object.isFrozen(event.ports));
  const reply = next(c);
  event.ports[0].postMessage("through");
  assert_equals((await reply).data, "through");
  closeAll(a, b, c, event.ports[0]);
});
promise_test("a port that is only in the transfer list", async () => {
  const [a, b] = channel();
  const [c, d] = channel();
  const got = next(b);
  a.postMessage("see ports", [d]);
  const { ports } = await got;
  const arrived = next(ports[0]);
  c.postMessage("for d");
  assert_equals((await arrived).data, "for d");
  closeAll(a, b, c, ports[0]);
});
promise_test("messages that wait move with the port", async () => {
  const [a, b] = channel();
  const [c, d] = channel();
  c.postMessage("before the transfer");
  const got = next(b);
  a.postMessage(null, [d]);
  const { ports } = await got;
  assert_equals((await next(ports[0])).data, "before the transfer");
  closeAll(a, b, c, ports[0]);
});
test("a port cannot be sent without a transfer", () => {
  const [a, b] = channel();
  const [c, d] = channel();
  assert_throws_dom("DataCloneError", () => a.postMessage(c));
  assert_throws_dom("DataCloneError", () => structuredClone(c));
  closeAll(a, b, c, d);
});
test("a port cannot be sent through itself", () => {
  const [a, b] = channel();
  assert_throws_dom("DataCloneError", () => a.postMessage(null, [a]));
  closeAll(a, b);
});
test("structuredClone transfers ports", () => {
  const [a, b] = channel();
  const copy = structuredClone({ b }, { transfer: [b] });
  assert_true(copy.b instanceof MessagePort);
  assert_not_equals(copy.b, b);
  closeAll(a, copy.b);
});
promise_test("a closed port receives nothing", async () => {
  let n = 0;
  const [a, b] = channel(() => n++);
  b.close();
  a.postMessage(1);
  await wait(200); // long enough for a message that must not come
  assert_equals(n, 0);
  a.close();
});
promise_test("messages that were sent before the close arrive", async () => {
  const seen = [];
  const [a, b] = channel((e) => seen.push(e.data));
  a.postMessage(1);
  a.close();
  a.postMessage(2);
  await until(() => seen.length === 1);
  assert_array_equals(seen, [1]);
  b.close();
});
promise_test("the other port fires close", async () => {
  const [a, b] = channel(() => {});
  let n = 0;
  b.addEventListener("close", () => n++);
  a.close();
  await until(() => n === 1);
  assert_equals(n, 1);
});
test("close may be called twice", () => {
  const [a, b] = channel();
  assert_equals(a.close(), undefined);
  a.close();
  b.close();
});
test("onmessage is null at first, and other values than objects are null", () => {
  const [a, b] = channel();
  assert_equals(a.onmessage, null);
  a.onmessage = 5;
  assert_equals(a.onmessage, null);
  closeAll(a, b);
});
for (const [name, length] of [["postMessage", 1], ["start", 0], ["close", 0]]) test(`${name} is a method`, () => assert_idl_method(MessagePort.prototype, name, length));
for (const name of ["onmessage", "onmessageerror"]) test(`${name} is a settable attribute`, () => assert_idl_attribute(MessagePort.prototype, name, true));
for (const name of ["port1", "port2"]) test(`${name} is an attribute of the channel`, () => assert_idl_attribute(MessageChannel.prototype, name));
promise_test("messages of a port that moves keep their order", async () => {
  const moving = new MessageChannel();
  const carrier = new MessageChannel();
  const got = [];
  const done = new Promise((resolve) => {
    carrier.port2.onmessage = ({ data: port }) => setTimeout(() => {
      port.onmessage = (event) => {
        got.push(event.data);
        if (got.length === 2) resolve();
      };
    }, 5);
  });
  moving.port2.start();
  moving.port1.postMessage("first");
  carrier.port1.postMessage(moving.port2, [moving.port2]);
  moving.port1.postMessage("second");
  await done;
  assert_array_equals(got, ["first", "second"]);
  moving.port1.close();
  carrier.port1.close();
});
promise_test("a port that is not started is told that the other one was closed", async () => {
  const { port1, port2 } = new MessageChannel();
  const closed = new Promise((resolve) => port2.addEventListener("close", resolve));
  port1.close();
  assert_equals((await closed).type, "close");
});
