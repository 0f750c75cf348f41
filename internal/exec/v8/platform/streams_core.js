// What the parts of streams have in common: queues with sizes, strategies, and the conversion of
// the objects that scripts pass. The names of functions are those of the Streams standard, where
// it has one.
//
// A stream, reader, writer or controller that a script holds is an object with a private record.
// The parts work with the records, never with the objects: scripts can change the objects'
// prototypes.

const {
  TypeError, RangeError, codedError, invalidArgument, isObject, newList, ReflectApply, Uint8Array, host,
} = platform;
const { expose, defineLevelInspection, illegalInvocation } = platform.load("webidl");
const { resolved, rejected, then } = platform.load("promises");

const numberIsInteger = platform.original("Number", "isInteger");
const transfer = platform.method("ArrayBuffer.prototype", "transfer");
const isDetached = platform.getter("ArrayBuffer.prototype", "detached");
const bufferLength = platform.getter("ArrayBuffer.prototype", "byteLength");
const setBytes = platform.method("TypedArray.prototype", "set");

const invalidState = (text, fn) => codedError(TypeError, "ERR_INVALID_STATE", `Invalid state: ${text}`, fn);
const badValue = (Base, what, value) => {
  const shown = typeof value === "string" ? `'${value}'` : platform.inspectWith(value, undefined);
  return codedError(Base, "ERR_INVALID_ARG_VALUE", `The ${what} is invalid. Received ${shown}`);
};

// ---- queues -------------------------------------------------------------------------

// newQueue returns a first-in, first-out list. It frees what was taken after some time.
const newQueue = () => ({ __proto__: null, items: newList(), head: 0 });
const queueLength = (queue) => queue.items.length - queue.head;
const push = (queue, item) => { queue.items[queue.items.length] = item; };
const peek = (queue) => queue.items[queue.head];
const shift = (queue) => {
  const item = queue.items[queue.head];
  queue.items[queue.head++] = undefined;
  if (queue.head === queue.items.length) {
    queue.items = newList();
    queue.head = 0;
  } else if (queue.head > 1000 && queue.head * 2 > queue.items.length) {
    const rest = newList();
    for (let i = queue.head; i < queue.items.length; i++) rest[rest.length] = queue.items[i];
    queue.items = rest;
    queue.head = 0;
  }
  return item;
};

// A controller has queue and queueTotalSize.
const dequeueValue = (container) => {
  const pair = shift(container.queue);
  container.queueTotalSize -= pair.size;
  if (container.queueTotalSize < 0) container.queueTotalSize = 0;
  return pair.value;
};
const enqueueValueWithSize = (container, value, size) => {
  size = +size;
  if (!(size >= 0 && size < Infinity)) throw badValue(RangeError, "argument 'size'", size);
  push(container.queue, { __proto__: null, value, size });
  container.queueTotalSize += size;
};
const resetQueue = (container) => {
  container.queue = newQueue();
  container.queueTotalSize = 0;
};

// ---- strategies ---------------------------------------------------------------------

// readStrategy converts a QueuingStrategy to {highWaterMark, size}, whose members may be undefined.
const readStrategy = (value) => {
  const strategy = { __proto__: null, highWaterMark: undefined, size: undefined };
  if (value === undefined || value === null) return strategy;
  if (!isObject(value)) throw invalidArgument("strategy", "of type object", value);
  const { highWaterMark } = value;
  if (highWaterMark !== undefined) strategy.highWaterMark = +highWaterMark;
  const { size } = value;
  if (size !== undefined && typeof size !== "function") throw invalidArgument("strategy.size", "of type function", size);
  strategy.size = size;
  return strategy;
};
const extractHighWaterMark = (strategy, otherwise) => {
  const mark = strategy.highWaterMark;
  if (mark === undefined) return otherwise;
  if (mark !== mark || mark < 0) throw badValue(RangeError, "property 'strategy.highWaterMark'", mark);
  return mark;
};
const extractSizeAlgorithm = ({ size }) => (size === undefined ? () => 1 : (chunk) => ReflectApply(size, undefined, [chunk]));

const readInit = (init, constructor) => {
  if (!isObject(init)) throw invalidArgument("init", "of type object", init, constructor);
  const { highWaterMark } = init;
  if (highWaterMark === undefined) throw codedError(TypeError, "ERR_MISSING_OPTION", "init.highWaterMark is required", constructor);
  return +highWaterMark;
};
const countSize = { size() { return 1; } }.size;
const byteSize = { size(chunk) { return chunk.byteLength; } }.size;

class CountQueuingStrategy {
  #highWaterMark;
  constructor(init) { this.#highWaterMark = readInit(init, CountQueuingStrategy); }
  get highWaterMark() {
    if (!(#highWaterMark in this)) throw illegalInvocation("CountQueuingStrategy");
    return this.#highWaterMark;
  }
  get size() {
    if (!(#highWaterMark in this)) throw illegalInvocation("CountQueuingStrategy");
    return countSize;
  }
}
class ByteLengthQueuingStrategy {
  #highWaterMark;
  constructor(init) { this.#highWaterMark = readInit(init, ByteLengthQueuingStrategy); }
  get highWaterMark() {
    if (!(#highWaterMark in this)) throw illegalInvocation("ByteLengthQueuingStrategy");
    return this.#highWaterMark;
  }
  get size() {
    if (!(#highWaterMark in this)) throw illegalInvocation("ByteLengthQueuingStrategy");
    return byteSize;
  }
}
expose(CountQueuingStrategy, "CountQueuingStrategy");
expose(ByteLengthQueuingStrategy, "ByteLengthQueuingStrategy");
const markOf = (Strategy) => platform.uncurryThis(platform.ObjectGetOwnPropertyDescriptor(Strategy.prototype, "highWaterMark").get);
const countMark = markOf(CountQueuingStrategy);
const byteMark = markOf(ByteLengthQueuingStrategy);
defineLevelInspection(CountQueuingStrategy, "CountQueuingStrategy", (strategy) => ({ highWaterMark: countMark(strategy) }));
defineLevelInspection(ByteLengthQueuingStrategy, "ByteLengthQueuingStrategy", (strategy) => ({ highWaterMark: byteMark(strategy) }));

// ---- what a script passes -----------------------------------------------------------

// readCallback returns a member of a dictionary that must be a function if it is there.
const readCallback = (object, key, name) => {
  const value = object[key];
  if (value !== undefined && typeof value !== "function") throw invalidArgument(`${name}.${key}`, "of type function", value);
  return value;
};

// promiseCall returns a function that calls a callback of a script and returns a promise of its
// result. Without a callback, the promise is fulfilled.
const promiseCall = (callback, receiver) => {
  if (callback === undefined) return () => resolved(undefined);
  return (...args) => {
    try {
      return resolved(ReflectApply(callback, receiver, args));
    } catch (error) {
      return rejected(error);
    }
  };
};

// uponPromise runs steps when a promise is settled. An error in them is an error of this part.
const uponPromise = (promise, onFulfilled, onRejected) => {
  then(then(promise, onFulfilled, onRejected), undefined, host.reportError);
};

// ---- bytes --------------------------------------------------------------------------

const transferBuffer = (buffer) => transfer(buffer);

const copyDataBlock = (to, toIndex, from, fromIndex, count) => {
  setBytes(new Uint8Array(to, toIndex, count), new Uint8Array(from, fromIndex, count));
};

return {
  CountQueuingStrategy, ByteLengthQueuingStrategy,
  invalidState, badValue, numberIsInteger,
  newQueue, queueLength, push, peek, shift, dequeueValue, enqueueValueWithSize, resetQueue,
  readStrategy, extractHighWaterMark, extractSizeAlgorithm,
  readCallback, promiseCall, uponPromise,
  transferBuffer, isDetached, bufferLength, copyDataBlock,
};
