// Pipes.

const source = (...chunks) => new ReadableStream({ start(c) { for (const chunk of chunks) c.enqueue(chunk); c.close(); } });
const sink = (extra = {}) => {
  const events = [];
  const stream = new WritableStream({ write(chunk) { events.push(chunk); }, close() { events.push("close"); }, abort(reason) { events.push("abort", reason); }, ...extra });
  return { stream, events };
};
promise_test("all chunks are written, then the end", async () => {
  const { stream, events } = sink();
  assert_equals(await source(1, 2).pipeTo(stream), undefined);
  assert_array_equals(events, [1, 2, "close"]);
});
promise_test("preventClose", async () => {
  const { stream, events } = sink();
  await source(1).pipeTo(stream, { preventClose: true });
  assert_array_equals(events, [1]);
  assert_false(stream.locked);
});
promise_test("both are locked during a pipe", async () => {
  const from = new ReadableStream();
  const { stream } = sink();
  from.pipeTo(stream).catch(() => {});
  assert_true(from.locked && stream.locked);
});
promise_test("both are free afterwards", async () => {
  const from = source(1);
  const { stream } = sink();
  await from.pipeTo(stream);
  assert_false(from.locked || stream.locked);
});
promise_test("an error of the source aborts the destination", async () => {
  const { stream, events } = sink();
  await promise_rejects_exactly("why", new ReadableStream({ start(c) { c.error("why"); } }).pipeTo(stream));
  assert_array_equals(events, ["abort", "why"]);
});
promise_test("a later error of the source", async () => {
  const { stream, events } = sink();
  let n = 0;
  await promise_rejects_exactly("why", new ReadableStream({ pull(c) { if (n++ === 0) c.enqueue(1); else c.error("why"); } }, { highWaterMark: 0 }).pipeTo(stream));
  assert_array_equals(events, [1, "abort", "why"]);
});
promise_test("preventAbort", async () => {
  const { stream, events } = sink();
  await promise_rejects_exactly("why", new ReadableStream({ start(c) { c.error("why"); } }).pipeTo(stream, { preventAbort: true }));
  assert_array_equals(events, []);
});
promise_test("an error of the destination cancels the source", async () => {
  let reason;
  const from = new ReadableStream({ pull(c) { c.enqueue(1); }, cancel(r) { reason = r; } });
  await promise_rejects_exactly("why", from.pipeTo(new WritableStream({ write() { throw "why"; } })));
  assert_equals(reason, "why");
});
promise_test("preventCancel", async () => {
  let cancelled = false;
  const from = new ReadableStream({ pull(c) { c.enqueue(1); }, cancel() { cancelled = true; } });
  await promise_rejects_exactly("why", from.pipeTo(new WritableStream({ write() { throw "why"; } }), { preventCancel: true }));
  assert_false(cancelled);
});
promise_test("a closed destination", async () => {
  const { stream } = sink();
  await stream.close();
  let cancelled = false;
  await promise_rejects_js(TypeError, new ReadableStream({ cancel() { cancelled = true; } }).pipeTo(stream));
  assert_true(cancelled);
});
promise_test("an error of close", async () => promise_rejects_exactly("why", source().pipeTo(new WritableStream({ close() { throw "why"; } }))));
promise_test("the pipe waits for the destination", async () => {
  let release, n = 0;
  const from = new ReadableStream({ pull(c) { c.enqueue(++n); } }, { highWaterMark: 0 });
  from.pipeTo(new WritableStream({ write() { return new Promise((r) => { release = r; }); } }));
  await wait(1);
  assert_equals(n, 1);
  release();
  await wait(1);
  assert_equals(n, 2);
});
promise_test("a pipe that was aborted before", async () => {
  const { stream, events } = sink();
  let reason;
  await promise_rejects_exactly("why", new ReadableStream({ cancel(r) { reason = r; } }).pipeTo(stream, { signal: AbortSignal.abort("why") }));
  assert_array_equals([reason, ...events], ["why", "abort", "why"]);
});
promise_test("a pipe that is aborted", async () => {
  const { stream, events } = sink();
  const controller = new AbortController();
  const done = new ReadableStream().pipeTo(stream, { signal: controller.signal });
  await wait();
  controller.abort("why");
  await promise_rejects_exactly("why", done);
  assert_array_equals(events, ["abort", "why"]);
});
promise_test("an aborted pipe with both prevented", async () => {
  const { stream, events } = sink();
  const from = new ReadableStream();
  await promise_rejects_exactly("why", from.pipeTo(stream, { signal: AbortSignal.abort("why"), preventAbort: true, preventCancel: true }));
  assert_array_equals(events, []);
  assert_false(from.locked || stream.locked);
});
for (const value of [null, "signal", {}, 5]) {
  promise_test(`the signal ${JSON.stringify(value)} is refused`, async () => promise_rejects_js(TypeError, new ReadableStream().pipeTo(new WritableStream(), { signal: value })));
}
promise_test("other destinations are refused", async () => {
  await promise_rejects_js(TypeError, new ReadableStream().pipeTo());
  await promise_rejects_js(TypeError, new ReadableStream().pipeTo({}));
  await promise_rejects_js(TypeError, ReadableStream.prototype.pipeTo.call({}, new WritableStream()));
});
promise_test("locked streams are refused", async () => {
  const from = new ReadableStream();
  from.getReader();
  await promise_rejects_js(TypeError, from.pipeTo(new WritableStream()));
  const to = new WritableStream();
  to.getWriter();
  await promise_rejects_js(TypeError, new ReadableStream().pipeTo(to));
});
test("pipeThrough returns the readable side", () => {
  const pair = new TransformStream();
  assert_equals(new ReadableStream().pipeThrough(pair), pair.readable);
});
test("pipeThrough takes any pair", () => {
  const readable = new ReadableStream();
  assert_equals(new ReadableStream().pipeThrough({ readable, writable: new WritableStream() }), readable);
});
for (const [what, pair] of [["nothing", () => undefined], ["no sides", () => ({})], ["no writable side", () => ({ readable: new ReadableStream() })], ["no readable side", () => ({ writable: new WritableStream() })]]) {
  test(`pipeThrough with ${what} is refused`, () => assert_throws_js(TypeError, () => new ReadableStream().pipeThrough(pair())));
}
promise_test("pipes in a row", async () => {
  const double = () => new TransformStream({ transform(n, c) { c.enqueue(n * 2); } });
  const { stream, events } = sink();
  await source(1, 2).pipeThrough(double()).pipeThrough(double()).pipeTo(stream);
  assert_array_equals(events, [4, 8, "close"]);
});
