// WritableStream, its controller and its writer.
//
// A stream is a record {state, storedError, writer, controller, inFlightWrite, inFlightClose,
// closeRequest, pendingAbort, writeRequests, backpressure, object}. Write requests are deferred
// promises. A writer is a record {stream, ready, closed}.

const { RangeError, isObject, invalidArgument, ReflectApply } = platform;
const { expose, defineLevelInspection, illegalInvocation, illegalConstructor, refuseClones } = platform.load("webidl");
const { resolved, rejected, newDeferred, markHandled, nothing } = platform.load("promises");
const {
  invalidState, badValue, newQueue, queueLength, push, peek, shift, dequeueValue, enqueueValueWithSize, resetQueue,
  readStrategy, extractHighWaterMark, extractSizeAlgorithm, readCallback, promiseCall, uponPromise,
} = platform.load("streams_core");

const newStream = () => ({
  __proto__: null, state: "writable", storedError: undefined, writer: undefined, controller: undefined, inFlightWrite: undefined,
  inFlightClose: undefined, closeRequest: undefined, pendingAbort: undefined, writeRequests: newQueue(), backpressure: false, object: undefined,
});
const closeMark = { __proto__: null }; // the entry of the queue after the last chunk

const isLocked = (stream) => stream.writer !== undefined;
const closeQueuedOrInFlight = (stream) => stream.closeRequest !== undefined || stream.inFlightClose !== undefined;
const hasOperationInFlight = (stream) => stream.inFlightWrite !== undefined || stream.inFlightClose !== undefined;

const settledDeferred = (isRejected, reason) => {
  const deferred = newDeferred();
  if (!isRejected) {
    deferred.resolve(undefined);
  } else {
    deferred.reject(reason);
    markHandled(deferred.promise);
  }
  deferred.settled = true;
  return deferred;
};

// rejectDeferred returns a rejected deferred: the same one if it was pending.
const rejectDeferred = (deferred, reason) => {
  if (deferred.settled) return settledDeferred(true, reason);
  deferred.reject(reason);
  deferred.settled = true;
  markHandled(deferred.promise);
  return deferred;
};
const resolveDeferred = (deferred) => {
  deferred.resolve(undefined);
  deferred.settled = true;
};

// ---- the stream ---------------------------------------------------------------------

const abort = (stream, reason) => {
  if (stream.state === "closed" || stream.state === "errored") return resolved(undefined);
  stream.controller.signal.abort(reason);
  const { state } = stream;
  if (state === "closed" || state === "errored") return resolved(undefined);
  if (stream.pendingAbort !== undefined) return stream.pendingAbort.deferred.promise;
  const wasErroring = state === "erroring";
  stream.pendingAbort = { __proto__: null, deferred: newDeferred(), reason: wasErroring ? undefined : reason, wasErroring };
  const { promise } = stream.pendingAbort.deferred;
  if (!wasErroring) startErroring(stream, reason);
  return promise;
};

const close = (stream) => {
  const { state } = stream;
  if (state === "closed" || state === "errored") return rejected(invalidState(`WritableStream is ${state}`));
  stream.closeRequest = newDeferred();
  const { promise } = stream.closeRequest;
  if (stream.writer !== undefined && stream.backpressure && state === "writable") resolveDeferred(stream.writer.ready);
  enqueueValueWithSize(stream.controller, closeMark, 0);
  advanceQueue(stream.controller);
  return promise;
};

const startErroring = (stream, reason) => {
  stream.state = "erroring";
  stream.storedError = reason;
  if (stream.writer !== undefined) stream.writer.ready = rejectDeferred(stream.writer.ready, reason);
  if (!hasOperationInFlight(stream) && stream.controller.started) finishErroring(stream);
};

const dealWithRejection = (stream, error) => {
  if (stream.state === "writable") startErroring(stream, error);
  else finishErroring(stream);
};

const rejectCloseAndClosed = (stream) => {
  if (stream.closeRequest !== undefined) {
    stream.closeRequest.reject(stream.storedError);
    stream.closeRequest = undefined;
  }
  if (stream.writer !== undefined) stream.writer.closed = rejectDeferred(stream.writer.closed, stream.storedError);
};

const finishErroring = (stream) => {
  stream.state = "errored";
  errorSteps(stream.controller);
  const requests = stream.writeRequests;
  stream.writeRequests = newQueue();
  while (queueLength(requests) > 0) shift(requests).reject(stream.storedError);
  const pending = stream.pendingAbort;
  if (pending === undefined) {
    rejectCloseAndClosed(stream);
    return;
  }
  stream.pendingAbort = undefined;
  if (pending.wasErroring) {
    pending.deferred.reject(stream.storedError);
    rejectCloseAndClosed(stream);
    return;
  }
  uponPromise(abortSteps(stream.controller, pending.reason), () => {
    pending.deferred.resolve(undefined);
    rejectCloseAndClosed(stream);
  }, (error) => {
    pending.deferred.reject(error);
    rejectCloseAndClosed(stream);
  });
};

const finishInFlightWrite = (stream) => {
  stream.inFlightWrite.resolve(undefined);
  stream.inFlightWrite = undefined;
};
const finishInFlightWriteWithError = (stream, error) => {
  stream.inFlightWrite.reject(error);
  stream.inFlightWrite = undefined;
  dealWithRejection(stream, error);
};
const finishInFlightClose = (stream) => {
  stream.inFlightClose.resolve(undefined);
  stream.inFlightClose = undefined;
  if (stream.state === "erroring") {
    stream.storedError = undefined;
    if (stream.pendingAbort !== undefined) {
      stream.pendingAbort.deferred.resolve(undefined);
      stream.pendingAbort = undefined;
    }
  }
  stream.state = "closed";
  if (stream.writer !== undefined) resolveDeferred(stream.writer.closed);
};
const finishInFlightCloseWithError = (stream, error) => {
  stream.inFlightClose.reject(error);
  stream.inFlightClose = undefined;
  if (stream.pendingAbort !== undefined) {
    stream.pendingAbort.deferred.reject(error);
    stream.pendingAbort = undefined;
  }
  dealWithRejection(stream, error);
};

const updateBackpressure = (stream, backpressure) => {
  const { writer } = stream;
  if (writer !== undefined && backpressure !== stream.backpressure) {
    if (backpressure) writer.ready = newDeferred();
    else resolveDeferred(writer.ready);
  }
  stream.backpressure = backpressure;
};

// ---- the writer ---------------------------------------------------------------------

const acquire = (stream) => {
  if (isLocked(stream)) throw invalidState("WritableStream is locked");
  const writer = { __proto__: null, stream, ready: undefined, closed: undefined };
  stream.writer = writer;
  const { state } = stream;
  if (state === "writable") {
    writer.ready = !closeQueuedOrInFlight(stream) && stream.backpressure ? newDeferred() : settledDeferred(false);
    writer.closed = newDeferred();
  } else if (state === "erroring") {
    writer.ready = settledDeferred(true, stream.storedError);
    writer.closed = newDeferred();
  } else if (state === "closed") {
    writer.ready = settledDeferred(false);
    writer.closed = settledDeferred(false);
  } else {
    writer.ready = settledDeferred(true, stream.storedError);
    writer.closed = settledDeferred(true, stream.storedError);
  }
  return writer;
};

const release = (writer) => {
  const error = invalidState("Writer has been released");
  writer.ready = rejectDeferred(writer.ready, error);
  writer.closed = rejectDeferred(writer.closed, error);
  writer.stream.writer = undefined;
  writer.stream = undefined;
};

const writerDesiredSize = ({ stream }) => {
  if (stream.state === "errored" || stream.state === "erroring") return null;
  return stream.state === "closed" ? 0 : desiredSize(stream.controller);
};

const write = (writer, chunk) => {
  const { stream } = writer;
  const { controller } = stream;
  let size = 1;
  if (controller.size !== undefined) {
    try {
      size = controller.size(chunk);
    } catch (error) {
      errorIfNeeded(controller, error);
    }
  }
  if (stream !== writer.stream) return rejected(invalidState("Writer is not bound to a WritableStream"));
  const { state } = stream;
  if (state === "errored") return rejected(stream.storedError);
  if (closeQueuedOrInFlight(stream) || state === "closed") return rejected(invalidState("WritableStream is closed"));
  if (state === "erroring") return rejected(stream.storedError);
  const request = newDeferred();
  push(stream.writeRequests, request);
  try {
    enqueueValueWithSize(controller, { __proto__: null, chunk }, size);
  } catch (error) {
    errorIfNeeded(controller, error);
    return request.promise;
  }
  if (!closeQueuedOrInFlight(stream) && stream.state === "writable") updateBackpressure(stream, hasBackpressure(controller));
  advanceQueue(controller);
  return request.promise;
};

const closeWithErrorPropagation = (writer) => {
  const { stream } = writer;
  if (closeQueuedOrInFlight(stream) || stream.state === "closed") return resolved(undefined);
  if (stream.state === "errored") return rejected(stream.storedError);
  return close(stream);
};

// ---- the controller -----------------------------------------------------------------

const desiredSize = (controller) => controller.highWaterMark - controller.queueTotalSize;
const hasBackpressure = (controller) => desiredSize(controller) <= 0;
const clearAlgorithms = (controller) => { controller.write = controller.close = controller.abort = controller.size = undefined; };

const abortSteps = (controller, reason) => {
  const result = controller.abort(reason);
  clearAlgorithms(controller);
  return result;
};
const errorSteps = (controller) => resetQueue(controller);

const controllerError = (controller, error) => {
  clearAlgorithms(controller);
  startErroring(controller.stream, error);
};
const errorIfNeeded = (controller, error) => {
  if (controller.stream.state === "writable") controllerError(controller, error);
};

const processClose = (controller) => {
  const { stream } = controller;
  stream.inFlightClose = stream.closeRequest;
  stream.closeRequest = undefined;
  dequeueValue(controller);
  const done = controller.close();
  clearAlgorithms(controller);
  uponPromise(done, () => finishInFlightClose(stream), (error) => finishInFlightCloseWithError(stream, error));
};

const processWrite = (controller, chunk) => {
  const { stream } = controller;
  stream.inFlightWrite = shift(stream.writeRequests);
  uponPromise(controller.write(chunk, controller.object), () => {
    finishInFlightWrite(stream);
    const { state } = stream;
    dequeueValue(controller);
    if (!closeQueuedOrInFlight(stream) && state === "writable") updateBackpressure(stream, hasBackpressure(controller));
    advanceQueue(controller);
  }, (error) => {
    if (stream.state === "writable") clearAlgorithms(controller);
    finishInFlightWriteWithError(stream, error);
  });
};

const advanceQueue = (controller) => {
  const { stream } = controller;
  if (!controller.started || stream.inFlightWrite !== undefined) return;
  if (stream.state === "erroring") {
    finishErroring(stream);
    return;
  }
  if (stream.state !== "writable" && stream.state !== "erroring") return;
  if (queueLength(controller.queue) === 0) return;
  const { value } = peek(controller.queue);
  if (value === closeMark) processClose(controller);
  else processWrite(controller, value.chunk);
};

// setUp gives a stream a controller and starts it. start receives the object of the controller
// and returns a value; the other algorithms return promises.
const setUp = (stream, start, writeChunk, closeSink, abortSink, highWaterMark, size) => {
  const signal = platform.load("streams_signal").newSignal();
  const controller = {
    __proto__: null, stream, queue: newQueue(), queueTotalSize: 0, started: false, highWaterMark, size, write: writeChunk, close: closeSink,
    abort: abortSink, signal, object: undefined,
  };
  controller.object = new WritableStreamDefaultController(secret, controller);
  stream.controller = controller;
  updateBackpressure(stream, hasBackpressure(controller));
  uponPromise(resolved(start(controller.object)), () => {
    controller.started = true;
    advanceQueue(controller);
  }, (error) => {
    controller.started = true;
    dealWithRejection(stream, error);
  });
};

const secret = { __proto__: null };
let controllerOf;

class WritableStreamDefaultController {
  #record;
  static {
    controllerOf = (object) => {
      if (!isObject(object) || !(#record in object)) throw illegalInvocation("WritableStreamDefaultController");
      return object.#record;
    };
  }
  constructor() {
    if (arguments[0] !== secret) throw illegalConstructor();
    this.#record = arguments[1];
  }
  get signal() { return controllerOf(this).signal.object(); }
  error(error = undefined) { errorIfNeeded(controllerOf(this), error); }
}
expose(WritableStreamDefaultController, "WritableStreamDefaultController");
defineLevelInspection(WritableStreamDefaultController, "WritableStreamDefaultController", (object) => ({ stream: objectOf(controllerOf(object).stream) }));

// ---- WritableStream -----------------------------------------------------------------

const startSink = (stream, sink, strategy) => {
  const given = sink === undefined ? null : sink;
  if (given !== null && !isObject(given)) throw invalidArgument("sink", "of type object", sink);
  const callbacks = { __proto__: null };
  if (given !== null) {
    callbacks.abort = readCallback(given, "abort", "sink");
    callbacks.close = readCallback(given, "close", "sink");
    callbacks.start = readCallback(given, "start", "sink");
    if (given.type !== undefined) throw badValue(RangeError, "argument 'type'", given.type);
    callbacks.write = readCallback(given, "write", "sink");
  }
  const size = strategy.size === undefined ? undefined : extractSizeAlgorithm(strategy);
  const highWaterMark = extractHighWaterMark(strategy, 1);
  setUp(stream, callbacks.start === undefined ? nothing : (object) => ReflectApply(callbacks.start, given, [object]),
    promiseCall(callbacks.write, given), promiseCall(callbacks.close, given), promiseCall(callbacks.abort, given), highWaterMark, size);
};

let recordOf;
let objectOf;
let isStream;

class WritableStream {
  #record;
  static {
    isStream = (value) => isObject(value) && #record in value;
    recordOf = (object) => {
      if (!isStream(object)) throw illegalInvocation("WritableStream");
      return object.#record;
    };
    objectOf = (record) => {
      if (record.object === undefined) record.object = new WritableStream(secret, record);
      return record.object;
    };
  }
  constructor(underlyingSink = undefined, strategy = undefined) {
    if (underlyingSink === secret) {
      this.#record = strategy;
      return;
    }
    const queuing = readStrategy(strategy);
    this.#record = newStream();
    this.#record.object = this;
    startSink(this.#record, underlyingSink, queuing);
  }
  get locked() { return isLocked(recordOf(this)); }
  abort(reason = undefined) {
    if (!isStream(this)) return rejected(illegalInvocation("WritableStream"));
    if (isLocked(this.#record)) return rejected(invalidState("WritableStream is locked"));
    return abort(this.#record, reason);
  }
  close() {
    if (!isStream(this)) return rejected(illegalInvocation("WritableStream"));
    if (isLocked(this.#record)) return rejected(invalidState("WritableStream is locked"));
    if (closeQueuedOrInFlight(this.#record)) return rejected(invalidState("Failure closing WritableStream"));
    return close(this.#record);
  }
  getWriter() { return new WritableStreamDefaultWriter(objectOf(recordOf(this))); }
}
expose(WritableStream, "WritableStream");
refuseClones(isStream);
defineLevelInspection(WritableStream, "WritableStream", (object) => ({ locked: isLocked(recordOf(object)), state: recordOf(object).state }));

let writerOf;
let isWriter;
const notBound = () => invalidState("Writer is not bound to a WritableStream");

class WritableStreamDefaultWriter {
  #record;
  static {
    isWriter = (value) => isObject(value) && #record in value;
    writerOf = (object) => {
      if (!isWriter(object)) throw illegalInvocation("WritableStreamDefaultWriter");
      return object.#record;
    };
  }
  constructor(stream) {
    if (!isStream(stream)) throw invalidArgument("stream", "an instance of WritableStream", stream, WritableStreamDefaultWriter);
    this.#record = acquire(recordOf(stream));
  }
  get closed() {
    if (!isWriter(this)) return rejected(illegalInvocation("WritableStreamDefaultWriter"));
    return this.#record.closed.promise;
  }
  get desiredSize() {
    const writer = writerOf(this);
    if (writer.stream === undefined) throw notBound();
    return writerDesiredSize(writer);
  }
  get ready() {
    if (!isWriter(this)) return rejected(illegalInvocation("WritableStreamDefaultWriter"));
    return this.#record.ready.promise;
  }
  abort(reason = undefined) {
    if (!isWriter(this)) return rejected(illegalInvocation("WritableStreamDefaultWriter"));
    if (this.#record.stream === undefined) return rejected(notBound());
    return abort(this.#record.stream, reason);
  }
  close() {
    if (!isWriter(this)) return rejected(illegalInvocation("WritableStreamDefaultWriter"));
    const { stream } = this.#record;
    if (stream === undefined) return rejected(notBound());
    if (closeQueuedOrInFlight(stream)) return rejected(invalidState("Failure to close WritableStream"));
    return close(stream);
  }
  releaseLock() {
    const writer = writerOf(this);
    if (writer.stream !== undefined) release(writer);
  }
  write(chunk = undefined) {
    if (!isWriter(this)) return rejected(illegalInvocation("WritableStreamDefaultWriter"));
    if (this.#record.stream === undefined) return rejected(notBound());
    return write(this.#record, chunk);
  }
}
expose(WritableStreamDefaultWriter, "WritableStreamDefaultWriter");
defineLevelInspection(WritableStreamDefaultWriter, "WritableStreamDefaultWriter", (object) => {
  const writer = writerOf(object);
  const bound = writer.stream !== undefined;
  return {
    stream: bound ? objectOf(writer.stream) : undefined, close: writer.closed.promise, ready: writer.ready.promise,
    desiredSize: bound ? writerDesiredSize(writer) : undefined,
  };
});

return {
  WritableStream, WritableStreamDefaultController, WritableStreamDefaultWriter,
  newStream, setUp, isStream, recordOf, objectOf, isLocked, acquire, release, write, abort, close, closeQueuedOrInFlight, closeWithErrorPropagation,
  writerDesiredSize, errorIfNeeded, startErroring,
};
