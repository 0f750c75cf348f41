// ReadableStream. The parts of streams that it needs are streams_*.js; streams_core.js says how
// they represent their objects.

const {
  TypeError, RangeError, isObject, invalidArgument, codedError, ReflectApply, ObjectCreate, ObjectSetPrototypeOf, SymbolIterator, newList,
  bytesOf,
} = platform;
const { expose, define, defineLevelInspection, illegalInvocation, refuseClones } = platform.load("webidl");
const { resolved, rejected, then, newDeferred, markHandled, nothing } = platform.load("promises");
const { invalidState, badValue, readStrategy, extractHighWaterMark, readCallback } = platform.load("streams_core");
const state = platform.load("streams_state");
const defaults = platform.load("streams_default");
const bytes = platform.load("streams_byte");
const byob = platform.load("streams_byob");
const writables = platform.load("streams_writable");
const { internal: blobs } = platform.load("blob");
const SymbolAsyncIterator = platform.original("globalThis", "Symbol").asyncIterator; // a constant
const AsyncIteratorPrototype = platform.ObjectGetPrototypeOf(platform.ObjectGetPrototypeOf((async function* () {}).prototype));

const secret = { __proto__: null };
let recordOf;
let objectOf;
let isReadableStream;

const startSource = (stream, source, strategy) => {
  const given = source === undefined ? null : source;
  if (given !== null && !isObject(given)) throw invalidArgument("source", "of type object", source);
  const callbacks = { __proto__: null };
  let type;
  if (given !== null) {
    const size = given.autoAllocateChunkSize;
    if (size !== undefined) callbacks.autoAllocateChunkSize = platform.load("streams_views").toLength(size);
    callbacks.cancel = readCallback(given, "cancel", "source");
    callbacks.pull = readCallback(given, "pull", "source");
    callbacks.start = readCallback(given, "start", "source");
    type = given.type;
    if (type !== undefined) type = `${type}`;
  }
  if (type === "bytes") {
    if (strategy.size !== undefined) throw badValue(RangeError, "property 'strategy.size'", strategy.size);
    bytes.setUpFromSource(stream, given, callbacks, extractHighWaterMark(strategy, 0));
  } else if (type === undefined) {
    const mark = extractHighWaterMark(strategy, 1);
    defaults.setUpFromSource(stream, given, callbacks, mark, strategy);
  } else {
    throw badValue(TypeError, "property 'source.type'", type);
  }
};

// readOptions returns a member of options that is a dictionary.
const readOptions = (options) => {
  if (options === undefined || options === null) return undefined;
  if (!isObject(options)) throw invalidArgument("options", "of type object", options);
  return options;
};

// readPipeOptions reads StreamPipeOptions in the order of Web IDL.
const readPipeOptions = (value) => {
  const options = readOptions(value);
  const read = { __proto__: null, preventAbort: false, preventCancel: false, preventClose: false, signal: undefined };
  if (options === undefined) return read;
  read.preventAbort = options.preventAbort ? true : false;
  read.preventCancel = options.preventCancel ? true : false;
  read.preventClose = options.preventClose ? true : false;
  const { signal } = options;
  if (signal !== undefined) {
    read.signal = platform.load("abort").signalOf(signal);
    if (read.signal === undefined) throw invalidArgument("options.signal", "an instance of AbortSignal", signal);
  }
  return read;
};

const startPipe = (stream, dest, options) =>
  platform.load("streams_pipe").pipe(stream, dest, options.preventClose, options.preventAbort, options.preventCancel, options.signal);

const teeObjects = (stream) => {
  const branches = platform.load("streams_tee").tee(stream);
  return [objectOf(branches[0]), objectOf(branches[1])];
};

class ReadableStream {
  #record;
  static {
    isReadableStream = (value) => isObject(value) && #record in value;
    recordOf = (object) => {
      if (!isReadableStream(object)) throw illegalInvocation("ReadableStream");
      return object.#record;
    };
    objectOf = (record) => {
      if (record.object === undefined) record.object = new ReadableStream(secret, record);
      return record.object;
    };
  }

  static from(asyncIterable) {
    return objectOf(fromIterable(asyncIterable));
  }

  constructor(underlyingSource = undefined, strategy = undefined) {
    if (underlyingSource === secret) {
      this.#record = strategy;
      return;
    }
    const queuing = readStrategy(strategy);
    this.#record = state.newStream();
    this.#record.object = this;
    startSource(this.#record, underlyingSource, queuing);
  }

  get locked() { return state.isLocked(recordOf(this)); }

  cancel(reason = undefined) {
    if (!isReadableStream(this)) return rejected(illegalInvocation("ReadableStream"));
    if (state.isLocked(this.#record)) return rejected(invalidState("ReadableStream is locked"));
    return state.cancel(this.#record, reason);
  }

  getReader(options = undefined) {
    const stream = recordOf(this);
    const given = readOptions(options);
    const mode = given === undefined ? undefined : given.mode;
    if (mode === undefined) return new defaults.ReadableStreamDefaultReader(objectOf(stream));
    if (`${mode}` !== "byob") throw badValue(TypeError, "property 'options.mode'", mode);
    return new byob.ReadableStreamBYOBReader(objectOf(stream));
  }

  pipeThrough(transform, options = undefined) {
    const stream = recordOf(this);
    if (!isObject(transform)) throw invalidArgument("transform", "of type object", transform);
    const { readable } = transform;
    if (!isReadableStream(readable)) throw invalidArgument("transform.readable", "an instance of ReadableStream", readable);
    const { writable } = transform;
    if (!writables.isStream(writable)) throw invalidArgument("transform.writable", "an instance of WritableStream", writable);
    const read = readPipeOptions(options);
    if (state.isLocked(stream)) throw invalidState("The ReadableStream is locked");
    const dest = writables.recordOf(writable);
    if (writables.isLocked(dest)) throw invalidState("The WritableStream is locked");
    markHandled(startPipe(stream, dest, read));
    return readable;
  }

  pipeTo(destination, options = undefined) {
    try {
      const stream = recordOf(this);
      if (!writables.isStream(destination)) throw invalidArgument("destination", "an instance of WritableStream", destination);
      const read = readPipeOptions(options);
      if (state.isLocked(stream)) throw invalidState("The ReadableStream is locked");
      const dest = writables.recordOf(destination);
      if (writables.isLocked(dest)) throw invalidState("The WritableStream is locked");
      return startPipe(stream, dest, read);
    } catch (error) {
      return rejected(error);
    }
  }

  tee() {
    const stream = recordOf(this);
    if (state.isLocked(stream)) throw invalidState("The ReadableStream is locked");
    return teeObjects(stream);
  }

  values(options = undefined) {
    const stream = recordOf(this);
    const given = readOptions(options);
    const preventCancel = given !== undefined && given.preventCancel ? true : false;
    return newIterator(stream, preventCancel);
  }
}
expose(ReadableStream, "ReadableStream");
refuseClones(isReadableStream);
define(ReadableStream.prototype, SymbolAsyncIterator, ReadableStream.prototype.values, false);
defineLevelInspection(ReadableStream, "ReadableStream", (object) => {
  const stream = recordOf(object);
  return { locked: state.isLocked(stream), state: stream.state, supportsBYOB: stream.controller.isByte === true };
});
defaults.links.streamRecord = (value) => (isReadableStream(value) ? recordOf(value) : undefined);
defaults.links.streamObject = objectOf;

// ---- asynchronous iteration ---------------------------------------------------------

let iteratorOf;

class ReadableStreamAsyncIterator {
  #record;
  constructor(record) { this.#record = record; }
  static {
    iteratorOf = (value) => (isObject(value) && #record in value ? value.#record : undefined);
  }
}

const newIterator = (stream, preventCancel) => {
  const record = { __proto__: null, reader: state.acquire(stream, false), preventCancel, finished: false, ongoing: undefined };
  const iterator = new ReadableStreamAsyncIterator(record);
  ObjectSetPrototypeOf(iterator, asyncIteratorPrototype);
  return iterator;
};

const nextStep = (record) => {
  if (record.finished) return resolved({ value: undefined, done: true });
  const deferred = newDeferred();
  state.read(record.reader, state.newRequest(
    (value) => deferred.resolve({ value, done: false }),
    () => {
      record.finished = true;
      state.release(record.reader);
      deferred.resolve({ value: undefined, done: true });
    },
    (error) => {
      record.finished = true;
      state.release(record.reader);
      deferred.reject(error);
    },
  ));
  return deferred.promise;
};

const returnStep = (record, value) => {
  if (record.finished) return resolved({ value, done: true });
  record.finished = true;
  if (record.preventCancel) {
    state.release(record.reader);
    return resolved({ value, done: true });
  }
  const done = state.cancel(record.reader.stream, value);
  state.release(record.reader);
  return then(done, () => ({ value, done: true }));
};

// afterOngoing runs a step after those that an iterator has started.
const afterOngoing = (record, step) => {
  record.ongoing = record.ongoing === undefined ? step() : then(record.ongoing, step, step);
  return record.ongoing;
};

const asyncIteratorPrototype = ObjectCreate(AsyncIteratorPrototype);
const iteratorMethods = {
  next() {
    const record = iteratorOf(this);
    if (record === undefined) return rejected(illegalInvocation("ReadableStreamAsyncIterator"));
    return afterOngoing(record, () => nextStep(record));
  },
  return(value = undefined) {
    const record = iteratorOf(this);
    if (record === undefined) return rejected(illegalInvocation("ReadableStreamAsyncIterator"));
    return afterOngoing(record, () => returnStep(record, value));
  },
};
define(asyncIteratorPrototype, "next", iteratorMethods.next, true);
define(asyncIteratorPrototype, "return", platform.setMeta(iteratorMethods.return, "return", 1), true);

// ---- from ---------------------------------------------------------------------------

const notIterable = (value) => codedError(TypeError, "ERR_ARG_NOT_ITERABLE", `${typeof value === "symbol" || isObject(value) ? "The value" : value} must be iterable`);

// openIterator returns {iterator, next, isAsync} of an iterable.
const openIterator = (iterable) => {
  if (iterable === undefined || iterable === null) throw notIterable(iterable);
  let method = iterable[SymbolAsyncIterator];
  const isAsync = method !== undefined && method !== null;
  if (!isAsync) method = iterable[SymbolIterator];
  if (typeof method !== "function") throw notIterable(iterable);
  const iterator = ReflectApply(method, iterable, []);
  if (!isObject(iterator)) throw new TypeError("The iterator is not an object");
  return { __proto__: null, iterator, next: iterator.next, isAsync };
};

// settle returns a promise of a step of an iterator. One that is not asynchronous may have
// promises as its values.
const settle = (opened, step) => {
  if (opened.isAsync) return resolved(step);
  if (!isObject(step)) throw new TypeError("The iterator result is not an object");
  const { done } = step;
  return then(resolved(step.value), (value) => ({ __proto__: null, value, done }));
};

const fromIterable = (iterable) => {
  const opened = openIterator(iterable);
  const stream = state.newStream();
  const pull = () => {
    let result;
    try {
      result = settle(opened, ReflectApply(opened.next, opened.iterator, []));
    } catch (error) {
      return rejected(error);
    }
    return then(result, (step) => {
      if (!isObject(step)) throw new TypeError("The promise returned by the iterator.next() method must fulfill with an object");
      if (step.done) defaults.controllerClose(stream.controller);
      else defaults.controllerEnqueue(stream.controller, step.value);
    });
  };
  const cancel = (reason) => {
    let result;
    try {
      const method = opened.iterator.return;
      if (method === undefined || method === null) return resolved(undefined);
      if (typeof method !== "function") throw new TypeError("The property return of the iterator is not a function");
      result = settle(opened, ReflectApply(method, opened.iterator, [reason]));
    } catch (error) {
      return rejected(error);
    }
    return then(result, (step) => {
      if (!isObject(step)) throw new TypeError("The promise returned by the iterator.return() method must fulfill with an object");
    });
  };
  defaults.setUp(stream, nothing, pull, cancel, 0, () => 1);
  return stream;
};

// ---- what bodies use ----------------------------------------------------------------

// streamOfBytes returns a stream of bytes that no script has. It hands out copies.
const streamOfBytes = (content) => {
  const stream = state.newStream();
  let sent = false;
  bytes.setUp(stream, nothing, () => {
    if (!sent && blobs.lengthOf(content) > 0) {
      let copy;
      try {
        copy = blobs.copyBytes(content);
      } catch (error) {
        return rejected(error); // there is no memory
      }
      sent = true;
      bytes.controllerEnqueue(stream.controller, bytes.describeView(copy));
      return resolved(undefined);
    }
    bytes.controllerClose(stream.controller);
    if (bytes.requestOf(stream.controller) !== null) bytes.respond(stream.controller, 0);
    return resolved(undefined);
  }, () => resolved(undefined), 0, undefined);
  return objectOf(stream);
};

// readAllBytes returns a promise of {bytes} of a stream whose chunks must be Uint8Arrays. It is
// rejected if there is no memory for them.
const readAllBytes = (object) => {
  const stream = recordOf(object);
  const reader = state.acquire(stream, false);
  const chunks = newList();
  const deferred = newDeferred();
  const stop = (error) => {
    markHandled(state.cancel(stream, error));
    deferred.reject(error);
  };
  const keep = (chunk) => {
    if (!isObject(chunk) || platform.host.kindOf(chunk) !== "typedArray" || !isUint8(chunk)) {
      stop(new TypeError("Received non-Uint8Array chunk"));
      return;
    }
    try {
      chunks[chunks.length] = blobs.copyBytes(bytesOf(chunk));
    } catch (error) {
      stop(error);
      return;
    }
    then(resolved(undefined), step); // many chunks that are there do not need a deep stack
  };
  const finishReading = () => {
    try {
      deferred.resolve({ __proto__: null, bytes: blobs.concatBytes(chunks) });
    } catch (error) {
      deferred.reject(error);
    }
  };
  const step = () => state.read(reader, state.newRequest(keep, finishReading, deferred.reject));
  step();
  return deferred.promise;
};
const typedName = platform.getter("TypedArray.prototype", platform.SymbolToStringTag);
const isUint8 = (view) => typedName(view) === "Uint8Array";

const internal = {
  __proto__: null,
  isReadableStream,
  isDisturbed: (object) => recordOf(object).disturbed,
  isLocked: (object) => state.isLocked(recordOf(object)),
  streamOfBytes,
  readAllBytes,
  recordOf,
  objectOf,
  // closedStream returns the stream of a body whose content has been read.
  closedStream: () => {
    const object = streamOfBytes(blobs.encodeText(""));
    markHandled(state.cancel(recordOf(object), undefined));
    return object;
  },
  // teeForClone returns two streams with the chunks of one; the second has copies of them.
  teeForClone: (object) => {
    const stream = recordOf(object);
    if (stream.controller.isByte) return teeObjects(stream);
    const { teeDefault, copyOf } = platform.load("streams_tee");
    const branches = teeDefault(stream, (chunk) => (isObject(chunk) && platform.host.kindOf(chunk) === "typedArray" && isUint8(chunk) ? copyOf(chunk) : chunk));
    return [objectOf(branches[0]), objectOf(branches[1])];
  },
  // proxyOf returns a stream that gets the rest of another one, which is locked from then on.
  proxyOf: (object) => {
    const { newPipe } = platform.load("streams_transform");
    return newPipe(object);
  },
};

return {
  ReadableStream,
  ReadableStreamDefaultReader: defaults.ReadableStreamDefaultReader,
  ReadableStreamBYOBReader: byob.ReadableStreamBYOBReader,
  ReadableStreamDefaultController: defaults.ReadableStreamDefaultController,
  ReadableByteStreamController: bytes.ReadableByteStreamController,
  ReadableStreamBYOBRequest: bytes.ReadableStreamBYOBRequest,
  WritableStream: writables.WritableStream,
  WritableStreamDefaultWriter: writables.WritableStreamDefaultWriter,
  WritableStreamDefaultController: writables.WritableStreamDefaultController,
  CountQueuingStrategy: platform.load("streams_core").CountQueuingStrategy,
  ByteLengthQueuingStrategy: platform.load("streams_core").ByteLengthQueuingStrategy,
  internal,
};
