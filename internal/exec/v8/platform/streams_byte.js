// ReadableByteStreamController and ReadableStreamBYOBRequest: streams of bytes, which fill
// buffers of their readers.
//
// An entry of the queue is {buffer, byteOffset, byteLength}. A pending pull-into is
// {buffer, bufferByteLength, byteOffset, byteLength, bytesFilled, minimumFill, elementSize,
// make, readerType}: make creates the view that the reader receives.

const { TypeError, RangeError, isObject, ArrayBuffer, codedError, ReflectApply } = platform;
const { expose, defineLevelInspection, illegalInvocation, illegalConstructor } = platform.load("webidl");
const { resolved, nothing } = platform.load("promises");
const {
  invalidState, badValue, newQueue, queueLength, push, peek, shift, resetQueue, promiseCall, uponPromise,
  transferBuffer, isDetached, bufferLength, copyDataBlock,
} = platform.load("streams_core");
const {
  close, fail, addRequest, requestCount, hasDefaultReader, hasBYOBReader, fulfillRequest,
} = platform.load("streams_state");
const { describeView, toView, bufferOf, makeBytes, toLength } = platform.load("streams_views");
const sliceBuffer = platform.method("ArrayBuffer.prototype", "slice");

const clearAlgorithms = (controller) => { controller.pull = controller.cancel = undefined; };

const invalidateRequest = (controller) => {
  if (controller.request === undefined) return;
  detachRequest(controller.request);
  controller.request = undefined;
};

const clearPendingPullIntos = (controller) => {
  invalidateRequest(controller);
  controller.pullIntos = newQueue();
};

const desiredSize = (controller) => {
  const { state } = controller.stream;
  if (state === "errored") return null;
  return state === "closed" ? 0 : controller.highWaterMark - controller.queueTotalSize;
};

const shouldPull = (controller) => {
  const { stream } = controller;
  if (stream.state !== "readable" || controller.closeRequested || !controller.started) return false;
  if (stream.reader !== undefined && requestCount(stream) > 0) return true;
  return desiredSize(controller) > 0;
};

const controllerError = (controller, error) => {
  if (controller.stream.state !== "readable") return;
  clearPendingPullIntos(controller);
  resetQueue(controller);
  clearAlgorithms(controller);
  fail(controller.stream, error);
};

const callPullIfNeeded = (controller) => {
  if (!shouldPull(controller)) return;
  if (controller.pulling) {
    controller.pullAgain = true;
    return;
  }
  controller.pulling = true;
  uponPromise(controller.pull(controller.object), () => {
    controller.pulling = false;
    if (!controller.pullAgain) return;
    controller.pullAgain = false;
    callPullIfNeeded(controller);
  }, (error) => controllerError(controller, error));
};

const handleQueueDrain = (controller) => {
  if (controller.queueTotalSize === 0 && controller.closeRequested) {
    clearAlgorithms(controller);
    close(controller.stream);
  } else {
    callPullIfNeeded(controller);
  }
};

// ---- the queue ----------------------------------------------------------------------

const enqueueToQueue = (controller, buffer, byteOffset, byteLength) => {
  push(controller.queue, { __proto__: null, buffer, byteOffset, byteLength });
  controller.queueTotalSize += byteLength;
};

const enqueueCloned = (controller, buffer, byteOffset, byteLength) => {
  let copy;
  try {
    copy = sliceBuffer(buffer, byteOffset, byteOffset + byteLength);
  } catch (error) {
    controllerError(controller, error);
    throw error;
  }
  enqueueToQueue(controller, copy, 0, byteLength);
};

const enqueueDetached = (controller, pullInto) => {
  if (pullInto.bytesFilled > 0) enqueueCloned(controller, pullInto.buffer, pullInto.byteOffset, pullInto.bytesFilled);
  shiftPullInto(controller);
};

const shiftPullInto = (controller) => shift(controller.pullIntos);

const dequeueEntry = (controller) => {
  const entry = shift(controller.queue);
  controller.queueTotalSize -= entry.byteLength;
  handleQueueDrain(controller);
  return makeBytes(entry.buffer, entry.byteOffset, entry.byteLength);
};

// fillFromQueue copies bytes of the queue to a pull-into, and reports whether it is filled as
// far as its reader wants.
const fillFromQueue = (controller, pullInto) => {
  let toCopy = controller.queueTotalSize < pullInto.byteLength - pullInto.bytesFilled ? controller.queueTotalSize : pullInto.byteLength - pullInto.bytesFilled;
  const filled = pullInto.bytesFilled + toCopy;
  const aligned = filled - filled % pullInto.elementSize;
  let ready = false;
  if (aligned >= pullInto.minimumFill) {
    toCopy = aligned - pullInto.bytesFilled;
    ready = true;
  }
  while (toCopy > 0) {
    const head = peek(controller.queue);
    const count = toCopy < head.byteLength ? toCopy : head.byteLength;
    copyDataBlock(pullInto.buffer, pullInto.byteOffset + pullInto.bytesFilled, head.buffer, head.byteOffset, count);
    if (head.byteLength === count) {
      shift(controller.queue);
    } else {
      head.byteOffset += count;
      head.byteLength -= count;
    }
    controller.queueTotalSize -= count;
    fillHead(controller, count, pullInto);
    toCopy -= count;
  }
  return ready;
};

const fillHead = (controller, size, pullInto) => { pullInto.bytesFilled += size; };

// ---- pull-intos ---------------------------------------------------------------------

const convert = (pullInto) => pullInto.make(transferBuffer(pullInto.buffer), pullInto.byteOffset, pullInto.bytesFilled);

const commit = (stream, pullInto) => {
  const done = stream.state === "closed";
  fulfillRequest(stream, convert(pullInto), done);
};

// processWithQueue fills pull-intos from the queue, and returns those that are ready.
const processWithQueue = (controller) => {
  const ready = newQueue();
  while (queueLength(controller.pullIntos) > 0 && controller.queueTotalSize > 0) {
    const pullInto = peek(controller.pullIntos);
    if (!fillFromQueue(controller, pullInto)) break;
    shiftPullInto(controller);
    push(ready, pullInto);
  }
  return ready;
};
const commitAll = (stream, ready) => { while (queueLength(ready) > 0) commit(stream, shift(ready)); };

const processReadRequests = (controller) => {
  const { reader } = controller.stream;
  while (queueLength(reader.requests) > 0 && controller.queueTotalSize > 0) {
    const request = shift(reader.requests);
    request.chunk(dequeueEntry(controller));
  }
};

// pullInto fills a view of a BYOB reader with at least min elements.
const pullInto = (controller, view, min, request) => {
  const { stream } = controller;
  const minimumFill = min * view.elementSize;
  const { offset: byteOffset, length: byteLength, elementSize, make } = view;
  let buffer;
  try {
    buffer = transferBuffer(view.buffer);
  } catch (error) {
    request.error(error);
    return;
  }
  const pending = {
    __proto__: null, buffer, bufferByteLength: bufferLength(buffer), byteOffset, byteLength, bytesFilled: 0, minimumFill, elementSize, make,
    readerType: "byob",
  };
  if (queueLength(controller.pullIntos) > 0) {
    push(controller.pullIntos, pending);
    addRequest(stream, request);
    return;
  }
  if (stream.state === "closed") {
    request.close(make(buffer, byteOffset, 0));
    return;
  }
  if (controller.queueTotalSize > 0) {
    if (fillFromQueue(controller, pending)) {
      const filled = convert(pending);
      handleQueueDrain(controller);
      request.chunk(filled);
      return;
    }
    if (controller.closeRequested) {
      const error = invalidState("The stream ends within an element of the view");
      controllerError(controller, error);
      request.error(error);
      return;
    }
  }
  push(controller.pullIntos, pending);
  addRequest(stream, request);
  callPullIfNeeded(controller);
};

const respondInClosedState = (controller, first) => {
  if (first.readerType === "none") shiftPullInto(controller);
  const { stream } = controller;
  if (!hasBYOBReader(stream)) return;
  const ready = newQueue();
  while (queueLength(ready) < requestCount(stream)) push(ready, shiftPullInto(controller));
  commitAll(stream, ready);
};

const respondInReadableState = (controller, written, first) => {
  fillHead(controller, written, first);
  if (first.readerType === "none") {
    enqueueDetached(controller, first);
    commitAll(controller.stream, processWithQueue(controller));
    return;
  }
  if (first.bytesFilled < first.minimumFill) return;
  shiftPullInto(controller);
  const rest = first.bytesFilled % first.elementSize;
  if (rest > 0) {
    const end = first.byteOffset + first.bytesFilled;
    enqueueCloned(controller, first.buffer, end - rest, rest);
  }
  first.bytesFilled -= rest;
  const ready = processWithQueue(controller);
  commit(controller.stream, first);
  commitAll(controller.stream, ready);
};

const respondInternal = (controller, written) => {
  const first = peek(controller.pullIntos);
  invalidateRequest(controller);
  if (controller.stream.state === "closed") respondInClosedState(controller, first);
  else respondInReadableState(controller, written, first);
  callPullIfNeeded(controller);
};

const respond = (controller, written) => {
  const first = peek(controller.pullIntos);
  if (controller.stream.state === "closed") {
    if (written !== 0) throw badValue(TypeError, "argument 'bytesWritten'", written);
  } else {
    if (written === 0) throw badValue(TypeError, "argument 'bytesWritten'", written);
    if (first.bytesFilled + written > first.byteLength) throw badValue(RangeError, "argument 'bytesWritten'", written);
  }
  first.buffer = transferBuffer(first.buffer);
  respondInternal(controller, written);
};

const respondWithNewView = (controller, view) => {
  const first = peek(controller.pullIntos);
  if (controller.stream.state === "closed") {
    if (view.length !== 0) throw badValue(TypeError, "argument 'view'", view.length);
  } else if (view.length === 0) {
    throw badValue(TypeError, "argument 'view'", view.length);
  }
  if (first.byteOffset + first.bytesFilled !== view.offset) throw badValue(RangeError, "argument 'view.byteOffset'", view.offset);
  if (first.bufferByteLength !== bufferLength(view.buffer)) throw badValue(RangeError, "argument 'view.buffer.byteLength'", bufferLength(view.buffer));
  if (first.bytesFilled + view.length > first.byteLength) throw badValue(RangeError, "argument 'view.byteLength'", view.length);
  const written = view.length;
  first.buffer = transferBuffer(view.buffer);
  respondInternal(controller, written);
};

// ---- the controller -----------------------------------------------------------------

const controllerClose = (controller) => {
  if (controller.closeRequested || controller.stream.state !== "readable") return;
  if (controller.queueTotalSize > 0) {
    controller.closeRequested = true;
    return;
  }
  if (queueLength(controller.pullIntos) > 0) {
    const first = peek(controller.pullIntos);
    if (first.bytesFilled % first.elementSize !== 0) {
      const error = invalidState("The stream ends within an element of the view");
      controllerError(controller, error);
      throw error;
    }
  }
  clearAlgorithms(controller);
  close(controller.stream);
};

const controllerEnqueue = (controller, view) => {
  const { stream } = controller;
  if (controller.closeRequested || stream.state !== "readable") return;
  const { offset, length } = view;
  if (isDetached(view.buffer)) throw invalidState("The buffer of the chunk is detached");
  const buffer = transferBuffer(view.buffer);
  if (queueLength(controller.pullIntos) > 0) {
    const first = peek(controller.pullIntos);
    if (isDetached(first.buffer)) throw invalidState("The buffer of the BYOB request is detached");
    invalidateRequest(controller);
    first.buffer = transferBuffer(first.buffer);
    if (first.readerType === "none") enqueueDetached(controller, first);
  }
  if (hasDefaultReader(stream)) {
    processReadRequests(controller);
    if (requestCount(stream) === 0) {
      enqueueToQueue(controller, buffer, offset, length);
    } else {
      if (queueLength(controller.pullIntos) > 0) shiftPullInto(controller);
      fulfillRequest(stream, makeBytes(buffer, offset, length), false);
    }
  } else {
    enqueueToQueue(controller, buffer, offset, length);
    if (hasBYOBReader(stream)) commitAll(stream, processWithQueue(controller));
  }
  callPullIfNeeded(controller);
};

const pullSteps = (controller, request) => {
  const { stream } = controller;
  if (controller.queueTotalSize > 0) {
    request.chunk(dequeueEntry(controller));
    return;
  }
  const size = controller.autoAllocateChunkSize;
  if (size !== undefined) {
    let buffer;
    try {
      buffer = new ArrayBuffer(size);
    } catch (error) {
      request.error(error);
      return;
    }
    push(controller.pullIntos, {
      __proto__: null, buffer, bufferByteLength: size, byteOffset: 0, byteLength: size, bytesFilled: 0, minimumFill: 1, elementSize: 1,
      make: makeBytes, readerType: "default",
    });
  }
  addRequest(stream, request);
  callPullIfNeeded(controller);
};

const cancelSteps = (controller, reason) => {
  clearPendingPullIntos(controller);
  resetQueue(controller);
  const result = controller.cancel(reason);
  clearAlgorithms(controller);
  return result;
};

const releaseSteps = (controller) => {
  if (queueLength(controller.pullIntos) === 0) return;
  const first = peek(controller.pullIntos);
  first.readerType = "none";
  controller.pullIntos = newQueue();
  push(controller.pullIntos, first);
};

const setUp = (stream, start, pull, cancel, highWaterMark, autoAllocateChunkSize) => {
  const controller = {
    __proto__: null, isByte: true, stream, queue: newQueue(), queueTotalSize: 0, started: false, closeRequested: false, pullAgain: false,
    pulling: false, highWaterMark, pull, cancel, autoAllocateChunkSize, pullIntos: newQueue(), request: undefined, object: undefined,
    pullSteps, cancelSteps, releaseSteps,
  };
  controller.object = new ReadableByteStreamController(secret, controller);
  stream.controller = controller;
  uponPromise(resolved(start(controller.object)), () => {
    controller.started = true;
    callPullIfNeeded(controller);
  }, (error) => controllerError(controller, error));
  return controller;
};

const setUpFromSource = (stream, source, callbacks, highWaterMark) => {
  const { start, pull, cancel, autoAllocateChunkSize } = callbacks;
  if (autoAllocateChunkSize === 0) throw badValue(TypeError, "property 'source.autoAllocateChunkSize'", 0);
  setUp(stream, start === undefined ? nothing : (object) => ReflectApply(start, source, [object]), promiseCall(pull, source),
    promiseCall(cancel, source), highWaterMark, autoAllocateChunkSize);
};

const requestOf = (controller) => {
  if (controller.request === undefined && queueLength(controller.pullIntos) > 0) {
    const first = peek(controller.pullIntos);
    const view = makeBytes(first.buffer, first.byteOffset + first.bytesFilled, first.byteLength - first.bytesFilled);
    controller.request = new ReadableStreamBYOBRequest(secret, { __proto__: null, controller, view });
  }
  return controller.request === undefined ? null : controller.request;
};

const secret = { __proto__: null };
let controllerOf;

class ReadableByteStreamController {
  #record;
  static {
    controllerOf = (object) => {
      if (!isObject(object) || !(#record in object)) throw illegalInvocation("ReadableByteStreamController");
      return object.#record;
    };
  }
  constructor() {
    if (arguments[0] !== secret) throw illegalConstructor();
    this.#record = arguments[1];
  }
  get byobRequest() { return requestOf(controllerOf(this)); }
  get desiredSize() { return desiredSize(controllerOf(this)); }
  close() {
    const controller = controllerOf(this);
    if (controller.closeRequested || controller.stream.state !== "readable") throw invalidState("Controller is already closed");
    controllerClose(controller);
  }
  enqueue(chunk) {
    const controller = controllerOf(this);
    const view = toView(chunk, "chunk");
    if (view.length === 0) throw invalidState("chunk ArrayBuffer is zero-length or detached");
    if (controller.closeRequested || controller.stream.state !== "readable") throw invalidState("Controller is already closed");
    controllerEnqueue(controller, view);
  }
  error(error = undefined) { controllerError(controllerOf(this), error); }
}
expose(ReadableByteStreamController, "ReadableByteStreamController");
defineLevelInspection(ReadableByteStreamController, "ReadableByteStreamController", () => ({}));

let requestRecord;
let detachRequest;

class ReadableStreamBYOBRequest {
  #record;
  static {
    requestRecord = (object) => {
      if (!isObject(object) || !(#record in object)) throw illegalInvocation("ReadableStreamBYOBRequest");
      return object.#record;
    };
    detachRequest = (object) => {
      object.#record.controller = undefined;
      object.#record.view = null;
    };
  }
  constructor() {
    if (arguments[0] !== secret) throw illegalConstructor();
    this.#record = arguments[1];
  }
  get view() { return requestRecord(this).view; }
  respond(bytesWritten) {
    const record = requestRecord(this);
    if (arguments.length === 0) throw codedError(TypeError, "ERR_MISSING_ARGS", 'The "bytesWritten" argument must be specified');
    const written = toLength(bytesWritten);
    if (record.controller === undefined) throw invalidState("This BYOB request has been invalidated");
    if (isDetached(bufferOf(record.view))) throw invalidState("Viewed ArrayBuffer is detached");
    respond(record.controller, written);
  }
  respondWithNewView(view) {
    const record = requestRecord(this);
    const described = toView(view, "view");
    if (record.controller === undefined) throw invalidState("This BYOB request has been invalidated");
    if (isDetached(described.buffer)) throw invalidState("Viewed ArrayBuffer is detached");
    respondWithNewView(record.controller, described);
  }
}
expose(ReadableStreamBYOBRequest, "ReadableStreamBYOBRequest");

// viewOfRequest returns the view that the next bytes go to, or null.
const viewOfRequest = (controller) => {
  const request = requestOf(controller);
  return request === null ? null : requestRecord(request).view;
};

return {
  ReadableByteStreamController, ReadableStreamBYOBRequest,
  setUp, setUpFromSource, controllerClose, controllerEnqueue, controllerError, controllerOf, desiredSize, pullInto, describeView, requestOf,
  respond, respondWithNewView, viewOfRequest,
};
