// Channels whose ports pass copies of values.
//
// A message is copied when it is sent, and arrives in a task of the timers, as that of
// setImmediate. Such a task keeps the run alive. An open port does not: no message could come.

const { ObjectFreeze, codedError, isObject, newList, TypeError, domError, cloneMessage, addCloneable } = platform;
const { illegalInvocation, requireArguments, toUSVString, toSequence, iteratorOf, expose } = platform.load("webidl");
const { Event, EventTarget, fire, defineHandler } = platform.load("events");

const setImmediate = platform.original("globalThis", "setImmediate");
const unrefImmediate = platform.method("Immediate.prototype", "unref");

const secret = {};

const refuse = (text) => domError("DataCloneError", text);

// ---- events -----------------------------------------------------------------------

const toPorts = (value) => {
  const array = [];
  if (value === undefined) return ObjectFreeze(array);
  const method = iteratorOf(value);
  if (method === undefined) throw platform.invalidArgument("eventInitDict.ports", "an iterable of MessagePorts", value);
  const list = toSequence(value, method, (port) => {
    if (endpointOf(port) === undefined) throw platform.invalidArgument("eventInitDict.ports", "an iterable of MessagePorts", value);
    return port;
  });
  return freezeList(list);
};

const freezeList = (list) => {
  const array = [];
  for (let i = 0; i < list.length; i++) {
    platform.ObjectDefineProperty(array, i, { __proto__: null, value: list[i], writable: true, enumerable: true, configurable: true });
  }
  return ObjectFreeze(array);
};

const toSource = (source) => {
  if (source === undefined || source === null) return null;
  if (endpointOf(source) === undefined) throw platform.invalidArgument("eventInitDict.source", "an instance of MessagePort", source);
  return source;
};

class MessageEvent extends Event {
  #fields = { __proto__: null, data: null, lastEventId: "", origin: "", ports: undefined, source: null };
  constructor(type, init) {
    requireArguments(arguments, "type");
    super(type, init);
    const fields = this.#fields;
    if (isObject(init)) {
      const { data, lastEventId, origin, ports, source } = init;
      if (data !== undefined) fields.data = data;
      if (lastEventId !== undefined) fields.lastEventId = `${lastEventId}`;
      if (origin !== undefined) fields.origin = toUSVString(origin);
      fields.ports = toPorts(ports);
      fields.source = toSource(source);
    } else {
      fields.ports = toPorts(undefined);
    }
  }
  static fields(value) {
    if (!isObject(value) || !(#fields in value)) throw illegalInvocation("MessageEvent");
    return value.#fields;
  }
  get data() { return eventFields(this).data; }
  get origin() { return eventFields(this).origin; }
  get lastEventId() { return eventFields(this).lastEventId; }
  get source() { return eventFields(this).source; }
  get ports() { return eventFields(this).ports; }
}
const eventFields = MessageEvent.fields;
delete MessageEvent.fields;
expose(MessageEvent, "MessageEvent", { constructor: 1 });

// ---- ports ------------------------------------------------------------------------

// endpointOf returns the endpoint of a port, null if the port was transferred or closed, or
// undefined for another value. An endpoint has its port, the other endpoint (null after the end
// of the channel), whether the port was started, and the messages that were not received, from
// first to last. A message has the next one.
let endpointOf;
let setEndpoint;

class MessagePort extends EventTarget {
  #endpoint = null;
  constructor() {
    if (arguments[0] !== secret) throw codedError(TypeError, "ERR_CONSTRUCT_CALL_INVALID", "Constructor cannot be called");
    super();
  }
  static get(value) { return isObject(value) && #endpoint in value ? value.#endpoint : undefined; }
  static set(port, endpoint) { port.#endpoint = endpoint; }

  postMessage(message, options) {
    const endpoint = read(this);
    requireArguments(arguments, "message");
    const transfer = isObject(options) && options[platform.SymbolIterator] !== undefined ? { __proto__: null, transfer: options } : options;
    const { value, transferred } = cloneMessage(message, transfer, (object) => {
      if (object === this) throw refuse("Transfer list contains source port");
    });
    if (endpoint === null || endpoint.other === null) return;
    const ports = newList();
    for (let i = 0; i < transferred.length; i++) if (endpointOf(transferred[i]) !== undefined) ports[ports.length] = transferred[i];
    deliver(endpoint.other, { __proto__: null, value, ports, next: undefined });
  }
  start() { start(read(this)); }
  close() {
    const endpoint = read(this);
    if (endpoint === null) return;
    const { other } = endpoint;
    endpoint.other = null;
    setEndpoint(this, null);
    if (other === null) return;
    other.other = null;
    schedule(other, finish);
  }
  ref() {
    const endpoint = read(this);
    if (endpoint !== null) endpoint.isUnref = false;
  }
  unref() {
    const endpoint = read(this);
    if (endpoint !== null) endpoint.isUnref = true;
  }
  hasRef() {
    const endpoint = read(this);
    return endpoint !== null && endpoint.isStarted && !endpoint.isUnref;
  }
}
endpointOf = MessagePort.get;
setEndpoint = MessagePort.set;
delete MessagePort.get;
delete MessagePort.set;
expose(MessagePort, "MessagePort", { postMessage: 1 });
const isPort = (value) => endpointOf(value) !== undefined;
defineHandler(MessagePort, "message", "MessagePort", isPort, (port) => start(endpointOf(port)));
defineHandler(MessagePort, "messageerror", "MessagePort", isPort);

const read = (value) => {
  const endpoint = endpointOf(value);
  if (endpoint === undefined) throw illegalInvocation("MessagePort");
  return endpoint;
};

const start = (endpoint) => {
  if (endpoint === null || endpoint.isStarted) return;
  endpoint.isStarted = true;
  for (let message = endpoint.first; message !== undefined; message = message.next) schedule(endpoint, receive);
};

// deliver passes a message to an endpoint.
const deliver = (endpoint, message) => {
  if (endpoint.last === undefined) endpoint.first = message;
  else endpoint.last.next = message;
  endpoint.last = message;
  if (endpoint.isStarted) schedule(endpoint, receive);
};

const schedule = (endpoint, task) => {
  const immediate = setImmediate(task, endpoint);
  if (endpoint.isUnref) unrefImmediate(immediate);
};

// receive receives the first message of an endpoint. A port that was transferred since the task was
// scheduled may not be started, and may have received the message in another task.
const receive = (endpoint) => {
  const { port, first } = endpoint;
  if (!endpoint.isStarted || first === undefined) return;
  if (endpointOf(port) !== endpoint) return; // it was closed
  endpoint.first = first.next;
  if (first.next === undefined) endpoint.last = undefined;
  const event = new MessageEvent("message");
  const fields = eventFields(event);
  fields.data = first.value;
  fields.ports = freezeList(first.ports);
  fire(port, event);
};

// finish tells a port that the other one was closed, whether it was started or not.
const finish = (endpoint) => {
  if (endpointOf(endpoint.port) === endpoint) fire(endpoint.port, new Event("close"));
};

// A port that is transferred has an object of its own on the other side.
addCloneable((value) => {
  const endpoint = endpointOf(value);
  if (endpoint === undefined) return undefined;
  return {
    __proto__: null,
    clone: undefined,
    transfer() {
      if (endpoint === null) throw refuse("MessagePort in transfer list is already detached");
      const port = new MessagePort(secret);
      return {
        __proto__: null,
        object: port,
        commit() {
          setEndpoint(value, null);
          setEndpoint(port, endpoint);
          endpoint.port = port;
          endpoint.isStarted = false;
        },
      };
    },
  };
});

class MessageChannel {
  #first;
  #second;
  constructor() {
    const endpoints = newList();
    for (let i = 0; i < 2; i++) {
      const port = new MessagePort(secret);
      endpoints[i] = { __proto__: null, port, other: null, isStarted: false, isUnref: false, first: undefined, last: undefined };
      setEndpoint(port, endpoints[i]);
    }
    endpoints[0].other = endpoints[1];
    endpoints[1].other = endpoints[0];
    this.#first = endpoints[0].port;
    this.#second = endpoints[1].port;
  }
  get port1() {
    if (!(#first in this)) throw illegalInvocation("MessageChannel");
    return this.#first;
  }
  get port2() {
    if (!(#first in this)) throw illegalInvocation("MessageChannel");
    return this.#second;
  }
}
expose(MessageChannel, "MessageChannel");

return { MessageChannel, MessageEvent, MessagePort };
