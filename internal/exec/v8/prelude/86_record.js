// What outlives a run of the group intrinsics: the record of the built-in objects as the prelude
// leaves them.

const recording = lazily(evaluateIntrinsics);

const intrinsics = newList(); // its sections

// globalChange says what an earlier run did to the global object if it accepts no new
// properties. It returns "" for a global object that does.
const globalChange = () => {
  if (ObjectIsExtensible(global)) return "";
  return ObjectIsFrozen(global) ? "froze globalThis" : ObjectIsSealed(global) ? "sealed globalThis" : "prevented extensions of globalThis";
};

