// Readable streams: sources, readers, controllers.

for (const [name, length] of [["cancel", 0], ["getReader", 0], ["pipeThrough", 1], ["pipeTo", 1], ["tee", 0], ["values", 0]]) {
  test(`the method ${name}`, () => assert_idl_method(ReadableStream.prototype, name, length));
}
test("the attribute locked", () => assert_idl_attribute(ReadableStream.prototype, "locked"));
test("the static method from", () => assert_idl_method(ReadableStream, "from", 1));
for (const [name, length] of [["cancel", 0], ["read", 0], ["releaseLock", 0]]) {
  test(`the method ${name} of a reader`, () => assert_idl_method(ReadableStreamDefaultReader.prototype, name, length));
}
for (const [name, length] of [["close", 0], ["enqueue", 0], ["error", 0]]) {
  test(`the method ${name} of a controller`, () => assert_idl_method(ReadableStreamDefaultController.prototype, name, length));
}
test("the class strings", () => {
  let controller;
  const stream = new ReadableStream({ start(c) { controller = c; } });
  assert_class_string(stream, "ReadableStream");
  assert_class_string(controller, "ReadableStreamDefaultController");
  assert_class_string(stream.getReader(), "ReadableStreamDefaultReader");
});
test("the length of the constructor", () => assert_equals(ReadableStream.length, 0));
test("controllers cannot be constructed", () => {
  assert_throws_js(TypeError, () => new ReadableStreamDefaultController());
  assert_throws_js(TypeError, () => new ReadableStreamDefaultController({}));
});
for (const source of [1, "text", null === 0, Symbol.iterator]) {
  test(`the source ${String(source)} is refused`, () => assert_throws_js(TypeError, () => new ReadableStream(source)));
}
for (const key of ["start", "pull", "cancel"]) {
  for (const value of [1, {}, "x", null]) {
    test(`${key} cannot be ${JSON.stringify(value)}`, () => assert_throws_js(TypeError, () => new ReadableStream({ [key]: value })));
  }
}
for (const type of ["", "other", null, "BYTES"]) {
  test(`the type ${JSON.stringify(type)} is refused`, () => assert_throws_js(TypeError, () => new ReadableStream({ type })));
}
for (const highWaterMark of [-1, NaN, "x", {}]) {
  test(`the high water mark ${String(highWaterMark)} is refused`, () => assert_throws_js(RangeError, () => new ReadableStream({}, { highWaterMark })));
}
test("the size must be a function", () => assert_throws_js(TypeError, () => new ReadableStream({}, { size: 1 })));
test("an error of start is thrown", () => {
  const error = new Error("x");
  assert_throws_exactly(error, () => new ReadableStream({ start() { throw error; } }));
});
test("start is called with the source as receiver", () => {
  let receiver;
  const source = { start() { receiver = this; } };
  new ReadableStream(source);
  assert_equals(receiver, source);
});
for (const [mark, want] of [[undefined, 1], [0, 0], [5, 5], [Infinity, Infinity]]) {
  test(`the desired size with the mark ${mark}`, () => {
    let size;
    new ReadableStream({ start(c) { size = c.desiredSize; } }, { highWaterMark: mark });
    assert_equals(size, want);
  });
}
test("the desired size falls with each chunk", () => {
  const sizes = [];
  new ReadableStream({ start(c) { for (let i = 0; i < 3; i++) { sizes.push(c.desiredSize); c.enqueue(i); } } }, { highWaterMark: 2 });
  assert_array_equals(sizes, [2, 1, 0]);
});
test("the desired size of a closed and of a failed stream", () => {
  let one, two;
  new ReadableStream({ start(c) { c.close(); one = c.desiredSize; } });
  new ReadableStream({ start(c) { c.error(1); two = c.desiredSize; } });
  assert_array_equals([one, two], [0, null]);
});
const controlled = (strategy, source = {}) => {
  let controller;
  const stream = new ReadableStream({ ...source, start(c) { controller = c; } }, strategy);
  return { stream, controller };
};
promise_test("chunks come in their order", async () => {
  const { stream, controller } = controlled();
  controller.enqueue("a");
  controller.enqueue("b");
  controller.close();
  const reader = stream.getReader();
  assert_object_equals(await reader.read(), { value: "a", done: false });
  assert_object_equals(await reader.read(), { value: "b", done: false });
  assert_object_equals(await reader.read(), { value: undefined, done: true });
});
promise_test("a read that waits gets the next chunk", async () => {
  const { stream, controller } = controlled();
  const read = stream.getReader().read();
  controller.enqueue("a");
  assert_equals((await read).value, "a");
});
promise_test("reads that wait end with the stream", async () => {
  const { stream, controller } = controlled();
  const reader = stream.getReader();
  const reads = [reader.read(), reader.read()];
  controller.close();
  assert_array_equals((await Promise.all(reads)).map((r) => r.done), [true, true]);
});
promise_test("reads that wait fail with the stream", async () => {
  const { stream, controller } = controlled();
  const error = new Error("x");
  const read = stream.getReader().read();
  controller.error(error);
  await promise_rejects_exactly(error, read);
});
promise_test("chunks can be undefined", async () => {
  const { stream, controller } = controlled();
  controller.enqueue();
  assert_object_equals(await stream.getReader().read(), { value: undefined, done: false });
});
test("nothing is enqueued after close", () => {
  const { controller } = controlled();
  controller.close();
  assert_throws_js(TypeError, () => controller.enqueue("a"));
  assert_throws_js(TypeError, () => controller.close());
});
test("an error after close does nothing", () => {
  const { controller } = controlled();
  controller.close();
  controller.error(new Error("x"));
});
test("nothing is enqueued after an error", () => {
  const { controller } = controlled();
  controller.error(1);
  assert_throws_js(TypeError, () => controller.enqueue("a"));
});
promise_test("an error drops the chunks", async () => {
  const { stream, controller } = controlled();
  controller.enqueue("a");
  controller.error("why");
  await promise_rejects_exactly("why", stream.getReader().read());
});
promise_test("chunks before close are read", async () => {
  const { stream, controller } = controlled();
  controller.enqueue("a");
  controller.close();
  const reader = stream.getReader();
  assert_equals((await reader.read()).value, "a");
  await reader.closed;
});
promise_test("pull is called once before a read", async () => {
  let n = 0;
  new ReadableStream({ pull() { n++; } });
  await wait();
  assert_equals(n, 1);
});
promise_test("pull is not called with the mark 0", async () => {
  let n = 0;
  new ReadableStream({ pull() { n++; } }, { highWaterMark: 0 });
  await wait();
  assert_equals(n, 0);
});
promise_test("pull is called until the mark is reached", async () => {
  let n = 0;
  new ReadableStream({ pull(c) { c.enqueue(++n); } }, { highWaterMark: 3 });
  await wait();
  assert_equals(n, 3);
});
promise_test("pull waits for the one before", async () => {
  let n = 0, resolve;
  const stream = new ReadableStream({ pull(c) { n++; c.enqueue(n); return new Promise((r) => { resolve = r; }); } });
  const reader = stream.getReader();
  await reader.read();
  await wait();
  assert_equals(n, 1);
  resolve();
  await wait();
  assert_equals(n, 2);
});
promise_test("pull is not called before start ends", async () => {
  let n = 0, started;
  new ReadableStream({ start() { return new Promise((r) => { started = r; }); }, pull() { n++; } });
  await wait();
  assert_equals(n, 0);
  started();
  await wait();
  assert_equals(n, 1);
});
for (const [what, pull] of [["throws", () => { throw "why"; }], ["rejects", () => Promise.reject("why")]]) {
  promise_test(`pull ${what}`, async () => {
    const reader = new ReadableStream({ pull }).getReader();
    await promise_rejects_exactly("why", reader.read());
    await promise_rejects_exactly("why", reader.closed);
  });
}
promise_test("start rejects", async () => promise_rejects_exactly("why", new ReadableStream({ start: () => Promise.reject("why") }).getReader().closed));
promise_test("the size is asked with the chunk", async () => {
  const args = [];
  const { stream, controller } = controlled({ highWaterMark: 10, size(...all) { args.push(this, ...all); return 4; } });
  controller.enqueue("a");
  assert_array_equals(args, [undefined, "a"]);
  assert_equals(controller.desiredSize, 6);
});
for (const size of [-1, NaN, Infinity, "x"]) {
  promise_test(`the size ${size} fails the stream`, async () => {
    const { stream, controller } = controlled({ size: () => size });
    assert_throws_js(RangeError, () => controller.enqueue("a"));
    await promise_rejects_js(RangeError, stream.getReader().closed);
  });
}
promise_test("an error of size fails the stream", async () => {
  const error = new Error("x");
  const { stream, controller } = controlled({ size() { throw error; } });
  assert_throws_exactly(error, () => controller.enqueue("a"));
  await promise_rejects_exactly(error, stream.getReader().closed);
});
promise_test("cancel calls the source once", async () => {
  const reasons = [];
  const stream = new ReadableStream({ cancel(reason) { reasons.push(reason); return "ignored"; } });
  assert_equals(await stream.cancel("why"), undefined);
  assert_equals(await stream.cancel("again"), undefined);
  assert_array_equals(reasons, ["why"]);
});
promise_test("cancel drops the chunks", async () => {
  const { stream, controller } = controlled();
  controller.enqueue("a");
  const reader = stream.getReader();
  await reader.cancel();
  assert_true((await reader.read()).done);
});
promise_test("an error of cancel is passed on", async () => {
  const error = new Error("x");
  await promise_rejects_exactly(error, new ReadableStream({ cancel() { throw error; } }).cancel());
});
promise_test("cancel of a failed stream rejects", async () => {
  const { stream, controller } = controlled();
  controller.error("why");
  await promise_rejects_exactly("why", stream.cancel());
});
promise_test("cancel ends reads that wait", async () => {
  const { stream } = controlled();
  const reader = stream.getReader();
  const read = reader.read();
  reader.cancel();
  assert_true((await read).done);
});
promise_test("a locked stream is not cancelled", async () => {
  const stream = new ReadableStream();
  stream.getReader();
  await promise_rejects_js(TypeError, stream.cancel());
});
test("a stream has one reader", () => {
  const stream = new ReadableStream();
  assert_false(stream.locked);
  const reader = stream.getReader();
  assert_true(stream.locked);
  assert_throws_js(TypeError, () => stream.getReader());
  reader.releaseLock();
  assert_false(stream.locked);
  stream.getReader();
});
test("a reader can be constructed", () => {
  const stream = new ReadableStream();
  assert_true(new ReadableStreamDefaultReader(stream) instanceof ReadableStreamDefaultReader);
  assert_throws_js(TypeError, () => new ReadableStreamDefaultReader(stream));
  assert_throws_js(TypeError, () => new ReadableStreamDefaultReader({}));
});
for (const mode of ["", "other", null]) {
  test(`the mode ${JSON.stringify(mode)} is refused`, () => assert_throws_js(TypeError, () => new ReadableStream().getReader({ mode })));
}
test("a stream of other chunks has no BYOB reader", () => assert_throws_js(TypeError, () => new ReadableStream().getReader({ mode: "byob" })));
promise_test("a released reader", async () => {
  const reader = new ReadableStream().getReader();
  const read = reader.read();
  const { closed } = reader;
  reader.releaseLock();
  await promise_rejects_js(TypeError, read);
  await promise_rejects_js(TypeError, closed);
  await promise_rejects_js(TypeError, reader.read());
  await promise_rejects_js(TypeError, reader.cancel());
  reader.releaseLock();
});
promise_test("the next reader gets the next chunk", async () => {
  const { stream, controller } = controlled();
  controller.enqueue("a");
  controller.enqueue("b");
  const first = stream.getReader();
  await first.read();
  first.releaseLock();
  assert_equals((await stream.getReader().read()).value, "b");
});
promise_test("closed of a closed stream", async () => {
  const { stream, controller } = controlled();
  controller.close();
  const reader = stream.getReader();
  assert_equals(await reader.closed, undefined);
  const { closed } = reader;
  reader.releaseLock();
  assert_not_equals(reader.closed, closed);
  await promise_rejects_js(TypeError, reader.closed);
});
promise_test("methods need their objects", async () => {
  await promise_rejects_js(TypeError, ReadableStream.prototype.cancel.call({}));
  await promise_rejects_js(TypeError, ReadableStreamDefaultReader.prototype.read.call({}));
  await promise_rejects_js(TypeError, Object.getOwnPropertyDescriptor(ReadableStreamDefaultReader.prototype, "closed").get.call({}));
  assert_throws_js(TypeError, () => ReadableStream.prototype.getReader.call({}));
  assert_throws_js(TypeError, () => ReadableStreamDefaultController.prototype.close.call({}));
  assert_throws_js(TypeError, () => ReadableStreamDefaultReader.prototype.releaseLock.call({}));
});
promise_test("a thenable chunk stays as it is", async () => {
  const { stream, controller } = controlled();
  const chunk = { then() { throw new Error("called"); } };
  controller.enqueue(chunk);
  assert_equals((await stream.getReader().read()).value, chunk);
});

// ---- queuing strategies

for (const Strategy of ["CountQueuingStrategy", "ByteLengthQueuingStrategy"]) {
  test(`${Strategy}: attributes`, () => {
    assert_idl_attribute(globalThis[Strategy].prototype, "highWaterMark");
    assert_idl_attribute(globalThis[Strategy].prototype, "size");
  });
  test(`${Strategy}: needs an init`, () => {
    assert_throws_js(TypeError, () => new globalThis[Strategy]());
    assert_throws_js(TypeError, () => new globalThis[Strategy]({}));
  });
  for (const [mark, want] of [[5, 5], [-1, -1], ["2", 2], [Infinity, Infinity]]) {
    test(`${Strategy}: the mark ${String(mark)}`, () => assert_equals(new globalThis[Strategy]({ highWaterMark: mark }).highWaterMark, want));
  }
  test(`${Strategy}: one size function`, () => {
    const one = new globalThis[Strategy]({ highWaterMark: 1 });
    assert_equals(one.size, new globalThis[Strategy]({ highWaterMark: 2 }).size);
    assert_equals(one.size.name, "size");
  });
}
test("the count of a chunk is 1", () => assert_equals(new CountQueuingStrategy({ highWaterMark: 1 }).size("abc"), 1));
test("the bytes of a chunk are its byteLength", () => assert_equals(new ByteLengthQueuingStrategy({ highWaterMark: 1 }).size({ byteLength: 7 }), 7));
test("a strategy measures a stream", () => {
  const { controller } = controlled(new ByteLengthQueuingStrategy({ highWaterMark: 10 }));
  controller.enqueue(new Uint8Array(3));
  assert_equals(controller.desiredSize, 7);
});
