// Streams of bytes, and readers that bring buffers.

const controlled = (extra = {}, strategy) => {
  let controller;
  const stream = new ReadableStream({ type: "bytes", start(c) { controller = c; }, ...extra }, strategy);
  return { stream, controller };
};
for (const [Class, methods] of [["ReadableByteStreamController", [["close", 0], ["enqueue", 1], ["error", 0]]], ["ReadableStreamBYOBRequest", [["respond", 1], ["respondWithNewView", 1]]], ["ReadableStreamBYOBReader", [["read", 1], ["cancel", 0], ["releaseLock", 0]]]]) {
  for (const [name, length] of methods) test(`${Class}.${name}`, () => assert_idl_method(globalThis[Class].prototype, name, length));
}
test("controllers and requests cannot be constructed", () => {
  assert_throws_js(TypeError, () => new ReadableByteStreamController());
  assert_throws_js(TypeError, () => new ReadableStreamBYOBRequest());
});
test("the class string", () => assert_class_string(controlled().controller, "ReadableByteStreamController"));
test("the mark is 0", () => assert_equals(controlled().controller.desiredSize, 0));
test("bytes have no size function", () => assert_throws_js(RangeError, () => controlled({}, { size() {} })));
for (const size of [0, -1, NaN, Infinity]) {
  test(`autoAllocateChunkSize ${size} is refused`, () => assert_throws_js(TypeError, () => controlled({ autoAllocateChunkSize: size })));
}
for (const chunk of [undefined, null, 1, "text", [1], new ArrayBuffer(1)]) {
  test(`the chunk ${Object.prototype.toString.call(chunk)} is refused`, () => assert_throws_js(TypeError, () => controlled().controller.enqueue(chunk)));
}
test("an empty chunk is refused", () => {
  assert_throws_js(TypeError, () => controlled().controller.enqueue(new Uint8Array(0)));
  assert_throws_js(TypeError, () => controlled().controller.enqueue(new Uint8Array(new ArrayBuffer(0))));
});
test("enqueue takes the buffer", () => {
  const chunk = new Uint8Array([1]);
  controlled().controller.enqueue(chunk);
  assert_equals(chunk.byteLength, 0);
});
test("a chunk counts its bytes", () => {
  const { controller } = controlled({}, { highWaterMark: 10 });
  controller.enqueue(new Uint16Array(2));
  assert_equals(controller.desiredSize, 6);
});
promise_test("a default reader gets Uint8Arrays", async () => {
  const { stream, controller } = controlled();
  controller.enqueue(new Uint16Array([0x6161, 0x6262]));
  const { value } = await stream.getReader().read();
  assert_equals(value.constructor, Uint8Array);
  assert_array_equals(value, [0x61, 0x61, 0x62, 0x62]);
});
promise_test("a read that waits gets the chunk", async () => {
  const { stream, controller } = controlled();
  const read = stream.getReader().read();
  controller.enqueue(new Uint8Array([5]));
  assert_array_equals((await read).value, [5]);
});
promise_test("a buffer is filled from the queue", async () => {
  const { stream, controller } = controlled();
  controller.enqueue(new Uint8Array([1, 2, 3]));
  controller.enqueue(new Uint8Array([4]));
  const reader = stream.getReader({ mode: "byob" });
  assert_array_equals((await reader.read(new Uint8Array(2))).value, [1, 2]);
  assert_array_equals((await reader.read(new Uint8Array(5))).value, [3, 4]);
});
promise_test("the buffer moves to the result", async () => {
  const { stream, controller } = controlled();
  controller.enqueue(new Uint8Array([1]));
  const view = new Uint8Array(8);
  const { value } = await stream.getReader({ mode: "byob" }).read(view);
  assert_equals(view.byteLength, 0);
  assert_equals(value.buffer.byteLength, 8);
});
promise_test("the part of a buffer that the view covers", async () => {
  const { stream, controller } = controlled();
  controller.enqueue(new Uint8Array([1, 2, 3]));
  const { value } = await stream.getReader({ mode: "byob" }).read(new Uint8Array(new ArrayBuffer(8), 3, 2));
  assert_array_equals([value.byteOffset, value.length, ...value], [3, 2, 1, 2]);
});
for (const View of ["Uint16Array", "Int32Array", "Float64Array", "DataView", "BigInt64Array"]) {
  promise_test(`a ${View} is filled`, async () => {
    const { stream, controller } = controlled();
    controller.enqueue(new Uint8Array(16));
    const { value } = await stream.getReader({ mode: "byob" }).read(new globalThis[View](new ArrayBuffer(16)));
    assert_equals(value.constructor, globalThis[View]);
    assert_equals(value.byteLength, 16);
  });
}
promise_test("elements are whole", async () => {
  const { stream, controller } = controlled();
  controller.enqueue(new Uint8Array([1, 2, 3]));
  const reader = stream.getReader({ mode: "byob" });
  assert_equals((await reader.read(new Uint16Array(2))).value.length, 1);
  assert_array_equals((await reader.read(new Uint8Array(2))).value, [3]);
});
promise_test("a stream that ends within an element fails", async () => {
  const { stream, controller } = controlled();
  const read = stream.getReader({ mode: "byob" }).read(new Uint16Array(1));
  controller.enqueue(new Uint8Array([1]));
  assert_throws_js(TypeError, () => controller.close());
  await promise_rejects_js(TypeError, read);
});
promise_test("min waits for more", async () => {
  const { stream, controller } = controlled();
  const read = stream.getReader({ mode: "byob" }).read(new Uint8Array(4), { min: 3 });
  controller.enqueue(new Uint8Array([1, 2]));
  controller.enqueue(new Uint8Array([3]));
  assert_array_equals((await read).value, [1, 2, 3]);
});
for (const [min, error] of [[0, TypeError], [5, RangeError], [-1, TypeError], [NaN, TypeError]]) {
  promise_test(`min ${min} is refused`, async () => promise_rejects_js(error, controlled().stream.getReader({ mode: "byob" }).read(new Uint8Array(4), { min })));
}
for (const [what, view] of [["nothing", () => undefined], ["an object", () => ({})], ["a buffer", () => new ArrayBuffer(1)], ["an empty view", () => new Uint8Array(0)], ["an empty view of a buffer", () => new Uint8Array(new ArrayBuffer(4), 4)]]) {
  promise_test(`read into ${what} is refused`, async () => promise_rejects_js(TypeError, controlled().stream.getReader({ mode: "byob" }).read(view())));
}
promise_test("the source fills the buffer of the reader", async () => {
  let length;
  const { stream } = controlled({ pull(c) { length = c.byobRequest.view.byteLength; c.byobRequest.view[0] = 9; c.byobRequest.respond(1); } });
  assert_array_equals((await stream.getReader({ mode: "byob" }).read(new Uint8Array(3))).value, [9]);
  assert_equals(length, 3);
});
promise_test("respondWithNewView hands over another view", async () => {
  const { stream } = controlled({ pull(c) { const { view } = c.byobRequest; view[0] = 8; c.byobRequest.respondWithNewView(new Uint8Array(view.buffer, 0, 1)); } });
  assert_array_equals((await stream.getReader({ mode: "byob" }).read(new Uint8Array(3))).value, [8]);
});
promise_test("autoAllocateChunkSize gives a default reader a request", async () => {
  const { stream } = controlled({ autoAllocateChunkSize: 4, pull(c) { assert_equals(c.byobRequest.view.byteLength, 4); c.byobRequest.view[1] = 6; c.byobRequest.respond(2); } });
  assert_array_equals((await stream.getReader().read()).value, [0, 6]);
});
test("there is no request without a reader", () => assert_equals(controlled().controller.byobRequest, null));
promise_test("a request is used once", async () => {
  let request;
  const { stream } = controlled({ pull(c) { request = c.byobRequest; request.respond(1); } });
  await stream.getReader({ mode: "byob" }).read(new Uint8Array(1));
  assert_equals(request.view, null);
  assert_throws_js(TypeError, () => request.respond(1));
});
for (const [written, error] of [[0, TypeError], [4, RangeError], [-1, TypeError], [NaN, TypeError]]) {
  promise_test(`respond(${written}) is refused`, async () => {
    const { stream, controller } = controlled();
    const read = stream.getReader({ mode: "byob" }).read(new Uint8Array(3));
    assert_throws_js(error, () => controller.byobRequest.respond(written));
    controller.error("end");
    await promise_rejects_exactly("end", read);
  });
}
promise_test("an end with a waiting buffer needs respond(0)", async () => {
  const { stream, controller } = controlled();
  const read = stream.getReader({ mode: "byob" }).read(new Uint8Array(3));
  controller.close();
  controller.byobRequest.respond(0);
  const { value, done } = await read;
  assert_true(done);
  assert_array_equals([value.length, value.buffer.byteLength], [0, 3]);
});
promise_test("a read after the end gives the buffer back", async () => {
  const { stream, controller } = controlled();
  controller.close();
  const { value, done } = await stream.getReader({ mode: "byob" }).read(new Uint8Array(3));
  assert_true(done);
  assert_array_equals([value.length, value.buffer.byteLength], [0, 3]);
});
promise_test("cancel ends reads without a view", async () => {
  const { stream } = controlled();
  const reader = stream.getReader({ mode: "byob" });
  const read = reader.read(new Uint8Array(1));
  await reader.cancel();
  assert_object_equals(await read, { value: undefined, done: true });
});
promise_test("an error fails reads", async () => {
  const { stream, controller } = controlled();
  const read = stream.getReader({ mode: "byob" }).read(new Uint8Array(1));
  controller.error("why");
  await promise_rejects_exactly("why", read);
});
promise_test("bytes after a released reader go to the next", async () => {
  const { stream, controller } = controlled();
  const first = stream.getReader({ mode: "byob" });
  const read = first.read(new Uint8Array(4));
  const request = controller.byobRequest;
  first.releaseLock();
  await promise_rejects_js(TypeError, read);
  request.view[0] = 3;
  request.respond(1);
  assert_array_equals((await stream.getReader().read()).value, [3]);
});
test("nothing is enqueued after close", () => {
  const { controller } = controlled();
  controller.close();
  assert_throws_js(TypeError, () => controller.enqueue(new Uint8Array(1)));
  assert_throws_js(TypeError, () => controller.close());
});
promise_test("close waits for the queue", async () => {
  const { stream, controller } = controlled();
  controller.enqueue(new Uint8Array([1]));
  controller.close();
  const reader = stream.getReader();
  assert_array_equals((await reader.read()).value, [1]);
  assert_true((await reader.read()).done);
});
