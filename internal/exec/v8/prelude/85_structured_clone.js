// structuredClone, and what outlives a run of the group clone.

// bind reads the name of call, which user code may make an accessor: the group, which is evaluated
// after user code, must not bind.
const ArrayBufferPrototypeTransfer = uncurryThis(NativeArrayBuffer.prototype.transfer);
const bufferIsResizable = getterOf(NativeArrayBuffer.prototype, "resizable");
const bufferMaxByteLength = getterOf(NativeArrayBuffer.prototype, "maxByteLength");
const registryUnregister = uncurryThis(FinalizationRegistry.prototype.unregister);

// cloneables has functions of the parts of the platform. Each receives an object. For one of its
// own, it returns clone, which returns a copy (undefined if it cannot be cloned), and transfer
// (undefined if it cannot be transferred). transfer returns the object on the other side, and commit, which
// is called when everything else is copied.
const cloneables = newList();
const findCloneable = (value) => {
  for (let i = 0; i < cloneables.length; i++) {
    const found = cloneables[i](value);
    if (found !== undefined) return found;
  }
};

// cloneMessage(value, options, check) clones a value with the option transfer. It returns the
// copy as value, and the objects on the other side as transferred. check is called with each
// object to transfer.
const cloning = lazily(evaluateClone);
const cloneMessage = (value, options, check) => cloning().cloneMessage(value, options, check);

const { structuredClone } = {
  structuredClone(value, options) {
    if (arguments.length === 0) {
      throw codedError(NativeTypeError, "ERR_MISSING_ARGS", "The value argument must be specified", structuredClone);
    }
    return cloneMessage(value, options, () => {}).value;
  },
};
defineHidden(global, "structuredClone", setMeta(structuredClone, "structuredClone", 1));
