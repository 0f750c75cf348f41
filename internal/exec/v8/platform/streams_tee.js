// Tee: two streams with the content of one.

const { newList } = platform;
const { resolved, newDeferred, then } = platform.load("promises");
const { copyDataBlock } = platform.load("streams_core");
const { newStream, newRequest, newReader, cancel, read, release } = platform.load("streams_state");
const defaults = platform.load("streams_default");
const bytes = platform.load("streams_byte");
const { readInto } = platform.load("streams_byob");
const reactionJob = platform.original("globalThis", "queueMicrotask");
const typedBuffer = platform.getter("TypedArray.prototype", "buffer");
const typedOffset = platform.getter("TypedArray.prototype", "byteOffset");
const typedLength = platform.getter("TypedArray.prototype", "byteLength");
const nothing = () => {};

// copyOf returns a copy of a chunk of bytes.
const copyOf = (view) => {
  const length = typedLength(view);
  const buffer = new platform.ArrayBuffer(length);
  copyDataBlock(buffer, 0, typedBuffer(view), typedOffset(view), length);
  return new platform.Uint8Array(buffer);
};

// newCancel returns the cancel algorithms of both branches: the stream is cancelled with both
// reasons when both are.
const newCancel = (stream, state) => (which) => (reason) => {
  state.canceled[which] = true;
  state.reasons[which] = reason;
  if (state.canceled[1 - which]) {
    state.cancelPromise.resolve(cancel(stream, [state.reasons[0], state.reasons[1]]));
  }
  return state.cancelPromise.promise;
};

const newState = (stream) => ({
  __proto__: null, reader: newReader(stream, false), reading: false, again: [false, false], canceled: [false, false],
  reasons: [undefined, undefined], branches: newList(), cancelPromise: newDeferred(),
});

// teeDefault tees a stream. clone, if given, copies the chunks of the second branch.
const teeDefault = (stream, clone) => {
  const state = newState(stream);
  const controllers = newList();
  const cancelOf = newCancel(stream, state);
  const pull = () => {
    if (state.reading) {
      state.again[0] = true;
      return resolved(undefined);
    }
    state.reading = true;
    read(state.reader, newRequest((chunk) => reactionJob(() => {
      state.again[0] = false;
      let second = chunk;
      if (!state.canceled[1] && clone !== undefined) {
        try {
          second = clone(chunk);
        } catch (error) {
          defaults.controllerError(controllers[0], error);
          defaults.controllerError(controllers[1], error);
          state.cancelPromise.resolve(cancel(stream, error));
          return;
        }
      }
      if (!state.canceled[0]) defaults.controllerEnqueue(controllers[0], chunk);
      if (!state.canceled[1]) defaults.controllerEnqueue(controllers[1], second);
      state.reading = false;
      if (state.again[0]) pull();
    }), () => {
      state.reading = false;
      for (let i = 0; i < 2; i++) if (!state.canceled[i]) defaults.controllerClose(controllers[i]);
      if (!state.canceled[0] || !state.canceled[1]) state.cancelPromise.resolve(undefined);
    }, () => { state.reading = false; }));
    return resolved(undefined);
  };
  for (let i = 0; i < 2; i++) {
    state.branches[i] = newStream();
    controllers[i] = defaults.setUp(state.branches[i], nothing, pull, cancelOf(i), 1, () => 1);
  }
  then(state.reader.closed.promise, undefined, (error) => {
    defaults.controllerError(controllers[0], error);
    defaults.controllerError(controllers[1], error);
    if (!state.canceled[0] || !state.canceled[1]) state.cancelPromise.resolve(undefined);
  });
  return state.branches;
};

// teeBytes tees a stream of bytes. The branch whose reader brings a buffer gets the bytes in it,
// the other one a copy.
const teeBytes = (stream) => {
  const state = newState(stream);
  const controllers = newList();
  const cancelOf = newCancel(stream, state);

  const forwardError = (reader) => {
    then(reader.closed.promise, undefined, (error) => {
      if (reader !== state.reader) return;
      bytes.controllerError(controllers[0], error);
      bytes.controllerError(controllers[1], error);
      if (!state.canceled[0] || !state.canceled[1]) state.cancelPromise.resolve(undefined);
    });
  };
  const failBoth = (error) => {
    bytes.controllerError(controllers[0], error);
    bytes.controllerError(controllers[1], error);
    state.cancelPromise.resolve(cancel(stream, error));
  };
  const useReader = (isBYOB) => {
    if (state.reader.isBYOB === isBYOB) return;
    release(state.reader);
    state.reader = newReader(stream, isBYOB);
    forwardError(state.reader);
  };
  const pullAgain = () => {
    state.reading = false;
    if (state.again[0]) pullBranch(0);
    else if (state.again[1]) pullBranch(1);
  };
  const pullWithDefault = () => {
    useReader(false);
    read(state.reader, newRequest((chunk) => reactionJob(() => {
      state.again[0] = state.again[1] = false;
      let second = chunk;
      if (!state.canceled[0] && !state.canceled[1]) {
        try {
          second = copyOf(chunk);
        } catch (error) {
          failBoth(error);
          return;
        }
      }
      if (!state.canceled[0]) bytes.controllerEnqueue(controllers[0], bytes.describeView(chunk));
      if (!state.canceled[1]) bytes.controllerEnqueue(controllers[1], bytes.describeView(second));
      pullAgain();
    }), () => {
      state.reading = false;
      for (let i = 0; i < 2; i++) if (!state.canceled[i]) bytes.controllerClose(controllers[i]);
      for (let i = 0; i < 2; i++) if (bytes.requestOf(controllers[i]) !== null) bytes.respond(controllers[i], 0);
      if (!state.canceled[0] || !state.canceled[1]) state.cancelPromise.resolve(undefined);
    }, () => { state.reading = false; }));
  };
  const pullWithBYOB = (view, which) => {
    useReader(true);
    const other = 1 - which;
    readInto(state.reader, bytes.describeView(view), 1, newRequest((chunk) => reactionJob(() => {
      state.again[0] = state.again[1] = false;
      if (!state.canceled[other]) {
        let copy;
        try {
          copy = copyOf(chunk);
        } catch (error) {
          failBoth(error);
          return;
        }
        if (!state.canceled[which]) bytes.respondWithNewView(controllers[which], bytes.describeView(chunk));
        bytes.controllerEnqueue(controllers[other], bytes.describeView(copy));
      } else if (!state.canceled[which]) {
        bytes.respondWithNewView(controllers[which], bytes.describeView(chunk));
      }
      pullAgain();
    }), (chunk) => {
      state.reading = false;
      if (!state.canceled[which]) bytes.controllerClose(controllers[which]);
      if (!state.canceled[other]) bytes.controllerClose(controllers[other]);
      if (chunk !== undefined) {
        if (!state.canceled[which]) bytes.respondWithNewView(controllers[which], bytes.describeView(chunk));
        if (!state.canceled[other] && bytes.requestOf(controllers[other]) !== null) bytes.respond(controllers[other], 0);
      }
      if (!state.canceled[which] || !state.canceled[other]) state.cancelPromise.resolve(undefined);
    }, () => { state.reading = false; }));
  };
  const pullBranch = (which) => {
    if (state.reading) {
      state.again[which] = true;
      return resolved(undefined);
    }
    state.reading = true;
    const view = bytes.viewOfRequest(controllers[which]);
    if (view === null) pullWithDefault();
    else pullWithBYOB(view, which);
    return resolved(undefined);
  };
  for (let i = 0; i < 2; i++) {
    state.branches[i] = newStream();
    controllers[i] = bytes.setUp(state.branches[i], nothing, () => pullBranch(i), cancelOf(i), 0, undefined);
  }
  forwardError(state.reader);
  return state.branches;
};

// tee returns the records of two streams.
const tee = (stream) => (stream.controller.isByte ? teeBytes(stream) : teeDefault(stream, undefined));

return { tee, teeDefault, copyOf };
