// What the parts for the modules of Node share: string functions, errors and checks.

const { codedError, hideFrames, invalidArgument, isObject, ObjectCreate, ObjectDefineProperty, TypeError, RangeError, Error } = platform;

const ofString = (name) => platform.method("String.prototype", name);
const text = {
  __proto__: null,
  charCodeAt: ofString("charCodeAt"), codePointAt: ofString("codePointAt"), endsWith: ofString("endsWith"), includes: ofString("includes"), indexOf: ofString("indexOf"), lastIndexOf: ofString("lastIndexOf"),
  padStart: ofString("padStart"), repeat: ofString("repeat"), slice: ofString("slice"), startsWith: ofString("startsWith"), toLowerCase: ofString("toLowerCase"), toUpperCase: ofString("toUpperCase"),
  trim: ofString("trim"), fromCharCode: platform.original("String", "fromCharCode"),
};

// nodeError returns an error with a code, whose stack starts as in Node.
const nodeError = (Base, code, message, fn) => {
  if (Base === TypeError || Base === RangeError) return codedError(Base, code, message, fn);
  const error = new Base(message);
  platform.defineHidden(error, "name", `${Base.name} [${code}]`);
  hideFrames(error, fn);
  void error.stack;
  delete error.name;
  ObjectDefineProperty(error, "code", { __proto__: null, value: code, writable: true, enumerable: true, configurable: true });
  return error;
};

const needString = (value, name, fn) => {
  if (typeof value !== "string") throw invalidArgument(name, "of type string", value, fn);
};
const needFunction = (value, name, fn) => {
  if (typeof value !== "function") throw invalidArgument(name, "of type function", value, fn);
};
const needObject = (value, name, fn) => {
  if (!isObject(value) || typeof value === "function" || platform.ArrayIsArray(value)) throw invalidArgument(name, "of type object", value, fn);
};
const outOfRange = (name, range, received, fn) => codedError(RangeError, "ERR_OUT_OF_RANGE", `The value of "${name}" is out of range. It must be ${range}. Received ${received}`, fn);

// withCommas writes a large number as messages about ranges do.
const withCommas = (value) => {
  let digits = platform.String(value);
  const start = digits[0] === "-" ? 1 : 0;
  let out = "";
  for (; digits.length >= start + 4; digits = text.slice(digits, 0, -3)) out = `_${text.slice(digits, -3)}${out}`;
  return digits + out;
};

const isInteger = platform.original("Number", "isInteger");
const needInteger = (value, name, min, max, fn) => {
  if (typeof value !== "number") throw invalidArgument(name, "of type number", value, fn);
  if (!isInteger(value)) throw outOfRange(name, "an integer", value, fn);
  if (value < min || value > max) throw outOfRange(name, `>= ${min} && <= ${max}`, isInteger(value) && (value > 4294967296 || value < -4294967296) ? withCommas(value) : value, fn);
};

// setAll defines the members of an object of functions as ordinary properties of another one.
const setAll = (target, members) => {
  const keys = platform.ObjectKeys(members);
  for (let i = 0; i < keys.length; i++) {
    ObjectDefineProperty(target, keys[i], { __proto__: null, value: members[keys[i]], writable: true, enumerable: true, configurable: true });
  }
  return target;
};

// toModule returns the exports of a module whose default export is an object with its names.
const toModule = (object) => {
  const exports = ObjectCreate(null);
  exports.default = object;
  const keys = platform.ObjectKeys(object);
  for (let i = 0; i < keys.length; i++) exports[keys[i]] = object[keys[i]];
  return exports;
};

// toArray copies a list to an ordinary array.
const toArray = (list) => {
  const array = [];
  for (let i = 0; i < list.length; i++) ObjectDefineProperty(array, i, { __proto__: null, value: list[i], writable: true, enumerable: true, configurable: true });
  return array;
};

return { text, nodeError, needString, needFunction, needObject, needInteger, outOfRange, withCommas, isInteger, setAll, toModule, toArray };
