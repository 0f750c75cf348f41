// ReadableStreamDefaultController and ReadableStreamDefaultReader.

const { isObject, invalidArgument } = platform;
const { expose, defineLevelInspection, illegalInvocation, illegalConstructor } = platform.load("webidl");
const { resolved, rejected, newDeferred, nothing } = platform.load("promises");
const {
  invalidState, newQueue, queueLength, dequeueValue, enqueueValueWithSize, resetQueue, extractSizeAlgorithm,
  promiseCall, uponPromise,
} = platform.load("streams_core");
const {
  newRequest, close, fail, cancel, addRequest, requestCount, hasDefaultReader, fulfillRequest, acquire, release, read, notAttached,
} = platform.load("streams_state");

// ---- the controller -----------------------------------------------------------------

const clearAlgorithms = (controller) => {
  controller.pull = controller.cancel = controller.size = undefined;
};

const desiredSize = (controller) => {
  const { state } = controller.stream;
  if (state === "errored") return null;
  return state === "closed" ? 0 : controller.highWaterMark - controller.queueTotalSize;
};

const canCloseOrEnqueue = (controller) => !controller.closeRequested && controller.stream.state === "readable";

const shouldPull = (controller) => {
  if (!canCloseOrEnqueue(controller) || !controller.started) return false;
  if (hasDefaultReader(controller.stream) && requestCount(controller.stream) > 0) return true;
  return desiredSize(controller) > 0;
};

const controllerError = (controller, error) => {
  if (controller.stream.state !== "readable") return;
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

const controllerClose = (controller) => {
  if (!canCloseOrEnqueue(controller)) return;
  controller.closeRequested = true;
  if (queueLength(controller.queue) > 0) return;
  clearAlgorithms(controller);
  close(controller.stream);
};

const controllerEnqueue = (controller, chunk) => {
  if (!canCloseOrEnqueue(controller)) return;
  const { stream } = controller;
  if (hasDefaultReader(stream) && requestCount(stream) > 0) {
    fulfillRequest(stream, chunk, false);
  } else {
    try {
      enqueueValueWithSize(controller, chunk, controller.size(chunk));
    } catch (error) {
      controllerError(controller, error);
      throw error;
    }
  }
  callPullIfNeeded(controller);
};

const pullSteps = (controller, request) => {
  const { stream } = controller;
  if (queueLength(controller.queue) === 0) {
    addRequest(stream, request);
    callPullIfNeeded(controller);
    return;
  }
  const chunk = dequeueValue(controller);
  if (controller.closeRequested && queueLength(controller.queue) === 0) {
    clearAlgorithms(controller);
    close(stream);
  } else {
    callPullIfNeeded(controller);
  }
  request.chunk(chunk);
};

const cancelSteps = (controller, reason) => {
  resetQueue(controller);
  const result = controller.cancel(reason);
  clearAlgorithms(controller);
  return result;
};

// setUp gives a stream a controller and starts it. start, pull and cancel are algorithms: pull and
// cancel return promises; start receives the object of the controller and returns a value.
const setUp = (stream, start, pull, cancelSource, highWaterMark, size) => {
  const controller = {
    __proto__: null, stream, queue: newQueue(), queueTotalSize: 0, started: false, closeRequested: false, pullAgain: false,
    pulling: false, size, highWaterMark, pull, cancel: cancelSource, object: undefined, pullSteps, cancelSteps, releaseSteps: nothing,
  };
  controller.object = new ReadableStreamDefaultController(secret, controller);
  stream.controller = controller;
  uponPromise(resolved(start(controller.object)), () => {
    controller.started = true;
    callPullIfNeeded(controller);
  }, (error) => controllerError(controller, error));
  return controller;
};

// setUpFromSource does so for an underlying source of a script.
const setUpFromSource = (stream, source, callbacks, highWaterMark, strategy) => {
  const { start, pull, cancel: cancelSource } = callbacks;
  setUp(stream, start === undefined ? nothing : (object) => platform.ReflectApply(start, source, [object]),
    promiseCall(pull, source), promiseCall(cancelSource, source), highWaterMark, extractSizeAlgorithm(strategy));
};

const secret = { __proto__: null };
let controllerOf;

class ReadableStreamDefaultController {
  #record;
  static {
    controllerOf = (object) => {
      if (!isObject(object) || !(#record in object)) throw illegalInvocation("ReadableStreamDefaultController");
      return object.#record;
    };
  }
  constructor() {
    if (arguments[0] !== secret) throw illegalConstructor();
    this.#record = arguments[1];
  }
  get desiredSize() { return desiredSize(controllerOf(this)); }
  close() {
    const controller = controllerOf(this);
    if (!canCloseOrEnqueue(controller)) throw invalidState("Controller is already closed");
    controllerClose(controller);
  }
  enqueue(chunk = undefined) {
    const controller = controllerOf(this);
    if (!canCloseOrEnqueue(controller)) throw invalidState("Controller is already closed");
    controllerEnqueue(controller, chunk);
  }
  error(error = undefined) { controllerError(controllerOf(this), error); }
}
expose(ReadableStreamDefaultController, "ReadableStreamDefaultController");
defineLevelInspection(ReadableStreamDefaultController, "ReadableStreamDefaultController", () => ({}));

// ---- the reader ---------------------------------------------------------------------

// readPromise returns a promise of {value, done}.
const readPromise = (reader) => {
  const deferred = newDeferred();
  read(reader, newRequest(
    (value) => deferred.resolve({ value, done: false }),
    () => deferred.resolve({ value: undefined, done: true }),
    (error) => deferred.reject(error),
  ));
  return deferred.promise;
};

let readerOf;
let isReader;
// streams.js sets this function: it returns the record of a ReadableStream, or undefined.
const links = { __proto__: null, streamRecord: undefined };

class ReadableStreamDefaultReader {
  #record;
  static {
    isReader = (value) => isObject(value) && #record in value;
    readerOf = (object) => {
      if (!isReader(object)) throw illegalInvocation("ReadableStreamDefaultReader");
      return object.#record;
    };
  }
  constructor(stream) {
    const record = links.streamRecord(stream);
    if (record === undefined) throw invalidArgument("stream", "an instance of ReadableStream", stream, ReadableStreamDefaultReader);
    this.#record = acquire(record, false);
  }
  get closed() {
    if (!isReader(this)) return rejected(illegalInvocation("ReadableStreamDefaultReader"));
    return this.#record.closed.promise;
  }
  cancel(reason = undefined) {
    if (!isReader(this)) return rejected(illegalInvocation("ReadableStreamDefaultReader"));
    if (this.#record.stream === undefined) return rejected(notAttached());
    return cancel(this.#record.stream, reason);
  }
  read() {
    if (!isReader(this)) return rejected(illegalInvocation("ReadableStreamDefaultReader"));
    if (this.#record.stream === undefined) return rejected(notAttached());
    return readPromise(this.#record);
  }
  releaseLock() {
    const reader = readerOf(this);
    if (reader.stream !== undefined) release(reader);
  }
}
expose(ReadableStreamDefaultReader, "ReadableStreamDefaultReader");
defineLevelInspection(ReadableStreamDefaultReader, "ReadableStreamDefaultReader", (object) => {
  const reader = readerOf(object);
  return {
    stream: reader.stream === undefined ? undefined : links.streamObject(reader.stream),
    readRequests: queueLength(reader.requests), close: reader.closed.promise,
  };
});

return {
  ReadableStreamDefaultController, ReadableStreamDefaultReader, links,
  setUp, setUpFromSource, controllerClose, controllerEnqueue, controllerError, canCloseOrEnqueue, desiredSize, controllerOf,
  hasBackpressure: (controller) => !shouldPull(controller), readPromise,
};
