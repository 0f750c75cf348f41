// Events and their targets.
//
// A target has no parents, so the path of an event is its target alone: listeners that capture
// run first, then the others. The global object is no target: an uncaught error ends the run.

const { ReflectApply, ObjectCreate, ObjectDefineProperty, TypeError, codedError, domError, invalidArgument, isObject, newList } = platform;
const {
  illegalInvocation, requireArguments, toDictionary, toUSVString, expose, defineConstants, defineInspection, refuseClones,
} = platform.load("webidl");

const mapGet = platform.method("Map.prototype", "get");
const mapSet = platform.method("Map.prototype", "set");
const mapDelete = platform.method("Map.prototype", "delete");
const performanceNow = platform.method("Performance.prototype", "now");

const phases = { __proto__: null, NONE: 0, CAPTURING_PHASE: 1, AT_TARGET: 2, BUBBLING_PHASE: 3 };

// ---- events -----------------------------------------------------------------------

// eventState returns the state of an event, or undefined for another value.
let eventState;

class Event {
  #state;
  constructor(type, init) {
    requireArguments(arguments, "type");
    const name = `${type}`;
    const options = toDictionary(init, "options");
    this.#state = {
      __proto__: null,
      type: name,
      bubbles: options !== undefined && !!options.bubbles,
      cancelable: options !== undefined && !!options.cancelable,
      composed: options !== undefined && !!options.composed,
      timeStamp: performanceNow(undefined),
      target: null,
      currentTarget: null,
      phase: 0,
      isTrusted: false,
      isInitialized: true,
      isDispatched: false,
      isCanceled: false,
      isPassive: false,
      stops: false,
      stopsImmediately: false,
    };
    ObjectDefineProperty(this, "isTrusted", trusted);
  }
  static state(value) { return isObject(value) && #state in value ? value.#state : undefined; }

  get type() { return read(this).type; }
  get target() { return read(this).target; }
  get srcElement() { return read(this).target; }
  get currentTarget() { return read(this).currentTarget; }
  composedPath() {
    const { currentTarget } = read(this);
    return currentTarget === null ? [] : [currentTarget];
  }
  get eventPhase() { return read(this).phase; }
  stopPropagation() { read(this).stops = true; }
  get cancelBubble() { return read(this).stops; }
  set cancelBubble(value) {
    const state = read(this);
    if (value) state.stops = true;
  }
  stopImmediatePropagation() {
    const state = read(this);
    state.stops = true;
    state.stopsImmediately = true;
  }
  get bubbles() { return read(this).bubbles; }
  get cancelable() { return read(this).cancelable; }
  get returnValue() { return !read(this).isCanceled; }
  set returnValue(value) {
    const state = read(this);
    if (!value) cancel(state);
  }
  preventDefault() { cancel(read(this)); }
  get defaultPrevented() { return read(this).isCanceled; }
  get composed() { return read(this).composed; }
  get timeStamp() { return read(this).timeStamp; }
  initEvent(type, bubbles, cancelable) {
    const state = read(this);
    requireArguments(arguments, "type");
    initialize(state, `${type}`, !!bubbles, !!cancelable);
  }
}
eventState = Event.state;
delete Event.state;

const read = (value) => {
  const state = eventState(value);
  if (state === undefined) throw illegalInvocation("Event");
  return state;
};

const cancel = (state) => {
  if (state.cancelable && !state.isPassive) state.isCanceled = true;
};

const initialize = (state, type, bubbles, cancelable) => {
  if (state.isDispatched) return false;
  state.isInitialized = true;
  state.stops = state.stopsImmediately = state.isCanceled = state.isTrusted = false;
  state.target = null;
  state.type = type;
  state.bubbles = bubbles;
  state.cancelable = cancelable;
  return true;
};

// Each event has the property itself, because no prototype may pretend that it is trusted.
const trusted = {
  __proto__: null,
  get: platform.setMeta(function () { return read(this).isTrusted; }, "get isTrusted", 0),
  set: undefined,
  enumerable: true,
  configurable: false,
};

expose(Event, "Event", { constructor: 1, initEvent: 1 });
defineConstants(Event, phases);
refuseClones((value) => eventState(value) !== undefined);
defineInspection(Event, "Event", (event) => {
  const state = eventState(event);
  return state && { type: state.type, defaultPrevented: state.isCanceled, cancelable: state.cancelable, timeStamp: state.timeStamp };
});

class CustomEvent extends Event {
  #detail = null;
  constructor(type, init) {
    requireArguments(arguments, "type");
    super(type, init);
    if (isObject(init) && init.detail !== undefined) this.#detail = init.detail;
  }
  get detail() {
    if (!(#detail in this)) throw illegalInvocation("CustomEvent");
    return this.#detail;
  }
  initCustomEvent(type, bubbles, cancelable, detail = null) {
    if (!(#detail in this)) throw illegalInvocation("CustomEvent");
    requireArguments(arguments, "type");
    if (initialize(read(this), `${type}`, !!bubbles, !!cancelable)) this.#detail = detail;
  }
}
expose(CustomEvent, "CustomEvent", { constructor: 1, initCustomEvent: 1 });

class ErrorEvent extends Event {
  #fields = { __proto__: null, message: "", filename: "", lineno: 0, colno: 0, error: undefined };
  constructor(type, init) {
    requireArguments(arguments, "type");
    super(type, init);
    if (!isObject(init)) return;
    const fields = this.#fields;
    const { colno, error, filename, lineno, message } = init;
    if (colno !== undefined) fields.colno = colno >>> 0;
    fields.error = error;
    if (filename !== undefined) fields.filename = toUSVString(filename);
    if (lineno !== undefined) fields.lineno = lineno >>> 0;
    if (message !== undefined) fields.message = `${message}`;
  }
  static fields(value) {
    if (!isObject(value) || !(#fields in value)) throw illegalInvocation("ErrorEvent");
    return value.#fields;
  }
  get message() { return errorFields(this).message; }
  get filename() { return errorFields(this).filename; }
  get lineno() { return errorFields(this).lineno; }
  get colno() { return errorFields(this).colno; }
  get error() { return errorFields(this).error; }
}
const errorFields = ErrorEvent.fields;
delete ErrorEvent.fields;
expose(ErrorEvent, "ErrorEvent", { constructor: 1 });

class PromiseRejectionEvent extends Event {
  #promise;
  #reason;
  constructor(type, init) {
    requireArguments(arguments, "type", "eventInitDict");
    super(type, init);
    const { promise, reason } = isObject(init) ? init : { __proto__: null };
    if (!isObject(promise)) throw invalidArgument("eventInitDict.promise", "of type object", promise);
    this.#promise = promise;
    this.#reason = reason;
  }
  get promise() {
    if (!(#promise in this)) throw illegalInvocation("PromiseRejectionEvent");
    return this.#promise;
  }
  get reason() {
    if (!(#promise in this)) throw illegalInvocation("PromiseRejectionEvent");
    return this.#reason;
  }
}
expose(PromiseRejectionEvent, "PromiseRejectionEvent", { constructor: 2 });

// ---- targets ----------------------------------------------------------------------

// targetState returns the state of a target, or undefined for another value: listeners is a map
// from a type to the list of its listeners, onChange is called after a listener was added or
// removed.
let targetState;

class EventTarget {
  #state = { __proto__: null, listeners: undefined, handlers: undefined, onChange: undefined };
  static state(value) { return isObject(value) && #state in value ? value.#state : undefined; }

  addEventListener(type, callback, options) {
    const state = readTarget(this);
    requireArguments(arguments, "type", "listener");
    const name = `${type}`;
    const fn = toListener(callback);
    const { capture, once, passive, signal } = toOptions(options, true);
    if (signal !== undefined && signal.aborted()) return;
    if (fn === null) return;
    const listener = addListener(state, name, fn, capture, once, passive);
    if (listener !== undefined && signal !== undefined) {
      listener.forget = signal.add(() => removeListener(state, name, listener));
    }
  }
  removeEventListener(type, callback, options) {
    const state = readTarget(this);
    requireArguments(arguments, "type", "listener");
    const name = `${type}`;
    const fn = toListener(callback);
    const { capture } = toOptions(options, false);
    const at = findListener(state, name, fn, capture);
    if (at !== -1) removeListener(state, name, mapGet(state.listeners, name)[at]);
  }
  dispatchEvent(event) {
    readTarget(this);
    requireArguments(arguments, "event");
    const state = eventState(event);
    if (state === undefined) throw invalidArgument("event", "an instance of Event", event);
    if (state.isDispatched || !state.isInitialized) throw domError("InvalidStateError", "The event is already being dispatched");
    state.isTrusted = false;
    return dispatch(this, event);
  }
}
targetState = EventTarget.state;
delete EventTarget.state;
expose(EventTarget, "EventTarget", { addEventListener: 2, removeEventListener: 2 });
defineInspection(EventTarget, "EventTarget", (target) => (targetState(target) === undefined ? undefined : {}));

const readTarget = (value) => {
  const state = targetState(value);
  if (state === undefined) throw illegalInvocation("EventTarget");
  return state;
};

const toListener = (callback) => {
  if (callback === undefined || callback === null) return null;
  if (!isObject(callback)) throw invalidArgument("listener", "an instance of EventListener", callback);
  return callback;
};

const toOptions = (options, isAdded) => {
  if (!isObject(options)) return { __proto__: null, capture: !!options, once: false, passive: false, signal: undefined };
  const capture = !!options.capture;
  if (!isAdded) return { __proto__: null, capture };
  const once = !!options.once;
  const passive = !!options.passive;
  const given = options.signal;
  const signal = given === undefined ? undefined : platform.load("abort").signalOf(given);
  if (given !== undefined && signal === undefined) throw invalidArgument("options.signal", "an instance of AbortSignal", given);
  return { __proto__: null, capture, once, passive, signal };
};

const findListener = (state, type, callback, capture) => {
  const list = state.listeners === undefined ? undefined : mapGet(state.listeners, type);
  if (list === undefined) return -1;
  for (let i = 0; i < list.length; i++) if (list[i].callback === callback && list[i].capture === capture) return i;
  return -1;
};

// addListener returns the new listener, or undefined if there is an equal one.
const addListener = (state, type, callback, capture, once, passive) => {
  if (findListener(state, type, callback, capture) !== -1) return undefined;
  if (state.listeners === undefined) state.listeners = new platform.Map();
  let list = mapGet(state.listeners, type);
  if (list === undefined) mapSet(state.listeners, type, list = newList());
  const listener = { __proto__: null, callback, capture, once, passive, isRemoved: false, forget: undefined };
  list[list.length] = listener;
  if (state.onChange !== undefined) state.onChange(type, list.length);
  return listener;
};

const removeListener = (state, type, listener) => {
  if (listener.isRemoved) return;
  listener.isRemoved = true;
  const list = mapGet(state.listeners, type);
  let at = 0;
  while (list[at] !== listener) at++;
  for (; at < list.length - 1; at++) list[at] = list[at + 1];
  list.length--;
  if (list.length === 0) mapDelete(state.listeners, type);
  if (listener.forget !== undefined) listener.forget();
  if (state.onChange !== undefined) state.onChange(type, list.length);
};

const countListeners = (target, type) => {
  const { listeners } = targetState(target);
  const list = listeners === undefined ? undefined : mapGet(listeners, type);
  return list === undefined ? 0 : list.length;
};

// dispatch returns whether no listener canceled the event.
const dispatch = (target, event) => {
  const state = eventState(event);
  const { listeners } = targetState(target);
  state.isDispatched = true;
  state.target = state.currentTarget = target;
  state.phase = phases.AT_TARGET;
  if (listeners !== undefined) {
    invoke(listeners, event, state, true);
    invoke(listeners, event, state, false);
  }
  state.isDispatched = state.stops = state.stopsImmediately = false;
  state.phase = phases.NONE;
  state.currentTarget = null;
  return !state.isCanceled;
};

// invoke calls the listeners that are there now. Listeners that are added meanwhile are not
// called, removed ones neither.
const invoke = (listeners, event, state, capture) => {
  if (state.stops) return;
  const list = mapGet(listeners, state.type);
  if (list === undefined) return;
  const present = newList();
  for (let i = 0; i < list.length; i++) if (list[i].capture === capture) present[present.length] = list[i];
  for (let i = 0; i < present.length; i++) {
    const listener = present[i];
    if (listener.isRemoved) continue;
    const target = state.currentTarget;
    if (listener.once) removeListener(targetState(target), state.type, listener);
    state.isPassive = listener.passive;
    try {
      call(listener, target, event, state);
    } catch (error) {
      platform.reportError(error);
    }
    state.isPassive = false;
    if (state.stopsImmediately) return;
  }
};

const call = (listener, target, event, state) => {
  const { callback } = listener;
  if (listener.isHandler) {
    if (typeof callback.fn === "function" && ReflectApply(callback.fn, target, [event]) === false) cancel(state);
    return;
  }
  if (typeof callback === "function") {
    ReflectApply(callback, target, [event]);
    return;
  }
  const { handleEvent } = callback;
  if (typeof handleEvent !== "function") throw codedError(TypeError, "ERR_INVALID_ARG_TYPE", "The listener has no function handleEvent");
  ReflectApply(handleEvent, callback, [event]);
};

// fire dispatches a new event of the runtime, and returns whether no listener canceled it.
const fire = (target, event) => {
  eventState(event).isTrusted = true;
  return dispatch(target, event);
};

// ---- event handlers ---------------------------------------------------------------

// defineHandler defines an event handler such as onabort, whose function is a listener that keeps
// its place while it is replaced. isTarget checks the receiver, onSet is called after an
// assignment.
const defineHandler = (Class, type, name, isTarget, onSet) => {
  const accessors = {
    get [`on${type}`]() {
      if (!isTarget(this)) throw illegalInvocation(name);
      const { handlers } = targetState(this);
      return handlers === undefined || handlers[type] === undefined ? null : handlers[type].callback.fn;
    },
    set [`on${type}`](value) {
      if (!isTarget(this)) throw illegalInvocation(name);
      const state = targetState(this);
      const fn = isObject(value) ? value : null;
      if (state.handlers === undefined) state.handlers = ObjectCreate(null);
      const listener = state.handlers[type];
      if (fn === null) {
        if (listener !== undefined) removeListener(state, type, listener);
        state.handlers[type] = undefined;
      } else if (listener !== undefined) {
        listener.callback.fn = fn;
      } else {
        const added = addListener(state, type, { __proto__: null, fn }, false, false, false);
        added.isHandler = true;
        state.handlers[type] = added;
      }
      if (onSet !== undefined) onSet(this);
    },
  };
  const { get, set } = platform.ObjectGetOwnPropertyDescriptor(accessors, `on${type}`);
  ObjectDefineProperty(Class.prototype, `on${type}`, { __proto__: null, get, set, enumerable: true, configurable: true });
};

return {
  Event, EventTarget, CustomEvent, ErrorEvent, PromiseRejectionEvent,
  eventState, targetState, countListeners, dispatch, fire, defineHandler,
};
