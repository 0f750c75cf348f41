// Random numbers from the run's recorded seed: a replay draws the same numbers.

defineHidden(NativeMath, "random", { random() { return host.random(); } }.random);

(() => {
  // Float arrays and DataView are refused: not every bit pattern is a number.
  const isIntegerArray = (value) => {
    switch (host.kindOf(value) === "typedArray" ? TypedArrayPrototypeGetName(value) : "") {
      case "Int8Array": case "Uint8Array": case "Uint8ClampedArray":
      case "Int16Array": case "Uint16Array":
      case "Int32Array": case "Uint32Array":
      case "BigInt64Array": case "BigUint64Array":
        return true;
    }
    return false;
  };
  const maxBytes = 65536;

  class Crypto {
    constructor() { throw hideFrames(new NativeTypeError("Illegal constructor"), Crypto); }

    // The part that computes it is loaded when a script first reads the property.
    get subtle() {
      if (this !== instance) throw otherThis(undefined);
      return loadPart("subtle").subtle;
    }

    getRandomValues(array) {
      if (this !== instance) throw otherThis(getRandomValues);
      if (!isIntegerArray(array)) {
        throw domError("TypeMismatchError", "The data argument must be an integer-type TypedArray", getRandomValues);
      }
      const length = TypedArrayPrototypeGetByteLength(array);
      if (length > maxBytes) {
        throw domError("QuotaExceededError", `The requested length exceeds ${maxBytes} bytes`, getRandomValues);
      }
      if (length > 0) {
        // Fill an array of the prelude and copy it: the host never gets an array of user code.
        const bytes = new NativeUint8Array(length);
        host.fillRandom(bytes);
        const view = new NativeUint8Array(TypedArrayPrototypeGetBuffer(array), TypedArrayPrototypeGetByteOffset(array), length);
        TypedArrayPrototypeSet(view, bytes);
      }
      return array;
    }

    randomUUID() {
      if (this !== instance) throw otherThis(randomUUID);
      const b = new NativeUint8Array(16);
      host.fillRandom(b);
      b[6] = (b[6] & 0x0f) | 0x40; // version 4
      b[8] = (b[8] & 0x3f) | 0x80; // RFC 9562 variant
      let text = "";
      for (let i = 0; i < 16; i++) {
        if (i === 4 || i === 6 || i === 8 || i === 10) text += "-";
        text += StringPrototypePadStart(NumberPrototypeToString(b[i], 16), 2, "0");
      }
      return text;
    }
  }
  const otherThis = (fn) => codedError(NativeTypeError, "ERR_INVALID_THIS", 'Value of "this" must be of type Crypto', fn);
  const { getRandomValues, randomUUID } = Crypto.prototype;
  const members = ["subtle", "getRandomValues", "randomUUID"];
  for (let i = 0; i < members.length; i++) ObjectDefineProperty(Crypto.prototype, members[i], { __proto__: null, enumerable: true });
  setTag(Crypto.prototype, "Crypto");
  const instance = ObjectCreate(Crypto.prototype);
  defineHidden(global, "Crypto", Crypto);
  defineHidden(global, "crypto", instance);
})();
