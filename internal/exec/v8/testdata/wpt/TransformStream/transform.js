// Transform streams.

for (const name of ["readable", "writable"]) test(`the attribute ${name}`, () => assert_idl_attribute(TransformStream.prototype, name));
for (const [name, length] of [["enqueue", 0], ["error", 0], ["terminate", 0]]) {
  test(`the method ${name} of a controller`, () => assert_idl_method(TransformStreamDefaultController.prototype, name, length));
}
test("the class string", () => assert_class_string(new TransformStream(), "TransformStream"));
test("controllers cannot be constructed", () => assert_throws_js(TypeError, () => new TransformStreamDefaultController()));
for (const key of ["start", "transform", "flush", "cancel"]) {
  test(`${key} must be a function`, () => assert_throws_js(TypeError, () => new TransformStream({ [key]: 1 })));
}
for (const key of ["readableType", "writableType"]) {
  test(`${key} is refused`, () => assert_throws_js(RangeError, () => new TransformStream({ [key]: "bytes" })));
}
test("the sides", () => {
  const stream = new TransformStream();
  assert_true(stream.readable instanceof ReadableStream && stream.writable instanceof WritableStream);
  assert_equals(stream.readable, stream.readable);
});
test("the marks", () => {
  let controller;
  const stream = new TransformStream({ start(c) { controller = c; } }, { highWaterMark: 5 }, { highWaterMark: 7 });
  assert_array_equals([stream.writable.getWriter().desiredSize, controller.desiredSize], [5, 7]);
});
test("the marks without strategies", () => {
  let controller;
  const stream = new TransformStream({ start(c) { controller = c; } });
  assert_array_equals([stream.writable.getWriter().desiredSize, controller.desiredSize], [1, 0]);
});
test("an error of start is thrown", () => assert_throws_exactly("why", () => new TransformStream({ start() { throw "why"; } })));
const open = (transformer, ...strategies) => {
  const stream = new TransformStream(transformer, ...strategies);
  return { writer: stream.writable.getWriter(), reader: stream.readable.getReader() };
};
promise_test("without a transformer, chunks pass", async () => {
  const { writer, reader } = open();
  writer.write("a");
  assert_equals((await reader.read()).value, "a");
  writer.close();
  assert_true((await reader.read()).done);
});
promise_test("transform gets the chunk and the controller", async () => {
  let controller, receiver;
  const transformer = { start(c) { controller = c; }, transform(chunk, c) { receiver = this; assert_equals(c, controller); c.enqueue(chunk + "!"); } };
  const { writer, reader } = open(transformer);
  writer.write("a");
  assert_equals((await reader.read()).value, "a!");
  assert_equals(receiver, transformer);
});
promise_test("many chunks of one", async () => {
  const { writer, reader } = open({ transform(chunk, c) { for (const part of chunk) c.enqueue(part); } });
  writer.write("ab");
  assert_equals((await reader.read()).value + (await reader.read()).value, "ab");
});
promise_test("flush comes before the end", async () => {
  const { writer, reader } = open({ flush(c) { c.enqueue("last"); } });
  writer.close();
  assert_equals((await reader.read()).value, "last");
  assert_true((await reader.read()).done);
});
promise_test("close waits for flush", async () => {
  let release, closed = false;
  const { writer } = open({ flush: () => new Promise((r) => { release = r; }) });
  const done = writer.close().then(() => { closed = true; });
  await wait();
  assert_false(closed);
  release();
  await done;
});
for (const [key, act] of [["transform", (w) => w.write("a")], ["flush", (w) => w.close()]]) {
  promise_test(`an error of ${key} fails both sides`, async () => {
    const { writer, reader } = open({ [key]() { throw "why"; } });
    const acted = act(writer);
    await promise_rejects_exactly("why", reader.read());
    await promise_rejects_exactly("why", acted);
    await promise_rejects_exactly("why", writer.closed);
    writer.ready.catch(() => {});
  });
}
promise_test("writes wait until something is read", async () => {
  let transformed = false;
  const { writer, reader } = open({ transform() { transformed = true; } });
  writer.write("a");
  await wait();
  assert_false(transformed);
  reader.read();
  await wait();
  assert_true(transformed);
});
promise_test("error() fails both sides", async () => {
  let controller;
  const { writer, reader } = open({ start(c) { controller = c; } });
  controller.error("why");
  await promise_rejects_exactly("why", reader.read());
  await promise_rejects_exactly("why", writer.closed);
  writer.ready.catch(() => {});
  assert_equals(controller.desiredSize, null);
});
promise_test("terminate() ends the readable side", async () => {
  let controller;
  const { writer, reader } = open({ start(c) { controller = c; c.enqueue("a"); c.terminate(); } });
  assert_equals((await reader.read()).value, "a");
  assert_true((await reader.read()).done);
  await promise_rejects_js(TypeError, writer.closed);
  writer.ready.catch(() => {});
  assert_throws_js(TypeError, () => controller.enqueue("b"));
});
promise_test("cancel fails the writable side", async () => {
  const { writer, reader } = open();
  await reader.cancel("why");
  await promise_rejects_exactly("why", writer.closed);
  writer.ready.catch(() => {});
});
promise_test("abort fails the readable side", async () => {
  const { writer, reader } = open();
  await writer.abort("why");
  await promise_rejects_exactly("why", reader.read());
  writer.closed.catch(() => {});
  writer.ready.catch(() => {});
});
promise_test("the transformer hears of a cancel", async () => {
  let reason;
  const { writer, reader } = open({ cancel(r) { reason = r; } });
  await reader.cancel("why");
  assert_equals(reason, "why");
  writer.closed.catch(() => {});
  writer.ready.catch(() => {});
});
promise_test("the transformer hears of an abort", async () => {
  let reason;
  const { writer } = open({ cancel(r) { reason = r; } });
  await writer.abort("why");
  assert_equals(reason, "why");
  writer.closed.catch(() => {});
  writer.ready.catch(() => {});
});
promise_test("the size of the readable side", async () => {
  let controller;
  open({ start(c) { controller = c; } }, undefined, { highWaterMark: 10, size: (chunk) => chunk.length });
  controller.enqueue("abc");
  assert_equals(controller.desiredSize, 7);
});
test("attributes need a transform stream", () => {
  assert_throws_js(TypeError, () => Object.getOwnPropertyDescriptor(TransformStream.prototype, "readable").get.call({}));
  assert_throws_js(TypeError, () => TransformStreamDefaultController.prototype.enqueue.call({}));
});
