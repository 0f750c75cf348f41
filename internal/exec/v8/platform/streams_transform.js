// TransformStream.
//
// A transform stream is a record {readable, writable, backpressure, change, controller, object}:
// change is a deferred promise that is fulfilled when backpressure changes. Its controller is
// {stream, transform, flush, cancel, finish, object}: finish is set when it begins to end.

const { RangeError, isObject, invalidArgument, ReflectApply } = platform;
const { expose, defineLevelInspection, illegalInvocation, illegalConstructor, refuseClones } = platform.load("webidl");
const { resolved, rejected, newDeferred, markHandled, then } = platform.load("promises");
const {
  invalidState, badValue, readStrategy, extractHighWaterMark, extractSizeAlgorithm, readCallback, promiseCall, uponPromise,
} = platform.load("streams_core");
const { newStream } = platform.load("streams_state");
const defaults = platform.load("streams_default");
const writables = platform.load("streams_writable");
const { internal: readables } = platform.load("streams");

const setBackpressure = (stream, backpressure) => {
  if (stream.change !== undefined) stream.change.resolve(undefined);
  stream.change = newDeferred();
  stream.backpressure = backpressure;
};

const unblockWrite = (stream) => { if (stream.backpressure) setBackpressure(stream, false); };

const clearAlgorithms = (controller) => { controller.transform = controller.flush = controller.cancel = undefined; };

const errorWritable = (stream, error) => {
  clearAlgorithms(stream.controller);
  writables.errorIfNeeded(stream.writable.controller, error);
  unblockWrite(stream);
};

const errorStream = (stream, error) => {
  defaults.controllerError(stream.readable.controller, error);
  errorWritable(stream, error);
};

const enqueue = (controller, chunk) => {
  const { stream } = controller;
  const readable = stream.readable.controller;
  if (!defaults.canCloseOrEnqueue(readable)) throw invalidState("Unable to enqueue");
  try {
    defaults.controllerEnqueue(readable, chunk);
  } catch (error) {
    errorWritable(stream, error);
    throw stream.readable.storedError;
  }
  if (defaults.hasBackpressure(readable) !== stream.backpressure) setBackpressure(stream, true);
};

const terminate = (controller) => {
  const { stream } = controller;
  defaults.controllerClose(stream.readable.controller);
  errorWritable(stream, invalidState("TransformStream has been terminated"));
};

const performTransform = (controller, chunk) => then(controller.transform(chunk, controller.object), undefined, (error) => {
  errorStream(controller.stream, error);
  throw error;
});

// ---- the algorithms of both sides ---------------------------------------------------

const sinkWrite = (stream, chunk) => {
  if (!stream.backpressure) return performTransform(stream.controller, chunk);
  return then(stream.change.promise, () => {
    if (stream.writable.state === "erroring") throw stream.writable.storedError;
    return performTransform(stream.controller, chunk);
  });
};

// end runs the last algorithm of a transformer once, and then the steps for its result.
const end = (controller, run, onFulfilled, onRejected) => {
  if (controller.finish !== undefined) return controller.finish.promise;
  const done = newDeferred();
  controller.finish = done;
  const result = run();
  clearAlgorithms(controller);
  uponPromise(result, () => onFulfilled(done), (error) => {
    onRejected(error);
    done.reject(error);
  });
  return done.promise;
};

const sinkAbort = (stream, reason) => {
  const { controller, readable } = stream;
  return end(controller, () => controller.cancel(reason), (done) => {
    if (readable.state === "errored") {
      done.reject(readable.storedError);
      return;
    }
    defaults.controllerError(readable.controller, reason);
    done.resolve(undefined);
  }, (error) => defaults.controllerError(readable.controller, error));
};

const sinkClose = (stream) => {
  const { controller, readable } = stream;
  return end(controller, () => controller.flush(controller.object), (done) => {
    if (readable.state === "errored") {
      done.reject(readable.storedError);
      return;
    }
    defaults.controllerClose(readable.controller);
    done.resolve(undefined);
  }, (error) => defaults.controllerError(readable.controller, error));
};

const sourceCancel = (stream, reason) => {
  const { controller, writable } = stream;
  return end(controller, () => controller.cancel(reason), (done) => {
    if (writable.state === "errored") {
      done.reject(writable.storedError);
      return;
    }
    writables.errorIfNeeded(writable.controller, reason);
    unblockWrite(stream);
    done.resolve(undefined);
  }, (error) => {
    writables.errorIfNeeded(writable.controller, error);
    unblockWrite(stream);
  });
};

const sourcePull = (stream) => {
  setBackpressure(stream, false);
  return stream.change.promise;
};

// create makes a transform stream whose sides start when a promise is fulfilled.
const create = (start, algorithms, writableMark, writableSize, readableMark, readableSize) => {
  const stream = {
    __proto__: null, readable: newStream(), writable: writables.newStream(), backpressure: undefined, change: undefined, controller: undefined,
  };
  const controller = {
    __proto__: null, stream, transform: algorithms.transform, flush: algorithms.flush, cancel: algorithms.cancel, finish: undefined, object: undefined,
  };
  controller.object = new TransformStreamDefaultController(secret, controller);
  stream.controller = controller;
  writables.setUp(stream.writable, () => start, (chunk) => sinkWrite(stream, chunk), () => sinkClose(stream), (reason) => sinkAbort(stream, reason),
    writableMark, writableSize);
  defaults.setUp(stream.readable, () => start, () => sourcePull(stream), (reason) => sourceCancel(stream, reason), readableMark, readableSize);
  setBackpressure(stream, true);
  return stream;
};

// createInternal makes a transform stream of a part: transform(chunk, enqueue) and flush(enqueue)
// are functions that may throw, or undefined.
const createInternal = (transform, flush) => {
  let stream;
  const put = (chunk) => enqueue(stream.controller, chunk);
  const attempt = (run) => {
    try {
      run();
      return resolved(undefined);
    } catch (error) {
      return rejected(error);
    }
  };
  stream = create(resolved(undefined), {
    __proto__: null,
    transform: (chunk) => attempt(() => transform(chunk, put)),
    flush: () => attempt(() => { if (flush !== undefined) flush(put); }),
    cancel: () => resolved(undefined),
  }, 1, undefined, 0, () => 1);
  return stream;
};

// newPipe returns a stream that gets the chunks of another one.
const newPipe = (object) => {
  const stream = createInternal((chunk, put) => put(chunk), undefined);
  const source = readables.recordOf(object);
  markHandled(platform.load("streams_pipe").pipe(source, stream.writable, false, false, false, undefined));
  return readables.objectOf(stream.readable);
};

// ---- the classes --------------------------------------------------------------------

const secret = { __proto__: null };
let controllerOf;

class TransformStreamDefaultController {
  #record;
  static {
    controllerOf = (object) => {
      if (!isObject(object) || !(#record in object)) throw illegalInvocation("TransformStreamDefaultController");
      return object.#record;
    };
  }
  constructor() {
    if (arguments[0] !== secret) throw illegalConstructor();
    this.#record = arguments[1];
  }
  get desiredSize() { return defaults.desiredSize(controllerOf(this).stream.readable.controller); }
  enqueue(chunk = undefined) { enqueue(controllerOf(this), chunk); }
  error(reason = undefined) { errorStream(controllerOf(this).stream, reason); }
  terminate() { terminate(controllerOf(this)); }
}
expose(TransformStreamDefaultController, "TransformStreamDefaultController");
defineLevelInspection(TransformStreamDefaultController, "TransformStreamDefaultController", () => ({}));

const readTransformer = (transformer) => {
  const given = transformer === undefined ? null : transformer;
  if (given !== null && !isObject(given)) throw invalidArgument("transformer", "of type object", transformer);
  const callbacks = { __proto__: null };
  if (given === null) return callbacks;
  callbacks.cancel = readCallback(given, "cancel", "transformer");
  callbacks.flush = readCallback(given, "flush", "transformer");
  if (given.readableType !== undefined) throw badValue(RangeError, "property 'transformer.readableType'", given.readableType);
  callbacks.start = readCallback(given, "start", "transformer");
  callbacks.transform = readCallback(given, "transform", "transformer");
  if (given.writableType !== undefined) throw badValue(RangeError, "property 'transformer.writableType'", given.writableType);
  return callbacks;
};

let recordOf;

class TransformStream {
  #record;
  static {
    const isOwn = (value) => isObject(value) && #record in value;
    refuseClones(isOwn);
    recordOf = (object) => {
      if (!isOwn(object)) throw illegalInvocation("TransformStream");
      return object.#record;
    };
  }
  constructor(transformer = undefined, writableStrategy = undefined, readableStrategy = undefined) {
    const forWritable = readStrategy(writableStrategy);
    const forReadable = readStrategy(readableStrategy);
    const callbacks = readTransformer(transformer);
    const readableMark = extractHighWaterMark(forReadable, 0);
    const readableSize = extractSizeAlgorithm(forReadable);
    const writableMark = extractHighWaterMark(forWritable, 1);
    const writableSize = extractSizeAlgorithm(forWritable);
    const start = newDeferred();
    const identity = (chunk) => {
      try {
        enqueue(this.#record.controller, chunk);
        return resolved(undefined);
      } catch (error) {
        return rejected(error);
      }
    };
    this.#record = create(start.promise, {
      __proto__: null,
      transform: callbacks.transform === undefined ? identity : promiseCall(callbacks.transform, transformer),
      flush: promiseCall(callbacks.flush, transformer),
      cancel: promiseCall(callbacks.cancel, transformer),
    }, writableMark, writableSize, readableMark, readableSize);
    start.resolve(callbacks.start === undefined ? undefined : ReflectApply(callbacks.start, transformer, [this.#record.controller.object]));
  }
  get readable() { return readables.objectOf(recordOf(this).readable); }
  get writable() { return writables.objectOf(recordOf(this).writable); }
}
expose(TransformStream, "TransformStream");
defineLevelInspection(TransformStream, "TransformStream", (object) => {
  const record = recordOf(object);
  return { readable: readables.objectOf(record.readable), writable: writables.objectOf(record.writable), backpressure: record.backpressure };
});

const sidesOf = (stream) => ({
  __proto__: null,
  readable: () => readables.objectOf(stream.readable),
  writable: () => writables.objectOf(stream.writable),
});

return { TransformStream, TransformStreamDefaultController, createInternal, newPipe, sidesOf };
