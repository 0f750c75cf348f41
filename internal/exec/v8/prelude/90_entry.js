// entry is the object of this realm that the native side holds. User code never sees it.

const entry = {
  __proto__: null,
  begin(startMs, servers, name, file, mappings) {
    timeOrigin = startMs;
    beginScript(name, file, mappings);
    offerServers(servers);
    resumeTimers(startMs);
  },
  defineNodeGlobals,
  nextDue,
  timers: timerHeap, // the native side reads the first one, which runs no code
  fire: fireNext,
  answer: (number, ok, text) => calling().answerCall(number, ok, text),
  cancelTimers: cancelAllTimers,
  // forgetCalls returns whether callbacks of a FinalizationRegistry may run.
  forgetCalls() {
    forgetCalls();
    forgetGroups();
    return finalizersKept;
  },
  prepareStack: (error, sites) => stacks().prepareStack(error, sites),
  end(ran) {
    endScript(ran !== 0);
    suspendTimers();
    forgetCalls(); // once more, for a run that is not saved
    groupIndent = ""; // a run that left a console.group open must not indent the next
    forgetGroups();
    timeOrigin = 0; // equal state is an equal heap, whenever it was reached
  },
  result: resultOf,
  error: (value) => inspecting().errorResult(value),
  noteNames,
  unshareRegExps,
  readStacks: (list) => stacks().readStacks(list),
  inspectHeap: () => recording().inspectHeap(),
  inspectGlobal,
  globalChange,
  // captureIntrinsics prepares the base of contexts whose heap is not saved. Its runs need not
  // compile the parts that many of them use.
  captureIntrinsics() {
    recording().captureIntrinsics();
    evaluateGroups();
    loadPart("textcoding");
    loadPart("base64");
  },
  namesOfGlobals: () => recording().namesOfGlobals(),
  partOfGlobal,
  classOf: classNameOf,
  explainSyntaxError,
  loadModules,
  importModule,
  setMode(stateful) {
    heapIsSaved = stateful;
    if (stateful) {
      // A snapshot cannot hold either of them, so user code must not find them.
      delete global.WebAssembly;
      delete global.SharedArrayBuffer;
      installIntlShim();
      recording().captureIntrinsics();
      forgetGroups();
    } else {
      captureSharedArrayBuffer();
      bindIntlClock();
    }
  },
};

return entry;
