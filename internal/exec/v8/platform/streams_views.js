// What streams of bytes do with the views that scripts pass. A described view is
// {buffer, offset, length, elementSize, make}: offset and length are in bytes, and make creates a
// view of the same type with a number of bytes.

const { TypeError, isObject, host, Uint8Array, invalidArgument } = platform;
const { badValue, numberIsInteger, isDetached } = platform.load("streams_core");
const typedName = platform.getter("TypedArray.prototype", platform.SymbolToStringTag);
const bufferOf = platform.getter("TypedArray.prototype", "buffer");
const typedOffset = platform.getter("TypedArray.prototype", "byteOffset");
const typedBytes = platform.getter("TypedArray.prototype", "byteLength");
const viewBuffer = platform.getter("DataView.prototype", "buffer");
const viewOffset = platform.getter("DataView.prototype", "byteOffset");
const viewBytes = platform.getter("DataView.prototype", "byteLength");
const isResizable = platform.getter("ArrayBuffer.prototype", "resizable");
const floor = platform.original("Math", "floor");
const DataView = platform.original("globalThis", "DataView");

const views = { __proto__: null }; // the constructors by the name of the type, when they are needed
const constructorOf = (name) => {
  if (views[name] === undefined) views[name] = platform.original("globalThis", name);
  return views[name];
};

// describeView returns a view as described above, or undefined for another value.
const describeView = (value) => {
  const kind = isObject(value) ? host.kindOf(value) : "";
  if (kind === "dataView") {
    const buffer = viewBuffer(value);
    const isGone = isDetached(buffer);
    return {
      __proto__: null, buffer, offset: isGone ? 0 : viewOffset(value), length: isGone ? 0 : viewBytes(value), elementSize: 1,
      make: (to, offset, bytes) => new DataView(to, offset, bytes),
    };
  }
  if (kind !== "typedArray") return undefined;
  const View = constructorOf(typedName(value));
  const elementSize = View.BYTES_PER_ELEMENT; // a constant
  return {
    __proto__: null, buffer: bufferOf(value), offset: typedOffset(value), length: typedBytes(value), elementSize,
    make: (to, offset, bytes) => new View(to, offset, bytes / elementSize),
  };
};

// toView converts an argument to a described view. Web IDL refuses buffers that are shared, or
// that code of a script could resize while a stream fills them.
const toView = (value, name) => {
  const kind = isObject(value) ? host.kindOf(value) : "";
  if (kind !== "dataView" && kind !== "typedArray") throw invalidArgument(name, "an instance of Buffer, TypedArray, or DataView", value);
  const buffer = kind === "dataView" ? viewBuffer(value) : bufferOf(value);
  if (host.kindOf(buffer) !== "arrayBuffer") throw invalidArgument(name, "a view of an ArrayBuffer that is not shared", value);
  if (isResizable(buffer)) throw invalidArgument(name, "a view of an ArrayBuffer that is not resizable", value);
  return describeView(value);
};

const makeBytes = (buffer, offset, bytes) => new Uint8Array(buffer, offset, bytes);

// toLength converts to an unsigned integer, and refuses other numbers.
const toLength = (value) => {
  const number = +value;
  const whole = number < 0 ? -floor(-number) : floor(number);
  if (!numberIsInteger(whole) || whole < 0 || whole > 9007199254740991) throw badValue(TypeError, "argument", value);
  return whole + 0;
};

return { describeView, toView, bufferOf, makeBytes, toLength };
