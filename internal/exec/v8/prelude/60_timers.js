// Timers, immediates and microtasks on the virtual clock.
//
// One binary heap orders all entries by due time and then by creation, so scheduling and
// cancelling cost O(log n). Entries are plain data in the heap of the isolate: a snapshot
// keeps them, with the delay that they had left.

const maxDelay = 2147483647;

// An immediate that is created while another runs belongs to the next turn of the loop. Its
// due time is slightly later (by a binary fraction, so sums stay exact). Otherwise a chain
// of immediates would stop the clock, and no timer would fire.
const immediateTurn = 1 / 64;

const timerHeap = newList();
let timerSequence = 0;
let activeRefs = 0;
let inImmediateTurn = false;
const exposedTimers = new NativeMap(); // id -> record, for timers used as a primitive
let nextTimerId = 1;

// Moves are loops without calls, so that a stack overflow cannot happen in the middle of a
// move and leave the heap out of order.
const siftUp = (at) => {
  const record = timerHeap[at];
  while (at > 0) {
    const parentAt = (at - 1) >> 1;
    const parent = timerHeap[parentAt];
    if (parent.due < record.due || (parent.due === record.due && parent.order < record.order)) break;
    timerHeap[at] = parent;
    parent.at = at;
    at = parentAt;
  }
  timerHeap[at] = record;
  record.at = at;
};

const siftDown = (at) => {
  const record = timerHeap[at];
  const size = timerHeap.length;
  for (;;) {
    let childAt = 2 * at + 1;
    if (childAt >= size) break;
    let child = timerHeap[childAt];
    if (childAt + 1 < size) {
      const right = timerHeap[childAt + 1];
      if (right.due < child.due || (right.due === child.due && right.order < child.order)) {
        child = right;
        childAt++;
      }
    }
    if (record.due < child.due || (record.due === child.due && record.order < child.order)) break;
    timerHeap[at] = child;
    child.at = at;
    at = childAt;
  }
  timerHeap[at] = record;
  record.at = at;
};

const insertTimer = (record, due) => {
  record.due = due;
  record.order = timerSequence++;
  record.at = timerHeap.length;
  timerHeap[record.at] = record;
  if (record.ref) activeRefs++;
  siftUp(record.at);
};

const removeTimer = (record) => {
  const at = record.at;
  if (at < 0) return;
  const lastAt = timerHeap.length - 1;
  const last = timerHeap[lastAt];
  timerHeap.length = lastAt;
  record.at = -1;
  if (record.ref) activeRefs--;
  if (at === lastAt) return;
  timerHeap[at] = last;
  last.at = at;
  siftUp(at);
  siftDown(last.at);
};

const cancelTimer = (record) => {
  removeTimer(record);
  record.cancelled = true;
  if (record.id !== 0) MapPrototypeDelete(exposedTimers, record.id);
};

// cancelAllTimers cancels every timer, also unref'd timers and those of earlier runs, and
// returns how many there were.
const cancelAllTimers = () => {
  const count = timerHeap.length;
  for (let i = 0; i < count; i++) {
    const record = timerHeap[i];
    record.at = -1;
    record.cancelled = true;
    if (record.id !== 0) MapPrototypeDelete(exposedTimers, record.id);
  }
  timerHeap.length = 0;
  activeRefs = 0;
  return count;
};

// countTimers counts the scheduled entries by kind.
const countTimers = () => {
  const counts = { __proto__: null, timeouts: 0, intervals: 0, immediates: 0, unreferenced: 0 };
  for (let i = 0; i < timerHeap.length; i++) {
    const record = timerHeap[i];
    if (record.immediate) counts.immediates++;
    else if (record.repeat) counts.intervals++;
    else counts.timeouts++;
    if (!record.ref) counts.unreferenced++;
  }
  return counts;
};

// User code holds objects of Timeout and Immediate. The record is not accessible to it.
let recordOf;
let immediateRecordOf;

const TimeoutClass = (() => {
  class Timeout {
    #record;
    constructor(record) { this.#record = record; }
    static read(value) { return #record in value ? value.#record : undefined; }

    ref() {
      const record = this.#record;
      if (!record.ref) {
        record.ref = true;
        if (record.at >= 0) activeRefs++;
      }
      return this;
    }
    unref() {
      const record = this.#record;
      if (record.ref) {
        record.ref = false;
        if (record.at >= 0) activeRefs--;
      }
      return this;
    }
    hasRef() { return this.#record.ref; }
    refresh() {
      const record = this.#record;
      if (!record.cancelled) {
        removeTimer(record);
        insertTimer(record, host.now() + record.delay);
      }
      return this;
    }
    close() {
      cancelTimer(this.#record);
      return this;
    }
    [SymbolToPrimitive]() {
      const record = this.#record;
      if (record.id === 0) {
        record.id = nextTimerId++;
        if (record.at >= 0) MapPrototypeSet(exposedTimers, record.id, record);
      }
      return record.id;
    }
  }
  recordOf = Timeout.read;
  delete Timeout.read;
  const { close } = Timeout.prototype;
  if (SymbolDispose !== undefined) {
    defineHidden(Timeout.prototype, SymbolDispose, setMeta({ dispose() { ReflectApply(close, this, []); } }.dispose, "[Symbol.dispose]", 0));
  }
  return Timeout;
})();

const ImmediateClass = (() => {
  class Immediate {
    #record;
    constructor(record) { this.#record = record; }
    static read(value) { return #record in value ? value.#record : undefined; }

    ref() {
      const record = this.#record;
      if (!record.ref) {
        record.ref = true;
        if (record.at >= 0) activeRefs++;
      }
      return this;
    }
    unref() {
      const record = this.#record;
      if (record.ref) {
        record.ref = false;
        if (record.at >= 0) activeRefs--;
      }
      return this;
    }
    hasRef() { return this.#record.ref; }
  }
  immediateRecordOf = Immediate.read;
  delete Immediate.read;
  if (SymbolDispose !== undefined) {
    defineHidden(Immediate.prototype, SymbolDispose, setMeta({ dispose() { cancelTimer(immediateRecordOf(this)); } }.dispose, "[Symbol.dispose]", 0));
  }
  return Immediate;
})();

const newRecord = (callback, args, delay, repeat, immediate) => ({
  __proto__: null, due: 0, order: 0, at: -1, callback, args, delay, repeat, immediate, ref: true, cancelled: false, id: 0, handle: undefined,
});

// A delay out of range becomes 1 ms, as in Node and browsers.
const delayOf = (value) => {
  const delay = value * 1;
  if (delay >= 1 && delay <= maxDelay) return MathTrunc(delay);
  if (delay > maxDelay) {
    emit(levelWarn, `TimeoutOverflowWarning: ${delay} does not fit into a 32-bit signed integer.\nTimeout duration was set to 1.`);
  }
  return 1;
};

const startTimer = (callback, value, args, repeat) => {
  const record = newRecord(callback, args, delayOf(value), repeat, false);
  record.handle = new TimeoutClass(record);
  insertTimer(record, host.now() + record.delay);
  return record.handle;
};

// clearAny takes a handle, or the number or numeric string that a handle was converted to.
const clearAny = (value) => {
  if (typeof value === "object" && value !== null) {
    const record = recordOf(value);
    if (record !== undefined) cancelTimer(record);
    return;
  }
  if (typeof value === "number" || typeof value === "string") {
    const record = MapPrototypeGet(exposedTimers, typeof value === "number" ? value : timerIdOf(value));
    if (record !== undefined) cancelTimer(record);
  }
};

// Only the canonical form of an id names a timer: "7", not "07" or " 7".
const timerIdOf = (text) => {
  const id = NativeNumber(text);
  return `${id}` === text ? id : undefined;
};

// nextDue returns when the loop has to wake up, or -1 if nothing keeps the run alive.
const nextDue = () => (timerHeap.length === 0 || (activeRefs === 0 && callsInFlight === 0) ? -1 : timerHeap[0].due);

// fireNext runs the earliest entry. The caller reports what the callback throws. An
// interval is scheduled again in both cases.
const fireNext = () => {
  if (timerHeap.length === 0) return;
  const record = timerHeap[0];
  removeTimer(record);
  inImmediateTurn = record.immediate;
  try {
    ReflectApply(record.callback, record.handle, record.args);
  } finally {
    if (record.at < 0 && !record.cancelled) {
      if (record.repeat) insertTimer(record, host.now() + record.delay);
      else if (record.id !== 0) MapPrototypeDelete(exposedTimers, record.id);
    }
  }
};

// Between runs only the remaining delay has a meaning: the next run has another clock. Both
// shifts are monotonic, so the heap stays in order.
const suspendTimers = () => {
  const current = host.now();
  for (let i = 0; i < timerHeap.length; i++) timerHeap[i].due = MathMax(0, timerHeap[i].due - current);
};

const resumeTimers = (startMs) => {
  for (let i = 0; i < timerHeap.length; i++) timerHeap[i].due += startMs;
  inImmediateTurn = false;
};

(() => {
  const define = (fn, length) => defineHidden(global, fn.name, setMeta(fn, fn.name, length));

  const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate, queueMicrotask } = {
    setTimeout(callback, delay, ...args) {
      requireFunction(callback, "callback", setTimeout);
      return startTimer(callback, delay, args, false);
    },
    setInterval(callback, delay, ...args) {
      requireFunction(callback, "callback", setInterval);
      return startTimer(callback, delay, args, true);
    },
    setImmediate(callback, ...args) {
      requireFunction(callback, "callback", setImmediate);
      const record = newRecord(callback, args, 0, false, true);
      record.handle = new ImmediateClass(record);
      insertTimer(record, host.now() + (inImmediateTurn ? immediateTurn : 0));
      return record.handle;
    },
    clearTimeout(timer) { clearAny(timer); },
    clearInterval(timer) { clearAny(timer); },
    clearImmediate(immediate) {
      if (typeof immediate !== "object" || immediate === null) return;
      const record = immediateRecordOf(immediate);
      if (record !== undefined) cancelTimer(record);
    },
    queueMicrotask(callback) {
      requireFunction(callback, "callback", queueMicrotask);
      runInMicrotask(callback);
    },
  };
  define(setTimeout, 5);
  define(setInterval, 5);
  define(setImmediate, 4);
  define(clearTimeout, 1);
  define(clearInterval, 1);
  define(clearImmediate, 1);
  define(queueMicrotask, 1);

  // Awaiting a primitive takes exactly one microtask. Unlike Promise.prototype.then, it
  // reads no object's constructor.
  const runInMicrotask = async (callback) => {
    await undefined;
    try {
      callback();
    } catch (error) {
      host.reportError(error);
    }
  };
})();
