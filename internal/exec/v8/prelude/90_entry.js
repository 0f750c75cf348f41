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
  answer: answerCall,
  cancelTimers: cancelAllTimers,
  forgetCalls,
  prepareStack,
  end(ran) {
    endScript(ran !== 0);
    suspendTimers();
    forgetCalls(); // once more, for a run that is not saved
    groupIndent = ""; // a run that left a console.group open must not indent the next
    timeOrigin = 0; // equal state is an equal heap, whenever it was reached
  },
  result: resultText,
  error: errorResult,
  noteNames,
  unshareRegExps,
  readStacks,
  inspectHeap,
  inspectGlobal,
  globalChange,
  captureIntrinsics,
  intrinsics: () => intrinsics,
  partOfGlobal,
  classOf: (value) => constructorName(value, newContext(), 0),
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
      captureIntrinsics();
    } else {
      captureSharedArrayBuffer();
      bindIntlClock();
    }
  },
};

return entry;
