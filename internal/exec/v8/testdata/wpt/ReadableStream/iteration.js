// Asynchronous iteration, from, tee.

const numbers = (count) => {
  let n = 0;
  return new ReadableStream({ pull(c) { if (n < count) c.enqueue(n++); else c.close(); } }, { highWaterMark: 0 });
};
const collect = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
};
test("values is the asynchronous iterator", () => assert_equals(ReadableStream.prototype.values, ReadableStream.prototype[Symbol.asyncIterator]));
test("the iterator has the prototype of asynchronous iterators", () => {
  const prototype = Object.getPrototypeOf(new ReadableStream().values());
  assert_equals(Object.getPrototypeOf(prototype), Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}.prototype)));
  assert_idl_method(prototype, "next", 0);
  assert_idl_method(prototype, "return", 1);
});
promise_test("for await reads all", async () => assert_array_equals(await collect(numbers(3)), [0, 1, 2]));
promise_test("a loop that ends early cancels", async () => {
  let reason = "not cancelled";
  const stream = new ReadableStream({ pull(c) { c.enqueue(1); }, cancel(r) { reason = r; } });
  for await (const _ of stream) break;
  assert_equals(reason, undefined);
  assert_false(stream.locked);
});
promise_test("preventCancel keeps the stream", async () => {
  const stream = numbers(3);
  for await (const _ of stream.values({ preventCancel: true })) break;
  assert_array_equals(await collect(stream), [1, 2]);
});
promise_test("an error ends the loop", async () => {
  const stream = new ReadableStream({ start(c) { c.error("why"); } });
  await promise_rejects_exactly("why", collect(stream));
  assert_false(stream.locked);
});
test("iteration locks", () => {
  const stream = new ReadableStream();
  stream.values();
  assert_true(stream.locked);
  assert_throws_js(TypeError, () => stream.values());
});
promise_test("next calls come one after the other", async () => {
  const iterator = numbers(2).values();
  const results = await Promise.all([iterator.next(), iterator.next(), iterator.next()]);
  assert_array_equals(results.map((r) => r.value), [0, 1, undefined]);
  assert_true(results[2].done);
});
promise_test("return before next", async () => {
  const iterator = numbers(2).values();
  assert_object_equals(await iterator.return("x"), { value: "x", done: true });
  assert_object_equals(await iterator.next(), { value: undefined, done: true });
  assert_object_equals(await iterator.return("y"), { value: "y", done: true });
});
promise_test("next of another object rejects", async () => promise_rejects_js(TypeError, new ReadableStream().values().next.call({})));

for (const [what, iterable, want] of [
  ["an array", () => ["a", "b"], ["a", "b"]], ["a set", () => new Set([1]), [1]], ["a string", () => "ab", ["a", "b"]],
  ["promises", () => [Promise.resolve(1), 2], [1, 2]], ["a generator", function* () { yield 1; yield 2; }, [1, 2]],
  ["an asynchronous generator", async function* () { yield 1; yield 2; }, [1, 2]], ["a stream", () => numbers(2), [0, 1]], ["nothing", () => [], []],
]) {
  promise_test(`from ${what}`, async () => assert_array_equals(await collect(ReadableStream.from(iterable())), want));
}
for (const value of [undefined, null, 0, true, {}, Symbol.iterator, 5n]) {
  test(`from ${String(value)} is refused`, () => assert_throws_js(TypeError, () => ReadableStream.from(value)));
}
for (const key of ["iterator", "asyncIterator"]) {
  test(`from a ${key} that is no function`, () => assert_throws_js(TypeError, () => ReadableStream.from({ [Symbol[key]]: 1 })));
  test(`from a ${key} that throws`, () => {
    const error = new Error("x");
    assert_throws_exactly(error, () => ReadableStream.from({ [Symbol[key]]() { throw error; } }));
  });
  test(`from a ${key} that returns no object`, () => assert_throws_js(TypeError, () => ReadableStream.from({ [Symbol[key]]() { return 1; } })));
}
promise_test("from reads only what is asked for", async () => {
  let n = 0;
  const stream = ReadableStream.from((function* () { for (;;) yield n++; })());
  await wait();
  assert_equals(n, 0);
  await stream.getReader().read();
  assert_equals(n, 1);
});
promise_test("cancel calls return", async () => {
  let got;
  const stream = ReadableStream.from({ [Symbol.asyncIterator]() { return { next: async () => ({ value: 1, done: false }), return: async (reason) => { got = reason; return {}; } }; } });
  await stream.cancel("why");
  assert_equals(got, "why");
});
promise_test("an iterator without return is cancelled", async () => ReadableStream.from({ [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true }) }) }).cancel());
promise_test("a step that is no object", async () => promise_rejects_js(TypeError, ReadableStream.from({ [Symbol.asyncIterator]: () => ({ next: async () => 1 }) }).getReader().read()));
promise_test("next that rejects", async () => promise_rejects_exactly("why", ReadableStream.from({ [Symbol.asyncIterator]: () => ({ next: () => Promise.reject("why") }) }).getReader().read()));

promise_test("tee gives both branches all chunks", async () => {
  const [a, b] = numbers(3).tee();
  assert_array_equals(await collect(a), [0, 1, 2]);
  assert_array_equals(await collect(b), [0, 1, 2]);
});
test("tee locks the stream", () => {
  const stream = new ReadableStream();
  assert_equals(stream.tee().length, 2);
  assert_true(stream.locked);
  assert_throws_js(TypeError, () => stream.tee());
});
promise_test("tee passes errors to both", async () => {
  const [a, b] = new ReadableStream({ start(c) { c.error("why"); } }).tee();
  await promise_rejects_exactly("why", a.getReader().closed);
  await promise_rejects_exactly("why", b.getReader().closed);
});
promise_test("the stream of a tee is cancelled with both branches", async () => {
  let reasons;
  const [a, b] = new ReadableStream({ cancel(r) { reasons = r; } }).tee();
  const first = a.cancel("a");
  await wait();
  assert_equals(reasons, undefined);
  await Promise.all([first, b.cancel("b")]);
  assert_array_equals(reasons, ["a", "b"]);
});
promise_test("one branch continues without the other", async () => {
  const [a, b] = numbers(3).tee();
  a.cancel();
  assert_array_equals(await collect(b), [0, 1, 2]);
});
promise_test("a tee reads ahead by one chunk", async () => {
  let pulled = 0;
  const stream = new ReadableStream({ pull(c) { pulled++; c.enqueue(pulled); } }, { highWaterMark: 0 });
  stream.tee();
  await wait();
  assert_equals(pulled, 1);
});
promise_test("the branches have the same objects", async () => {
  const chunk = {};
  const [a, b] = new ReadableStream({ start(c) { c.enqueue(chunk); } }).tee();
  assert_equals((await a.getReader().read()).value, chunk);
  assert_equals((await b.getReader().read()).value, chunk);
});
promise_test("a tee of bytes copies them", async () => {
  const [a, b] = new ReadableStream({ type: "bytes", start(c) { c.enqueue(new Uint8Array([1, 2])); c.close(); } }).tee();
  const one = (await a.getReader().read()).value;
  one[0] = 9;
  assert_array_equals((await b.getReader().read()).value, [1, 2]);
});
promise_test("a branch of a tee of bytes fills buffers", async () => {
  const [a, b] = new ReadableStream({ type: "bytes", pull(c) { c.byobRequest ? (c.byobRequest.view[0] = 7, c.byobRequest.respond(1)) : c.enqueue(new Uint8Array([8])); } }).tee();
  const { value } = await a.getReader({ mode: "byob" }).read(new Uint8Array(4));
  assert_array_equals(value, [7]);
  assert_array_equals((await b.getReader().read()).value, [7]);
});
promise_test("branches of bytes end", async () => {
  const [a, b] = new ReadableStream({ type: "bytes", start(c) { c.close(); } }).tee();
  assert_true((await a.getReader({ mode: "byob" }).read(new Uint8Array(1))).done);
  assert_true((await b.getReader().read()).done);
});
