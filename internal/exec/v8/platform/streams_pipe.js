// Pipes: they move the chunks of a readable stream to a writable one.

const { resolved, then, newDeferred } = platform.load("promises");
const { invalidState, uponPromise } = platform.load("streams_core");
const { newReader, newRequest, read, release, cancel } = platform.load("streams_state");
const writables = platform.load("streams_writable");
const nothing = () => {};

// pipe returns a promise that is settled when the pipe ends. signal is what signalOf of the part
// abort returns, or undefined.
const pipe = (source, dest, preventClose, preventAbort, preventCancel, signal) => {
  const reader = newReader(source, false);
  const writer = writables.acquire(dest);
  source.disturbed = true;
  const result = newDeferred();
  let shuttingDown = false;
  let currentWrite = resolved(undefined);
  let removeAlgorithm = nothing;

  // waitForWrites returns a promise that is fulfilled after the last write that was started.
  const waitForWrites = () => {
    const last = currentWrite;
    return then(last, () => (last === currentWrite ? undefined : waitForWrites()), () => (last === currentWrite ? undefined : waitForWrites()));
  };
  const finalize = (isError, error) => {
    writables.release(writer);
    release(reader);
    removeAlgorithm();
    if (isError) result.reject(error);
    else result.resolve(undefined);
  };
  const shutDown = (action, isError, error) => {
    if (shuttingDown) return;
    shuttingDown = true;
    const act = () => {
      if (action === undefined) finalize(isError, error);
      else uponPromise(action(), () => finalize(isError, error), (newError) => finalize(true, newError));
    };
    if (dest.state === "writable" && !writables.closeQueuedOrInFlight(dest)) uponPromise(waitForWrites(), act, act);
    else act();
  };

  if (signal !== undefined) {
    const abortPipe = () => {
      const error = signal.reason();
      shutDown(() => {
        const first = preventAbort ? undefined : dest.state === "writable" ? writables.abort(dest, error) : resolved(undefined);
        const second = preventCancel ? undefined : source.state === "readable" ? cancel(source, error) : resolved(undefined);
        return both(first, second);
      }, true, error);
    };
    if (signal.aborted()) {
      abortPipe();
      return result.promise;
    }
    removeAlgorithm = signal.add(abortPipe);
  }

  const onSourceError = (error) => {
    if (preventAbort) shutDown(undefined, true, error);
    else shutDown(() => writables.abort(dest, error), true, error);
  };
  const onDestError = (error) => {
    if (preventCancel) shutDown(undefined, true, error);
    else shutDown(() => cancel(source, error), true, error);
  };
  const onSourceClose = () => {
    if (preventClose) shutDown(undefined, false);
    else shutDown(() => writables.closeWithErrorPropagation(writer), false);
  };

  if (source.state === "errored") onSourceError(source.storedError);
  else uponPromise(reader.closed.promise, nothing, (error) => { if (source.state === "errored") onSourceError(error); });
  if (dest.state === "errored") onDestError(dest.storedError);
  else uponPromise(writer.closed.promise, nothing, () => { if (dest.state === "errored") onDestError(dest.storedError); });
  if (source.state === "closed") onSourceClose();
  else uponPromise(reader.closed.promise, () => { if (source.state === "closed") onSourceClose(); }, nothing);
  if (writables.closeQueuedOrInFlight(dest) || dest.state === "closed") {
    const error = invalidState("Destination WritableStream is closed");
    if (preventCancel) shutDown(undefined, true, error);
    else shutDown(() => cancel(source, error), true, error);
  }

  // The loop reads a chunk when the destination wants one.
  const step = () => {
    if (shuttingDown) return;
    uponPromise(writer.ready.promise, () => {
      if (shuttingDown) return;
      read(reader, newRequest((chunk) => {
        currentWrite = then(writables.write(writer, chunk), nothing, nothing);
        step();
      }, nothing, nothing));
    }, nothing);
  };
  step();
  return result.promise;
};

// both returns a promise that is fulfilled when two are, or rejected with the first error.
const both = (first, second) => {
  if (first === undefined) return second === undefined ? resolved(undefined) : second;
  if (second === undefined) return first;
  const done = newDeferred();
  let left = 2;
  const one = () => { if (--left === 0) done.resolve(undefined); };
  then(first, one, done.reject);
  then(second, one, done.reject);
  return done.promise;
};

return { pipe };
