// What scripts learn from the garbage collector. When the engine collects an object depends on
// more than the inputs of a run, so a run that learns it may not repeat. host.now with one of
// these numbers marks the run: 1, it read a WeakRef whose target was collected; 2, a callback
// of a FinalizationRegistry ran.
//
// FinalizationRegistry.prototype.register also records that it was called. A callback of an
// earlier run may run whenever the engine collects garbage, and the run gets a warning.

let finalizersKept = false; // once an object was registered

{
  // Every heap holds these names. They are names that the engine has anyway.
  const { FinalizationRegistry, WeakRef } = global;
  const { prototype } = FinalizationRegistry;
  const { register } = prototype;
  const { deref } = WeakRef.prototype;
  const replaced = {
    register(target, heldValue, unregisterToken = undefined) {
      ReflectApply(register, this, [target, heldValue, unregisterToken]);
      finalizersKept = true;
    },
    deref() {
      const target = ReflectApply(deref, this, []);
      if (target === undefined) host.now(1);
      return target;
    },
    FinalizationRegistry: function (cleanupCallback) {
      // The engine refuses a call without new, and a value that is no function.
      if (new.target === undefined) return FinalizationRegistry();
      return ReflectConstruct(FinalizationRegistry, [typeof cleanupCallback !== "function" ? cleanupCallback : (heldValue) => {
        host.now(2);
        ReflectApply(cleanupCallback, undefined, [heldValue]);
      }], new.target);
    },
  };
  replaced.FinalizationRegistry.prototype = prototype;
  defineHidden(prototype, "register", replaced.register);
  defineHidden(prototype, "constructor", replaced.FinalizationRegistry);
  defineHidden(WeakRef.prototype, "deref", replaced.deref);
  defineHidden(global, "FinalizationRegistry", replaced.FinalizationRegistry);
}
