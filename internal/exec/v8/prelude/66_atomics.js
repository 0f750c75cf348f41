// Atomics.waitAsync and Atomics.notify on the virtual clock. The engine's own timeouts run
// in real time, and a run does not wait for them. A run has one thread, so this file knows
// every waiter and the engine needs none.

(() => {
  const { Atomics } = global;
  const { waitAsync: nativeWaitAsync, notify: nativeNotify } = Atomics;
  const waiting = new NativeWeakMap(); // buffer -> index -> waiters, first come first served

  const waitersAt = (buffer, index) => {
    let lists = WeakMapPrototypeGet(waiting, buffer);
    if (lists === undefined) WeakMapPrototypeSet(waiting, buffer, lists = new NativeMap());
    let list = MapPrototypeGet(lists, index);
    if (list === undefined) MapPrototypeSet(lists, index, list = newList());
    return list;
  };

  const forget = (buffer, index, waiter) => {
    const list = waitersAt(buffer, index);
    let kept = 0;
    for (let i = 0; i < list.length; i++) if (list[i] !== waiter) list[kept++] = list[i];
    list.length = kept;
    if (kept === 0) MapPrototypeDelete(WeakMapPrototypeGet(waiting, buffer), index);
  };

  // Indexes are in bytes from the start of the buffer, because views may overlap.
  const byteIndex = (array, index) =>
    TypedArrayPrototypeGetByteOffset(array) + index * (TypedArrayPrototypeGetName(array) === "BigInt64Array" ? 8 : 4);

  const { waitAsync, notify } = {
    waitAsync(typedArray, index, value, timeout) {
      const at = MathTrunc(+index) || 0;
      let delay = 0;
      // The engine validates the arguments and reads the timeout last. It gets the timeout
      // 0, returns at once and keeps no waiter.
      const checked = nativeWaitAsync(typedArray, at, value, {
        __proto__: null,
        valueOf() {
          delay = +timeout;
          return 0;
        },
      });
      if (checked.value === "not-equal" || delay <= 0) return checked;
      const buffer = TypedArrayPrototypeGetBuffer(typedArray);
      const place = byteIndex(typedArray, at);
      let settle;
      const promise = new NativePromise((resolve) => { settle = resolve; });
      const waiter = { __proto__: null, settle, timer: undefined };
      if (delay <= maxDelay) { // a longer one, or none, outlasts every run
        waiter.timer = newRecord(() => {
          forget(buffer, place, waiter);
          settle("timed-out");
        }, [], delay, false, false);
        insertTimer(waiter.timer, host.now() + delay);
      }
      const list = waitersAt(buffer, place);
      list[list.length] = waiter;
      return { async: true, value: promise };
    },
    notify(typedArray, index, count) {
      const at = MathTrunc(+index) || 0;
      const most = count === undefined ? Infinity : MathMax(0, MathTrunc(+count) || 0);
      nativeNotify(typedArray, at, 0); // checks the array and the index
      const buffer = TypedArrayPrototypeGetBuffer(typedArray);
      const lists = WeakMapPrototypeGet(waiting, buffer);
      const place = byteIndex(typedArray, at);
      const list = lists === undefined ? undefined : MapPrototypeGet(lists, place);
      if (list === undefined) return 0;
      const woken = MathMin(most, list.length);
      for (let i = 0; i < woken; i++) {
        if (list[i].timer !== undefined) cancelTimer(list[i].timer);
        list[i].settle("ok");
      }
      for (let i = woken; i < list.length; i++) list[i - woken] = list[i];
      list.length -= woken;
      if (list.length === 0) MapPrototypeDelete(lists, place);
      return woken;
    },
  };
  defineHidden(Atomics, "waitAsync", setMeta(waitAsync, "waitAsync", 4));
  defineHidden(Atomics, "notify", setMeta(notify, "notify", 3));
})();
