// Signals that abort operations.
//
// A signal of AbortSignal.any knows the signals that it depends on. They know it only while it
// has listeners: until then it looks at them when it is asked. So a signal that lives long does
// not collect those that were derived from it.

const { domError, isObject, newList, invalidArgument } = platform;
const {
  illegalInvocation, illegalConstructor, requireArguments, iteratorOf, toSequence, toInteger, expose, defineInspection, refuseClones,
} = platform.load("webidl");
const { Event, EventTarget, targetState, countListeners, fire, defineHandler } = platform.load("events");

const setAdd = platform.method("Set.prototype", "add");
const setDelete = platform.method("Set.prototype", "delete");
const setForEach = platform.method("Set.prototype", "forEach");
const setSize = platform.getter("Set.prototype", "size");
const setTimeout = platform.original("globalThis", "setTimeout");
const unrefTimer = platform.method("Timeout.prototype", "unref");

const secret = {};
let aborts = 0; // the number of signals that were aborted, which orders them

// signalState returns the state of a signal, or undefined for another value.
let signalState;

class AbortSignal extends EventTarget {
  #state;
  constructor() {
    if (arguments[0] !== secret) throw illegalConstructor();
    super();
    this.#state = {
      __proto__: null,
      signal: this,
      order: 0, // when it was aborted; 0 if it was not
      reason: undefined,
      algorithms: undefined, // a set of functions that run when it is aborted
      sources: undefined, // the states of the signals that it depends on
      dependents: undefined, // a set of states of dependent signals with listeners
    };
    targetState(this).onChange = (type, count) => { if (type === "abort" && count < 2) updateDependence(this.#state); };
  }
  static state(value) { return isObject(value) && #state in value ? value.#state : undefined; }

  static abort(reason) {
    const signal = new AbortSignal(secret);
    const state = signalState(signal);
    state.order = ++aborts;
    state.reason = reason === undefined ? abortError() : reason;
    return signal;
  }
  static timeout(delay) {
    requireArguments(arguments, "delay");
    const time = toInteger(delay, "delay", 0, 9007199254740991);
    const signal = new AbortSignal(secret);
    // A delay that no timer has does not end before the run does.
    if (time <= 2147483647) {
      unrefTimer(setTimeout(() => {
        abort(signalState(signal), domError("TimeoutError", "The operation was aborted due to timeout"));
      }, time));
    }
    return signal;
  }
  static any(signals) {
    requireArguments(arguments, "signals");
    const method = iteratorOf(signals);
    if (method === undefined) throw invalidArgument("signals", "an iterable of AbortSignals", signals);
    const states = toSequence(signals, method, (value, i) => {
      const state = signalState(value);
      if (state === undefined) throw invalidArgument(`signals[${i}]`, "an instance of AbortSignal", value);
      return state;
    });
    return dependOn(states);
  }

  get aborted() { return isAborted(read(this)); }
  get reason() {
    const state = read(this);
    return isAborted(state) ? state.reason : undefined;
  }
  throwIfAborted() {
    const state = read(this);
    if (isAborted(state)) throw state.reason;
  }
}
signalState = AbortSignal.state;
delete AbortSignal.state;
expose(AbortSignal, "AbortSignal", { "static abort": 0, "static timeout": 1, "static any": 1 });
defineHandler(AbortSignal, "abort", "AbortSignal", (value) => signalState(value) !== undefined);
defineInspection(AbortSignal, "AbortSignal", (signal) => {
  const state = signalState(signal);
  return state && { aborted: isAborted(state) };
});

const read = (value) => {
  const state = signalState(value);
  if (state === undefined) throw illegalInvocation("AbortSignal");
  return state;
};

const abortError = () => domError("AbortError", "This operation was aborted");

// isAborted also looks at the signals that the signal depends on: the first of them that was
// aborted has the reason.
const isAborted = (state) => {
  if (state.order !== 0) return true;
  const { sources } = state;
  if (sources === undefined) return false;
  let first;
  for (let i = 0; i < sources.length; i++) {
    if (sources[i].order !== 0 && (first === undefined || sources[i].order < first.order)) first = sources[i];
  }
  if (first === undefined) return false;
  state.order = first.order;
  state.reason = first.reason;
  // The others have no use for it any more.
  for (let i = 0; i < sources.length; i++) {
    if (sources[i].dependents !== undefined) setDelete(sources[i].dependents, state);
  }
  state.sources = undefined;
  return true;
};

const dependOn = (states) => {
  const signal = new AbortSignal(secret);
  const state = signalState(signal);
  for (let i = 0; i < states.length; i++) {
    if (!isAborted(states[i])) continue;
    state.order = states[i].order;
    state.reason = states[i].reason;
    return signal;
  }
  const sources = newList();
  const known = new platform.Set();
  const add = (source) => {
    const size = setSize(known);
    setAdd(known, source);
    if (setSize(known) > size) sources[sources.length] = source;
  };
  for (let i = 0; i < states.length; i++) {
    const inner = states[i].sources;
    if (inner === undefined) add(states[i]);
    else for (let k = 0; k < inner.length; k++) add(inner[k]);
  }
  state.sources = sources;
  return signal;
};

// updateDependence tells the sources of a signal whether it has to be notified.
const updateDependence = (state) => {
  if (isAborted(state)) return;
  const { sources } = state;
  if (sources === undefined) return;
  const isNeeded = countListeners(state.signal, "abort") > 0 || (state.algorithms !== undefined && setSize(state.algorithms) > 0);
  for (let i = 0; i < sources.length; i++) {
    const source = sources[i];
    if (isNeeded && source.dependents === undefined) source.dependents = new platform.Set();
    if (isNeeded) setAdd(source.dependents, state);
    else if (source.dependents !== undefined) setDelete(source.dependents, state);
  }
};

// abort aborts a signal. All dependent signals are aborted before the first function runs.
const abort = (state, reason) => {
  if (isAborted(state)) return;
  state.order = ++aborts;
  state.reason = reason;
  const notified = newList();
  if (state.dependents !== undefined) {
    setForEach(state.dependents, (dependent) => {
      if (dependent.order === 0 && isAborted(dependent)) notified[notified.length] = dependent;
    });
    state.dependents = undefined;
  }
  notify(state);
  for (let i = 0; i < notified.length; i++) notify(notified[i]);
};

const notify = (state) => {
  const { algorithms } = state;
  state.algorithms = undefined;
  if (algorithms !== undefined) {
    const list = newList();
    setForEach(algorithms, (algorithm) => { list[list.length] = algorithm; });
    for (let i = 0; i < list.length; i++) list[i](state.reason);
  }
  fire(state.signal, new Event("abort"));
};

// signalOf returns what other parts do with a signal, or undefined for another value: aborted
// reports whether it is aborted, reason returns the reason, add adds a function that is called
// with the reason when the signal is aborted, and returns a function that removes it.
const signalOf = (value) => {
  const state = signalState(value);
  if (state === undefined) return undefined;
  return {
    __proto__: null,
    aborted: () => isAborted(state),
    reason: () => (isAborted(state) ? state.reason : undefined),
    add: (algorithm) => {
      if (isAborted(state)) return () => {};
      if (state.algorithms === undefined) state.algorithms = new platform.Set();
      setAdd(state.algorithms, algorithm);
      updateDependence(state);
      return () => {
        if (state.algorithms === undefined) return;
        setDelete(state.algorithms, algorithm);
        updateDependence(state);
      };
    },
  };
};

// createSignal returns a new signal and the function that aborts it with a reason.
const createSignal = () => {
  const signal = new AbortSignal(secret);
  return { __proto__: null, signal, abort: (reason) => abort(signalState(signal), reason === undefined ? abortError() : reason) };
};

class AbortController {
  #signal = new AbortSignal(secret);
  get signal() {
    if (!(#signal in this)) throw illegalInvocation("AbortController");
    return this.#signal;
  }
  abort(reason) {
    if (!(#signal in this)) throw illegalInvocation("AbortController");
    abort(signalState(this.#signal), reason === undefined ? abortError() : reason);
  }
  static signal(value) { return isObject(value) && #signal in value ? value.#signal : undefined; }
}
const controllerSignal = AbortController.signal;
delete AbortController.signal;
expose(AbortController, "AbortController", { abort: 0 });
refuseClones((value) => signalState(value) !== undefined || controllerSignal(value) !== undefined);
defineInspection(AbortController, "AbortController", (controller) => {
  const signal = controllerSignal(controller);
  return signal && { signal };
});

// createDependent returns a new signal that depends on the signals of a list.
const createDependent = (signals) => {
  const states = newList();
  for (let i = 0; i < signals.length; i++) states[i] = read(signals[i]);
  return dependOn(states);
};

return { AbortController, AbortSignal, signalOf, createSignal, createDependent };
