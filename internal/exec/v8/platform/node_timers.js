// node:timers and node:timers/promises.

const { isObject, Error } = platform;
const { nodeError, toModule } = platform.load("node_tools");
const PromiseClass = platform.Promise;
const global = (name) => platform.original("globalThis", name);
const setTimeout = global("setTimeout");
const clearTimeout = global("clearTimeout");
const setImmediate = global("setImmediate");
const clearImmediate = global("clearImmediate");
const setInterval = global("setInterval");
const clearInterval = global("clearInterval");

const abortError = (signal) => {
  const error = nodeError(Error, "ABORT_ERR", "The operation was aborted");
  platform.defineHidden(error, "name", "AbortError");
  platform.defineHidden(error, "cause", signal.reason);
  return error;
};

// promised starts a timer and returns a promise that it fulfills. A signal stops it.
const promised = (start, stop, value, options) => new PromiseClass((resolve, reject) => {
  const signal = isObject(options) ? options.signal : undefined;
  if (signal !== undefined && signal.aborted) throw abortError(signal);
  let onAbort;
  const timer = start(() => {
    if (signal !== undefined) signal.removeEventListener("abort", onAbort);
    resolve(value);
  });
  if (isObject(options) && options.ref === false) timer.unref();
  if (signal === undefined) return;
  onAbort = () => {
    stop(timer);
    reject(abortError(signal));
  };
  signal.addEventListener("abort", onAbort, { once: true });
});

const promises = {
  setTimeout(delay, value, options) { return promised((fn) => setTimeout(fn, delay), clearTimeout, value, options); },
  setImmediate(value, options) { return promised((fn) => setImmediate(fn), clearImmediate, value, options); },
  setInterval(delay, value, options) {
    const signal = isObject(options) ? options.signal : undefined;
    let isDone = false;
    const done = () => ({ value: undefined, done: true });
    return {
      next() {
        if (isDone) return new PromiseClass((resolve) => resolve(done()));
        return promised((fn) => setTimeout(fn, delay), clearTimeout, { value, done: false }, { signal });
      },
      return() {
        isDone = true;
        return new PromiseClass((resolve) => resolve(done()));
      },
      [platform.SymbolAsyncIterator]() { return this; },
    };
  },
  scheduler: {
    wait(delay, options) { return promised((fn) => setTimeout(fn, delay), clearTimeout, undefined, options); },
    yield() { return promised((fn) => setImmediate(fn), clearImmediate, undefined, undefined); },
  },
};

const timers = { setTimeout, clearTimeout, setImmediate, clearImmediate, setInterval, clearInterval, promises };
return { exports: toModule(timers), promises: toModule(promises) };
