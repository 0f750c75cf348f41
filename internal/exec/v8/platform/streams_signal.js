// The signal of the controller of a writable stream. It is made when a script asks for it.

const newSignal = () => {
  let aborted = false;
  let reason;
  let made;
  return {
    __proto__: null,
    abort: (why) => {
      if (aborted) return;
      aborted = true;
      reason = why;
      if (made !== undefined) made.abort(why);
    },
    object: () => {
      if (made === undefined) {
        made = platform.load("abort").createSignal();
        if (aborted) made.abort(reason);
      }
      return made.signal;
    },
  };
};

return { newSignal };
