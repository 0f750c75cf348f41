// Promises, made and used with the built-in functions as they were before any user code ran.

const { Promise } = platform;
const then = platform.method("Promise.prototype", "then");
const nothing = () => {};

const resolved = (value) => new Promise((resolve) => resolve(value));
const rejected = (reason) => new Promise((_, reject) => reject(reason));

// newDeferred returns {promise, resolve, reject}.
const newDeferred = () => {
  const deferred = { __proto__: null, promise: undefined, resolve: undefined, reject: undefined };
  deferred.promise = new Promise((resolve, reject) => {
    deferred.resolve = resolve;
    deferred.reject = reject;
  });
  return deferred;
};

// markHandled keeps a rejection of a promise from counting as unhandled.
const markHandled = (promise) => { then(promise, undefined, nothing); };

return { then, resolved, rejected, newDeferred, markHandled, nothing };
