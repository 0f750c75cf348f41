// node:events: EventEmitter, and the functions once, on and listenerCount.

const { invalidArgument, isObject, ObjectCreate, ObjectDefineProperty, ObjectGetPrototypeOf, ReflectApply, ReflectOwnKeys, newList, Error, inspectWith } = platform;
const { nodeError, needFunction, outOfRange, toArray } = platform.load("node_tools");
const PromiseClass = platform.Promise;
const SymbolAsyncIterator = platform.SymbolAsyncIterator;
const SymbolFor = platform.original("Symbol", "for");
const errorMonitor = SymbolFor("events.errorMonitor");
const captureRejections = SymbolFor("nodejs.rejection");

let defaultMaxListeners = 10;

function EventEmitter() { init(this); }

const set = (object, key, value) => ObjectDefineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });

const init = (emitter) => {
  const events = emitter._events;
  if (events === undefined || events === ObjectGetPrototypeOf(emitter)._events) {
    set(emitter, "_events", ObjectCreate(null));
    set(emitter, "_eventsCount", 0);
  }
  if (emitter._maxListeners === undefined) set(emitter, "_maxListeners", undefined);
};

const eventsOf = (emitter) => {
  if (emitter._events === undefined) init(emitter);
  return emitter._events;
};
const unwrap = (listener) => (listener.listener === undefined ? listener : listener.listener);

const maxOf = (emitter) => (emitter._maxListeners === undefined ? defaultMaxListeners : emitter._maxListeners);

const add = (emitter, type, listener, first, fn) => {
  needFunction(listener, "listener", fn);
  const events = eventsOf(emitter);
  // Before the listener is there, so that a listener of newListener may add another one first.
  if (events.newListener !== undefined) emitter.emit("newListener", type, unwrap(listener));
  const existing = eventsOf(emitter)[type];
  if (existing === undefined) {
    eventsOf(emitter)[type] = listener;
    emitter._eventsCount++;
    return emitter;
  }
  const list = typeof existing === "function" ? [existing] : existing;
  const next = newList();
  if (first) next[0] = listener;
  for (let i = 0; i < list.length; i++) next[next.length] = list[i];
  if (!first) next[next.length] = listener;
  const array = toArray(next);
  eventsOf(emitter)[type] = array;
  const max = maxOf(emitter);
  if (max > 0 && array.length > max && !existing.warned) {
    platform.defineHidden(array, "warned", true);
    platform.warn(`MaxListenersExceededWarning: Possible EventEmitter memory leak detected. ${array.length} ${platform.String(type)} listeners added to ${inspectWith(emitter, { __proto__: null, depth: -1 })}. MaxListeners is ${max}. Use emitter.setMaxListeners() to increase limit`);
  } else if (existing.warned) {
    platform.defineHidden(array, "warned", true);
  }
  return emitter;
};

const onceWrapper = (emitter, type, listener) => {
  let fired = false;
  const wrapper = (...args) => {
    if (fired) return undefined;
    emitter.removeListener(type, wrapper);
    fired = true;
    return ReflectApply(listener, emitter, args);
  };
  platform.setMeta(wrapper, "bound onceWrapper", 0);
  set(wrapper, "listener", listener);
  return wrapper;
};

const forget = (emitter, type) => {
  if (--emitter._eventsCount === 0) set(emitter, "_events", ObjectCreate(null));
  else delete emitter._events[type];
};

const remove = (emitter, type, listener) => {
  needFunction(listener, "listener", proto.removeListener);
  const events = emitter._events;
  if (events === undefined || events[type] === undefined) return emitter;
  const list = events[type];
  if (typeof list === "function") {
    if (list !== listener && list.listener !== listener) return emitter;
    forget(emitter, type);
  } else {
    let at = list.length - 1;
    while (at >= 0 && list[at] !== listener && list[at].listener !== listener) at--;
    if (at < 0) return emitter;
    const next = newList();
    for (let i = 0; i < list.length; i++) if (i !== at) next[next.length] = list[i];
    events[type] = next.length === 1 ? next[0] : toArray(next);
  }
  if (emitter._events.removeListener !== undefined) emitter.emit("removeListener", type, unwrap(listener));
  return emitter;
};

const listOf = (emitter, type) => {
  const list = emitter._events === undefined ? undefined : emitter._events[type];
  return list === undefined ? [] : typeof list === "function" ? [list] : list;
};

const emit = (emitter, type, args) => {
  const events = eventsOf(emitter);
  if (type === "error") {
    if (events[errorMonitor] !== undefined) emit(emitter, errorMonitor, args);
    if (events.error === undefined) throw unhandled(args[0]);
  }
  const list = events[type];
  if (list === undefined) return false;
  if (typeof list === "function") ReflectApply(list, emitter, args);
  else for (let i = 0; i < list.length; i++) ReflectApply(list[i], emitter, args); // add and remove replace the list
  return true;
};
const unhandled = (error) => {
  if (platform.isError(error)) return error;
  let shown;
  try {
    shown = inspectWith(error, { __proto__: null });
  } catch {
    shown = error;
  }
  const wrapped = nodeError(Error, "ERR_UNHANDLED_ERROR", `Unhandled error. (${shown})`, proto.emit);
  set(wrapped, "context", error);
  return wrapped;
};

const proto = EventEmitter.prototype;
const methods = {
  setMaxListeners(n) {
    if (typeof n !== "number" || n < 0 || n !== n) {
      throw typeof n !== "number" ? invalidArgument("setMaxListeners", "of type number", n, methods.setMaxListeners) : outOfRange("setMaxListeners", ">= 0", n, methods.setMaxListeners);
    }
    this._maxListeners = n;
    return this;
  },
  getMaxListeners() { return maxOf(this); },
  emit(type, ...args) { return emit(this, type, args); },
  addListener(type, listener) { return add(this, type, listener, false, methods.addListener); },
  on: undefined,
  prependListener(type, listener) { return add(this, type, listener, true, methods.prependListener); },
  once(type, listener) {
    needFunction(listener, "listener", methods.once);
    return add(this, type, onceWrapper(this, type, listener), false);
  },
  prependOnceListener(type, listener) {
    needFunction(listener, "listener", methods.prependOnceListener);
    return add(this, type, onceWrapper(this, type, listener), true);
  },
  removeListener(type, listener) { return remove(this, type, listener); },
  off: undefined,
  removeAllListeners(type) {
    const events = this._events;
    if (events === undefined) return this;
    if (events.removeListener === undefined) {
      if (arguments.length === 0) {
        this._events = ObjectCreate(null);
        this._eventsCount = 0;
      } else if (events[type] !== undefined) {
        forget(this, type);
      }
      return this;
    }
    const types = arguments.length === 0 ? ReflectOwnKeys(events) : [type];
    for (let i = 0; i < types.length; i++) {
      if (arguments.length === 0 && types[i] === "removeListener") continue;
      const list = listOf(this, types[i]);
      for (let at = list.length - 1; at >= 0; at--) this.removeListener(types[i], list[at]);
    }
    if (arguments.length === 0) this.removeAllListeners("removeListener");
    return this;
  },
  listeners(type) {
    const list = listOf(this, type);
    const out = newList();
    for (let i = 0; i < list.length; i++) out[i] = unwrap(list[i]);
    return toArray(out);
  },
  rawListeners(type) { return toArray(listOf(this, type)); },
  listenerCount(type, listener) {
    const list = listOf(this, type);
    if (listener === undefined || listener === null) return list.length;
    let count = 0;
    for (let i = 0; i < list.length; i++) if (list[i] === listener || list[i].listener === listener) count++;
    return count;
  },
  eventNames() { return this._eventsCount > 0 ? ReflectOwnKeys(this._events) : []; },
};
methods.on = methods.addListener;
methods.off = methods.removeListener;

set(proto, "_events", undefined);
set(proto, "_eventsCount", 0);
set(proto, "_maxListeners", undefined);
const names = platform.ObjectKeys(methods);
for (let i = 0; i < names.length; i++) set(proto, names[i], methods[names[i]]);

// ---- functions of the module ------------------------------------------------------------

const isEmitter = (value) => isObject(value) && typeof value.on === "function";
const needEmitter = (value, fn) => {
  if (!isEmitter(value) && !(isObject(value) && typeof value.addEventListener === "function")) throw invalidArgument("emitter", "an instance of EventEmitter", value, fn);
};
const listen = (target, type, listener, isOnce) => {
  if (isEmitter(target)) (isOnce ? target.once(type, listener) : target.on(type, listener));
  else target.addEventListener(type, listener, { once: isOnce });
};
const unlisten = (target, type, listener) => {
  if (isEmitter(target)) target.removeListener(type, listener);
  else target.removeEventListener(type, listener);
};

const abortError = (signal) => {
  const error = nodeError(Error, "ABORT_ERR", "The operation was aborted");
  platform.defineHidden(error, "name", "AbortError");
  set(error, "cause", signal.reason);
  return error;
};

// once returns a promise of the arguments of the next event.
const functions = {
  once(emitter, name, options) {
    return new PromiseClass((resolve, reject) => {
      needEmitter(emitter, functions.once);
      const signal = isObject(options) ? options.signal : undefined;
      if (signal !== undefined && signal.aborted) throw abortError(signal);
      const clear = () => {
        if (name !== "error" && isEmitter(emitter)) unlisten(emitter, "error", onError);
        if (signal !== undefined) signal.removeEventListener("abort", onAbort);
      };
      const onEvent = (...args) => {
        clear();
        resolve(args);
      };
      const onError = (error) => {
        unlisten(emitter, name, onEvent);
        clear();
        reject(error);
      };
      const onAbort = () => {
        unlisten(emitter, name, onEvent);
        clear();
        reject(abortError(signal));
      };
      listen(emitter, name, onEvent, true);
      if (name !== "error" && isEmitter(emitter)) listen(emitter, "error", onError, true);
      if (signal !== undefined) signal.addEventListener("abort", onAbort, { once: true });
    });
  },
  // on returns an asynchronous iterator of the arguments of events.
  on(emitter, name, options) {
    needEmitter(emitter, functions.on);
    const signal = isObject(options) ? options.signal : undefined;
    if (signal !== undefined && signal.aborted) throw abortError(signal);
    const values = newList();
    const waiting = newList();
    let failure;
    let isDone = false;
    const shift = (list) => {
      const first = list[0];
      for (let i = 1; i < list.length; i++) list[i - 1] = list[i];
      list.length--;
      return first;
    };
    const onEvent = (...args) => {
      if (waiting.length > 0) shift(waiting).resolve({ value: args, done: false });
      else values[values.length] = args;
    };
    const onError = (error) => {
      stop();
      if (waiting.length > 0) shift(waiting).reject(error);
      else failure = { __proto__: null, error };
    };
    const stop = () => {
      isDone = true;
      unlisten(emitter, name, onEvent);
      if (isEmitter(emitter)) unlisten(emitter, "error", onError);
      if (failure === undefined) while (waiting.length > 1) shift(waiting).resolve({ value: undefined, done: true });
    };
    listen(emitter, name, onEvent, false);
    if (name !== "error" && isEmitter(emitter)) listen(emitter, "error", onError, false);
    if (signal !== undefined) signal.addEventListener("abort", () => onError(abortError(signal)), { once: true });
    return {
      next() {
        return new PromiseClass((resolve, reject) => {
          if (values.length > 0) resolve({ value: shift(values), done: false });
          else if (failure !== undefined) {
            const { error } = failure;
            failure = undefined;
            reject(error);
          } else if (isDone) resolve({ value: undefined, done: true });
          else waiting[waiting.length] = { __proto__: null, resolve, reject };
        });
      },
      return() {
        stop();
        while (waiting.length > 0) shift(waiting).resolve({ value: undefined, done: true });
        return new PromiseClass((resolve) => resolve({ value: undefined, done: true }));
      },
      throw(error) {
        onError(error);
        return new PromiseClass((resolve) => resolve({ value: undefined, done: true }));
      },
      [SymbolAsyncIterator]() { return this; },
    };
  },
  listenerCount(emitter, type) { return isEmitter(emitter) && typeof emitter.listenerCount === "function" ? emitter.listenerCount(type) : ReflectApply(methods.listenerCount, emitter, [type]); },
  getEventListeners(emitter, type) { return emitter.listeners(type); },
  getMaxListeners(emitter) { return maxOf(emitter); },
  setMaxListeners(n = defaultMaxListeners, ...targets) {
    if (typeof n !== "number" || n < 0 || n !== n) throw outOfRange("n", "a non-negative number", n, functions.setMaxListeners);
    if (targets.length === 0) defaultMaxListeners = n;
    for (let i = 0; i < targets.length; i++) if (isEmitter(targets[i])) targets[i].setMaxListeners(n);
  },
};
const keys = platform.ObjectKeys(functions);
for (let i = 0; i < keys.length; i++) set(EventEmitter, keys[i], functions[keys[i]]);
set(EventEmitter, "EventEmitter", EventEmitter);
set(EventEmitter, "errorMonitor", errorMonitor);
set(EventEmitter, "captureRejectionSymbol", captureRejections);
ObjectDefineProperty(EventEmitter, "defaultMaxListeners", {
  __proto__: null, enumerable: true,
  get: () => defaultMaxListeners,
  set: (n) => {
    if (typeof n !== "number" || n < 0 || n !== n) throw outOfRange("defaultMaxListeners", "a non-negative number", n);
    defaultMaxListeners = n;
  },
});

const exports = platform.load("node_tools").toModule(EventEmitter);
return { exports, hidden: { EventEmitter } };
