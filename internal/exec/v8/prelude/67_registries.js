// FinalizationRegistry.prototype.register records that it was called. A callback of an
// earlier run may run whenever the engine collects garbage, and the run gets a warning.

let finalizersKept = false; // once an object was registered

(() => {
  const { prototype } = FinalizationRegistry;
  const nativeRegister = uncurryThis(prototype.register);
  const { register } = {
    register(target, heldValue, unregisterToken = undefined) {
      nativeRegister(this, target, heldValue, unregisterToken);
      finalizersKept = true;
    },
  };
  ObjectDefineProperty(prototype, "register", { __proto__: null, value: register, writable: true, enumerable: false, configurable: true });
})();
