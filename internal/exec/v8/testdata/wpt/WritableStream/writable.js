// Writable streams: sinks, writers, backpressure, aborts.

for (const [name, length] of [["abort", 0], ["close", 0], ["getWriter", 0]]) test(`the method ${name}`, () => assert_idl_method(WritableStream.prototype, name, length));
for (const [name, length] of [["abort", 0], ["close", 0], ["releaseLock", 0], ["write", 0]]) {
  test(`the method ${name} of a writer`, () => assert_idl_method(WritableStreamDefaultWriter.prototype, name, length));
}
for (const name of ["closed", "desiredSize", "ready"]) test(`the attribute ${name} of a writer`, () => assert_idl_attribute(WritableStreamDefaultWriter.prototype, name));
test("the attributes of a controller", () => {
  assert_idl_attribute(WritableStreamDefaultController.prototype, "signal");
  assert_idl_method(WritableStreamDefaultController.prototype, "error", 0);
});
test("the class string", () => assert_class_string(new WritableStream(), "WritableStream"));
test("controllers cannot be constructed", () => assert_throws_js(TypeError, () => new WritableStreamDefaultController()));
for (const key of ["start", "write", "close", "abort"]) {
  test(`${key} must be a function`, () => assert_throws_js(TypeError, () => new WritableStream({ [key]: 1 })));
}
for (const type of ["bytes", "", null]) test(`the type ${JSON.stringify(type)} is refused`, () => assert_throws_js(RangeError, () => new WritableStream({ type })));
for (const highWaterMark of [-1, NaN]) test(`the mark ${highWaterMark} is refused`, () => assert_throws_js(RangeError, () => new WritableStream({}, { highWaterMark })));
test("an error of start is thrown", () => assert_throws_exactly("why", () => new WritableStream({ start() { throw "why"; } })));
promise_test("start that rejects fails the stream", async () => {
  const writer = new WritableStream({ start: () => Promise.reject("why") }).getWriter();
  await promise_rejects_exactly("why", writer.closed);
  await promise_rejects_exactly("why", writer.ready);
});
promise_test("chunks are written in their order", async () => {
  const chunks = [];
  const writer = new WritableStream({ write(chunk) { chunks.push(chunk); } }).getWriter();
  writer.write("a");
  writer.write("b");
  assert_equals(await writer.close(), undefined);
  assert_array_equals(chunks, ["a", "b"]);
});
promise_test("a write waits for the one before", async () => {
  let release;
  const chunks = [];
  const writer = new WritableStream({ write(chunk) { chunks.push(chunk); return new Promise((r) => { release = r; }); } }).getWriter();
  writer.write("a");
  writer.write("b");
  await wait();
  assert_array_equals(chunks, ["a"]);
  release();
  await wait();
  assert_array_equals(chunks, ["a", "b"]);
});
promise_test("write gets the controller and its sink", async () => {
  let got, receiver, controller;
  const sink = { start(c) { controller = c; }, write(...args) { got = args; receiver = this; } };
  await new WritableStream(sink).getWriter().write("a");
  assert_array_equals(got, ["a", controller]);
  assert_equals(receiver, sink);
});
promise_test("writes wait for start", async () => {
  let started, written = false;
  const writer = new WritableStream({ start: () => new Promise((r) => { started = r; }), write() { written = true; } }).getWriter();
  writer.write("a");
  await wait();
  assert_false(written);
  started();
  await wait();
  assert_true(written);
});
for (const [mark, want] of [[undefined, 1], [0, 0], [3, 3], [Infinity, Infinity]]) {
  test(`the desired size with the mark ${mark}`, () => assert_equals(new WritableStream({}, { highWaterMark: mark }).getWriter().desiredSize, want));
}
promise_test("the desired size falls and rises", async () => {
  const writer = new WritableStream({}, { highWaterMark: 5, size: (chunk) => chunk.length }).getWriter();
  const done = writer.write("abc");
  assert_equals(writer.desiredSize, 2);
  await done;
  assert_equals(writer.desiredSize, 5);
});
promise_test("ready waits for capacity", async () => {
  let release;
  const writer = new WritableStream({ write: () => new Promise((r) => { release = r; }) }).getWriter();
  const { ready } = writer;
  await ready;
  writer.write("a");
  assert_not_equals(writer.ready, ready);
  let isReady = false;
  writer.ready.then(() => { isReady = true; });
  await wait();
  assert_false(isReady);
  release();
  await wait();
  assert_true(isReady);
});
test("ready stays while there is capacity", () => {
  const writer = new WritableStream({}, { highWaterMark: 2 }).getWriter();
  const { ready } = writer;
  writer.write("a");
  assert_equals(writer.ready, ready);
});
for (const [what, write] of [["throws", () => { throw "why"; }], ["rejects", () => Promise.reject("why")]]) {
  promise_test(`write ${what}`, async () => {
    const writer = new WritableStream({ write }).getWriter();
    await promise_rejects_exactly("why", writer.write("a"));
    await promise_rejects_exactly("why", writer.closed);
    await promise_rejects_exactly("why", writer.ready);
    await promise_rejects_exactly("why", writer.write("b"));
    await promise_rejects_js(TypeError, writer.close());
    assert_equals(writer.desiredSize, null);
  });
}
promise_test("a failed write fails those that wait", async () => {
  const writer = new WritableStream({ write() { throw "why"; } }).getWriter();
  const writes = [writer.write("a"), writer.write("b"), writer.close()];
  for (const one of writes) await promise_rejects_exactly("why", one);
});
promise_test("close waits for writes", async () => {
  const events = [];
  const writer = new WritableStream({ write: async (chunk) => { await wait(); events.push(chunk); }, close() { events.push("close"); } }).getWriter();
  writer.write("a");
  await writer.close();
  assert_array_equals(events, ["a", "close"]);
  assert_equals(writer.desiredSize, 0);
});
promise_test("nothing is written after close", async () => {
  const writer = new WritableStream().getWriter();
  writer.close();
  await promise_rejects_js(TypeError, writer.write("a"));
  await promise_rejects_js(TypeError, writer.close());
  await writer.closed;
});
promise_test("close that fails", async () => {
  const writer = new WritableStream({ close() { throw "why"; } }).getWriter();
  await promise_rejects_exactly("why", writer.close());
  await promise_rejects_exactly("why", writer.closed);
});
promise_test("abort calls the sink with the reason", async () => {
  const reasons = [];
  const writer = new WritableStream({ abort(reason) { reasons.push(reason); } }).getWriter();
  assert_equals(await writer.abort("why"), undefined);
  await promise_rejects_exactly("why", writer.closed);
  await promise_rejects_exactly("why", writer.write("a"));
  assert_array_equals(reasons, ["why"]);
});
promise_test("abort drops the writes that wait", async () => {
  let release;
  const chunks = [];
  const writer = new WritableStream({ write(chunk) { chunks.push(chunk); return new Promise((r) => { release = r; }); } }).getWriter();
  await writer.ready;
  const first = writer.write("a");
  const second = writer.write("b");
  await wait();
  const done = writer.abort("why");
  await promise_rejects_exactly("why", writer.ready);
  release();
  await first;
  await promise_rejects_exactly("why", second);
  await done;
  assert_array_equals(chunks, ["a"]);
});
promise_test("a second abort returns the same promise", async () => {
  const writer = new WritableStream({ write: () => new Promise(() => {}) }).getWriter();
  await writer.ready;
  writer.write("a").catch(() => {});
  const one = writer.abort("a");
  assert_equals(writer.abort("b"), one);
  one.catch(() => {});
  writer.closed.catch(() => {});
  writer.ready.catch(() => {});
});
promise_test("an error of abort is passed on", async () => promise_rejects_exactly("other", new WritableStream({ abort() { throw "other"; } }).abort("why")));
promise_test("abort of a closed stream does nothing", async () => {
  const stream = new WritableStream({ abort: assert_unreached });
  await stream.close();
  assert_equals(await stream.abort("why"), undefined);
});
promise_test("the signal is aborted", async () => {
  let controller;
  const stream = new WritableStream({ start(c) { controller = c; } });
  assert_true(controller.signal instanceof AbortSignal);
  assert_equals(controller.signal, controller.signal);
  assert_false(controller.signal.aborted);
  await stream.abort("why");
  assert_true(controller.signal.aborted);
  assert_equals(controller.signal.reason, "why");
});
promise_test("the signal is aborted during a write", async () => {
  let aborted = false;
  const writer = new WritableStream({ write: (chunk, c) => new Promise((r) => c.signal.addEventListener("abort", () => { aborted = true; r(); })) }).getWriter();
  await writer.ready;
  writer.write("a").catch(() => {});
  await wait();
  await writer.abort("why");
  assert_true(aborted);
  writer.closed.catch(() => {});
});
promise_test("error fails the stream", async () => {
  let controller;
  const writer = new WritableStream({ start(c) { controller = c; } }).getWriter();
  await wait();
  controller.error("why");
  controller.error("again");
  await promise_rejects_exactly("why", writer.closed);
  await promise_rejects_exactly("why", writer.ready);
});
test("a stream has one writer", () => {
  const stream = new WritableStream();
  const writer = stream.getWriter();
  assert_true(stream.locked);
  assert_throws_js(TypeError, () => stream.getWriter());
  assert_throws_js(TypeError, () => new WritableStreamDefaultWriter(stream));
  writer.releaseLock();
  assert_false(stream.locked);
});
test("another object has no writer", () => assert_throws_js(TypeError, () => new WritableStreamDefaultWriter({})));
promise_test("a released writer", async () => {
  const writer = new WritableStream().getWriter();
  const { closed } = writer;
  writer.releaseLock();
  await promise_rejects_js(TypeError, closed);
  await promise_rejects_js(TypeError, writer.ready);
  await promise_rejects_js(TypeError, writer.write("a"));
  await promise_rejects_js(TypeError, writer.close());
  await promise_rejects_js(TypeError, writer.abort());
  assert_throws_js(TypeError, () => writer.desiredSize);
  writer.releaseLock();
});
promise_test("writes continue after the writer is released", async () => {
  const chunks = [];
  const stream = new WritableStream({ write(chunk) { chunks.push(chunk); } });
  const writer = stream.getWriter();
  const done = writer.write("a");
  writer.releaseLock();
  await done;
  assert_array_equals(chunks, ["a"]);
});
promise_test("a locked stream is neither closed nor aborted", async () => {
  const stream = new WritableStream();
  stream.getWriter();
  await promise_rejects_js(TypeError, stream.close());
  await promise_rejects_js(TypeError, stream.abort());
});
for (const size of [-1, NaN, Infinity]) {
  promise_test(`the size ${size} fails the stream`, async () => {
    const writer = new WritableStream({}, { size: () => size }).getWriter();
    await promise_rejects_js(RangeError, writer.write("a"));
    await promise_rejects_js(RangeError, writer.closed);
    writer.ready.catch(() => {});
  });
}
promise_test("an error of size fails the stream", async () => {
  const writer = new WritableStream({}, { size() { throw "why"; } }).getWriter();
  await promise_rejects_exactly("why", writer.write("a"));
  await promise_rejects_exactly("why", writer.closed);
  writer.ready.catch(() => {});
});
promise_test("methods need their objects", async () => {
  await promise_rejects_js(TypeError, WritableStream.prototype.abort.call({}));
  await promise_rejects_js(TypeError, WritableStreamDefaultWriter.prototype.write.call({}));
  assert_throws_js(TypeError, () => WritableStream.prototype.getWriter.call({}));
  assert_throws_js(TypeError, () => WritableStreamDefaultController.prototype.error.call({}));
});
