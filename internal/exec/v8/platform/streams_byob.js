// ReadableStreamBYOBReader: it reads into buffers that its user brings.

const { TypeError, RangeError, isObject, invalidArgument } = platform;
const { expose, defineLevelInspection, illegalInvocation } = platform.load("webidl");
const { rejected, newDeferred } = platform.load("promises");
const { invalidState, badValue, isDetached, bufferLength, queueLength } = platform.load("streams_core");
const { newRequest, acquire, cancel, release, notAttached } = platform.load("streams_state");
const { pullInto } = platform.load("streams_byte");
const { toView, toLength } = platform.load("streams_views");
const { links } = platform.load("streams_default");

let readerOf;
let isReader;

// readInto asks for bytes in a view.
const readInto = (reader, view, min, request) => {
  const { stream } = reader;
  stream.disturbed = true;
  if (stream.state === "errored") request.error(stream.storedError);
  else pullInto(stream.controller, view, min, request);
};

// readMin returns the member min of the options, in elements of the view.
const readMin = (options) => {
  if (options === undefined || options === null) return 1;
  if (!isObject(options)) throw invalidArgument("options", "of type object", options);
  const { min } = options;
  return min === undefined ? 1 : toLength(min);
};

const readPromise = (reader, value, options) => {
  toView(value, "view");
  const min = readMin(options);
  const view = toView(value, "view"); // again: the options may have detached its buffer
  if (view.length === 0 || bufferLength(view.buffer) === 0 || isDetached(view.buffer)) {
    throw invalidState("View or Viewed ArrayBuffer is zero-length or detached");
  }
  if (min === 0) throw badValue(TypeError, "property 'options.min'", 0);
  if (min * view.elementSize > view.length) throw badValue(RangeError, "property 'options.min'", min);
  if (reader.stream === undefined) throw notAttached();
  const deferred = newDeferred();
  readInto(reader, view, min, newRequest(
    (chunk) => deferred.resolve({ value: chunk, done: false }),
    (chunk) => deferred.resolve({ value: chunk, done: true }),
    (error) => deferred.reject(error),
  ));
  return deferred.promise;
};

class ReadableStreamBYOBReader {
  #record;
  static {
    isReader = (value) => isObject(value) && #record in value;
    readerOf = (object) => {
      if (!isReader(object)) throw illegalInvocation("ReadableStreamBYOBReader");
      return object.#record;
    };
  }
  constructor(stream) {
    const record = links.streamRecord(stream);
    if (record === undefined) throw invalidArgument("stream", "an instance of ReadableStream", stream, ReadableStreamBYOBReader);
    if (!record.controller.isByte && record.reader === undefined) throw badValue(TypeError, "argument 'stream'", stream);
    this.#record = acquire(record, true);
  }
  get closed() {
    if (!isReader(this)) return rejected(illegalInvocation("ReadableStreamBYOBReader"));
    return this.#record.closed.promise;
  }
  cancel(reason = undefined) {
    if (!isReader(this)) return rejected(illegalInvocation("ReadableStreamBYOBReader"));
    if (this.#record.stream === undefined) return rejected(notAttached());
    return cancel(this.#record.stream, reason);
  }
  read(view, options = undefined) {
    try {
      return readPromise(readerOf(this), view, options);
    } catch (error) {
      return rejected(error);
    }
  }
  releaseLock() {
    const reader = readerOf(this);
    if (reader.stream !== undefined) release(reader);
  }
}
expose(ReadableStreamBYOBReader, "ReadableStreamBYOBReader");
defineLevelInspection(ReadableStreamBYOBReader, "ReadableStreamBYOBReader", (object) => {
  const reader = readerOf(object);
  return {
    stream: reader.stream === undefined ? undefined : links.streamObject(reader.stream),
    readIntoRequests: queueLength(reader.requests), close: reader.closed.promise,
  };
});

return { ReadableStreamBYOBReader, readInto };
