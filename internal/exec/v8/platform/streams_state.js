// The state of readable streams and their readers.
//
// A stream is a record {state, reader, controller, storedError, disturbed, object}. A reader is a
// record {isBYOB, stream, closed, requests}, where closed is a deferred promise. A request to
// read is a record of three functions: chunk, close and error. The controller of a stream has
// the functions pullSteps, cancelSteps and releaseSteps, which take the controller.

const { ObjectDefineProperty } = platform;
const { newDeferred, markHandled, resolved, rejected, then } = platform.load("promises");
const { invalidState, newQueue, queueLength, push, shift } = platform.load("streams_core");

const newStream = () => ({
  __proto__: null, state: "readable", reader: undefined, controller: undefined, storedError: undefined, disturbed: false, object: undefined,
});
const isLocked = (stream) => stream.reader !== undefined;

const newRequest = (chunk, close, error) => ({ __proto__: null, chunk, close, error });

// takeRequests empties the list of a reader and returns it.
const takeRequests = (reader) => {
  const { requests } = reader;
  reader.requests = newQueue();
  return requests;
};
const errorRequests = (reader, error) => {
  const requests = takeRequests(reader);
  while (queueLength(requests) > 0) shift(requests).error(error);
};

const close = (stream) => {
  stream.state = "closed";
  const { reader } = stream;
  if (reader === undefined) return;
  reader.closed.resolve(undefined);
  if (reader.isBYOB) return;
  const requests = takeRequests(reader);
  while (queueLength(requests) > 0) shift(requests).close();
};

const fail = (stream, error) => {
  stream.state = "errored";
  stream.storedError = error;
  const { reader } = stream;
  if (reader === undefined) return;
  reader.closed.reject(error);
  markHandled(reader.closed.promise);
  errorRequests(reader, error);
};

const cancel = (stream, reason) => {
  stream.disturbed = true;
  if (stream.state === "closed") return resolved(undefined);
  if (stream.state === "errored") return rejected(stream.storedError);
  close(stream);
  const { reader } = stream;
  if (reader !== undefined && reader.isBYOB) {
    const requests = takeRequests(reader);
    while (queueLength(requests) > 0) shift(requests).close(undefined);
  }
  return then(stream.controller.cancelSteps(stream.controller, reason), () => undefined);
};

const addRequest = (stream, request) => { push(stream.reader.requests, request); };
const requestCount = (stream) => queueLength(stream.reader.requests);
const hasDefaultReader = (stream) => stream.reader !== undefined && !stream.reader.isBYOB;
const hasBYOBReader = (stream) => stream.reader !== undefined && stream.reader.isBYOB;
const fulfillRequest = (stream, chunk, done) => {
  const request = shift(stream.reader.requests);
  if (done) request.close(chunk);
  else request.chunk(chunk);
};

// ---- readers ------------------------------------------------------------------------

const newReader = (stream, isBYOB) => {
  const reader = { __proto__: null, isBYOB, stream, closed: newDeferred(), requests: newQueue() };
  stream.reader = reader;
  if (stream.state === "closed") {
    reader.closed.resolve(undefined);
  } else if (stream.state === "errored") {
    reader.closed.reject(stream.storedError);
    markHandled(reader.closed.promise);
  }
  return reader;
};

const acquire = (stream, isBYOB) => {
  if (isLocked(stream)) throw invalidState("ReadableStream is locked");
  return newReader(stream, isBYOB);
};

// release detaches a reader from its stream. Its requests fail.
const release = (reader) => {
  const { stream } = reader;
  if (stream.state !== "readable") reader.closed = newDeferred();
  reader.closed.reject(invalidState("Reader released"));
  markHandled(reader.closed.promise);
  stream.controller.releaseSteps(stream.controller);
  stream.reader = undefined;
  reader.stream = undefined;
  errorRequests(reader, invalidState("Releasing reader"));
};

// read asks for a chunk through a default reader.
const read = (reader, request) => {
  const { stream } = reader;
  stream.disturbed = true;
  if (stream.state === "closed") request.close();
  else if (stream.state === "errored") request.error(stream.storedError);
  else stream.controller.pullSteps(stream.controller, request);
};

const notAttached = () => invalidState("The reader is not attached to a stream");

const define = (object, key, value) => {
  ObjectDefineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
};

return {
  newStream, isLocked, newRequest, errorRequests, close, fail, cancel, addRequest, requestCount, hasDefaultReader, hasBYOBReader,
  fulfillRequest, newReader, acquire, release, read, notAttached, define,
};
