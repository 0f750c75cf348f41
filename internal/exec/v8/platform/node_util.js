// node:util: inspection, formats, and adapters between callbacks and promises.

const { formatArguments, host, invalidArgument, isObject, ObjectCreate, ObjectDefineProperty, ObjectGetPrototypeOf, ObjectSetPrototypeOf, ReflectApply, publicInspect, TypeError, Error } = platform;
const { text, needFunction, needObject, needString, nodeError, setAll, toArray, toModule } = platform.load("node_tools");
const { isEqual } = platform.load("node_compare");
const PromiseClass = platform.Promise;
const then = platform.method("Promise.prototype", "then");
const SymbolFor = platform.original("Symbol", "for");
const custom = SymbolFor("nodejs.util.promisify.custom");
const queue = platform.original("globalThis", "queueMicrotask");
const setTimeout = platform.original("globalThis", "setTimeout");
const setImmediate = platform.original("globalThis", "setImmediate");
const viewName = platform.getter("TypedArray.prototype", platform.SymbolToStringTag);

// ---- types -----------------------------------------------------------------------------

const types = {};
const kinds = {
  isArgumentsObject: "arguments", isArrayBuffer: "arrayBuffer", isDataView: "dataView", isDate: "date", isExternal: "external",
  isGeneratorObject: "generator", isMap: "map", isMapIterator: "mapIterator", isModuleNamespaceObject: "moduleNamespace", isNativeError: "error", isPromise: "promise", isProxy: "proxy",
  isRegExp: "regexp", isSet: "set", isSetIterator: "setIterator", isSharedArrayBuffer: "sharedArrayBuffer", isTypedArray: "typedArray", isWeakMap: "weakMap", isWeakSet: "weakSet",
  isNumberObject: "boxedNumber", isStringObject: "boxedString", isBooleanObject: "boxedBoolean", isBigIntObject: "boxedBigInt", isSymbolObject: "boxedSymbol",
};
const kindOf = (value) => (isObject(value) ? host.kindOf(value) : "");
const defineType = (name, test) => setAll(types, { [name]: platform.setMeta({ f(value) { return test(value); } }.f, name, 1) });
const kindNames = platform.ObjectKeys(kinds);
for (let i = 0; i < kindNames.length; i++) {
  const kind = kinds[kindNames[i]];
  defineType(kindNames[i], (value) => kindOf(value) === kind);
}
const views = ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array"];
for (let i = 0; i < views.length; i++) {
  const name = views[i];
  defineType(`is${name}`, (value) => kindOf(value) === "typedArray" && viewName(value) === name);
}
defineType("isAnyArrayBuffer", (value) => kindOf(value) === "arrayBuffer" || kindOf(value) === "sharedArrayBuffer");
defineType("isArrayBufferView", (value) => kindOf(value) === "typedArray" || kindOf(value) === "dataView");
defineType("isAsyncFunction", (value) => kindOf(value) === "asyncFunction" || kindOf(value) === "asyncGeneratorFunction");
defineType("isGeneratorFunction", (value) => kindOf(value) === "generatorFunction" || kindOf(value) === "asyncGeneratorFunction");
defineType("isBoxedPrimitive", (value) => text.startsWith(kindOf(value), "boxed"));

// ---- callbacks and promises --------------------------------------------------------------

// promisedTimer returns what promisify makes of the functions that start a timer, whose callback is
// not the last argument.
const promisedTimer = (original) => {
  const { promises } = platform.load("node_timers");
  return original === setTimeout ? promises.setTimeout : original === setImmediate ? promises.setImmediate : undefined;
};

const promisify = (original) => {
  needFunction(original, "original", util.promisify);
  const replacement = promisedTimer(original) ?? original[custom];
  if (replacement) {
    needFunction(replacement, "util.promisify.custom", util.promisify);
    ObjectDefineProperty(replacement, custom, { __proto__: null, value: replacement, configurable: true });
    return replacement;
  }
  function promised(...args) {
    return new PromiseClass((resolve, reject) => {
      ObjectDefineProperty(args, args.length, {
        __proto__: null,
        value: (error, value) => {
          if (error) reject(error);
          else resolve(value);
        },
        writable: true, enumerable: true, configurable: true,
      });
      ReflectApply(original, this, args);
    });
  }
  ObjectSetPrototypeOf(promised, ObjectGetPrototypeOf(original));
  ObjectDefineProperty(promised, custom, { __proto__: null, value: promised, configurable: true });
  return copyProperties(promised, original);
};

const copyProperties = (target, source) => {
  const keys = platform.ReflectOwnKeys(source);
  for (let i = 0; i < keys.length; i++) {
    const descriptor = platform.ObjectGetOwnPropertyDescriptor(source, keys[i]);
    ObjectSetPrototypeOf(descriptor, null);
    if (keys[i] !== custom && (keys[i] !== "prototype" || descriptor.configurable)) ObjectDefineProperty(target, keys[i], descriptor);
  }
  return target;
};

const callbackify = (original) => {
  needFunction(original, "original", util.callbackify);
  function callbackified(...args) {
    const callback = args[args.length - 1];
    if (typeof callback !== "function") throw invalidArgument("last argument", "of type function", callback, callbackified);
    args.length--;
    then(ReflectApply(original, this, args),
      (value) => queue(() => ReflectApply(callback, this, [null, value])),
      (reason) => queue(() => ReflectApply(callback, this, [reason || falsyReason(reason)])));
  }
  copyProperties(callbackified, original);
  if (typeof original.name === "string") platform.setMeta(callbackified, `${original.name}Callbackified`, original.length + 1);
  return callbackified;
};

const falsyReason = (reason) => {
  const error = nodeError(Error, "ERR_FALSY_VALUE_REJECTION", "Promise was rejected with falsy value");
  error.reason = reason;
  return error;
};

const warned = new platform.Set();
const addTo = platform.method("Set.prototype", "add");
const isIn = platform.method("Set.prototype", "has");

// deprecate returns a function that warns when it is first called.
const deprecate = (fn, message, code) => {
  let isWarned = false;
  function deprecated(...args) {
    if (!isWarned && !(code !== undefined && isIn(warned, code))) {
      isWarned = true;
      if (code !== undefined) addTo(warned, code);
      platform.warn(code === undefined ? `DeprecationWarning: ${message}` : `[${code}] DeprecationWarning: ${message}`);
    }
    return new.target === undefined ? ReflectApply(fn, this, args) : platform.ReflectConstruct(fn, args, new.target);
  }
  ObjectSetPrototypeOf(deprecated, fn);
  if (fn.prototype) deprecated.prototype = fn.prototype;
  return deprecated;
};

// ---- arguments of commands -----------------------------------------------------------------

const parseArgs = (config = {}) => {
  const { args = [], options = {}, strict = true, allowPositionals = !strict } = config;
  const values = ObjectCreate(null);
  const positionals = platform.newList();
  const names = platform.ObjectKeys(options);
  const fail = (code, message) => nodeError(TypeError, code, message, util.parseArgs);
  const store = (name, value) => {
    const option = platform.hasOwn(options, name) ? options[name] : undefined;
    if (option !== undefined && option.multiple) {
      if (values[name] === undefined) values[name] = [];
      ObjectDefineProperty(values[name], values[name].length, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
    } else {
      values[name] = value;
    }
  };
  const check = (name, shown, value) => {
    const option = platform.hasOwn(options, name) ? options[name] : undefined;
    if (!strict) return;
    if (option === undefined) {
      throw fail("ERR_PARSE_ARGS_UNKNOWN_OPTION", `Unknown option '${shown}'${allowPositionals ? `. To specify a positional argument starting with a '-', place it at the end of the command after '--', as in '-- "${shown}"` : ""}`);
    }
    const full = `${option.short ? `-${option.short}, ` : ""}--${name}`;
    if (option.type === "string" && typeof value !== "string") throw fail("ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '${full} <value>' argument missing`);
    if (option.type === "boolean" && value !== undefined) throw fail("ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '${full}' does not take an argument`);
  };
  const takesText = (name) => platform.hasOwn(options, name) && options[name].type === "string";
  const longOf = (short) => {
    for (let i = 0; i < names.length; i++) if (options[names[i]].short === short) return names[i];
    return short;
  };
  for (let i = 0; i < args.length; i++) {
    const arg = args[i];
    if (arg === "--") {
      for (i++; i < args.length; i++) positional(args[i]);
    } else if (text.startsWith(arg, "--") && arg.length > 2) {
      const at = text.indexOf(arg, "=");
      const name = at === -1 ? text.slice(arg, 2) : text.slice(arg, 2, at);
      let value = at === -1 ? undefined : text.slice(arg, at + 1);
      if (value === undefined && takesText(name) && i + 1 < args.length && (args[i + 1][0] !== "-" || args[i + 1].length === 1)) value = args[++i];
      check(name, `--${name}`, value);
      store(name, value === undefined ? true : value);
    } else if (arg[0] === "-" && arg.length > 1) {
      for (let c = 1; c < arg.length; c++) {
        const name = longOf(arg[c]);
        let value;
        if (takesText(name)) {
          if (c + 1 < arg.length) value = text.slice(arg, c + 1);
          else if (i + 1 < args.length && (args[i + 1][0] !== "-" || args[i + 1].length === 1)) value = args[++i];
          c = arg.length;
        }
        check(name, `-${arg[c] ?? arg[arg.length - 1]}`, value);
        store(name, value === undefined ? true : value);
      }
    } else {
      positional(arg);
    }
  }
  function positional(arg) {
    if (!allowPositionals) throw fail("ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL", `Unexpected argument '${arg}'. This command does not take positional arguments`);
    positionals[positionals.length] = arg;
  }
  for (let i = 0; i < names.length; i++) {
    if (values[names[i]] === undefined && options[names[i]].default !== undefined) values[names[i]] = options[names[i]].default;
  }
  return { values, positionals: toArray(positionals) };
};

// ---- the module ----------------------------------------------------------------------------

// stripControls removes the sequences that color and move text in terminals.
const stripControls = (value) => {
  let out = "";
  for (let i = 0; i < value.length; i++) {
    const code = text.charCodeAt(value, i);
    if (code !== 0x1b && code !== 0x9b) {
      out += value[i];
      continue;
    }
    if (code === 0x1b && value[i + 1] === "[") i++;
    else if (code === 0x1b) {
      i++;
      continue;
    }
    while (++i < value.length) {
      const at = text.charCodeAt(value, i);
      if (at >= 0x40 && at <= 0x7e) break;
    }
  }
  return out;
};

const wellFormed = platform.method("String.prototype", "toWellFormed");

const util = {
  callbackify(original) { return callbackify(original); },
  deprecate(fn, message, code) { return deprecate(fn, message, code); },
  format(...args) { return formatArguments(args); },
  formatWithOptions(inspectOptions, ...args) {
    needObject(inspectOptions, "inspectOptions", util.formatWithOptions);
    return formatArguments(args, inspectOptions);
  },
  inherits(constructor, superConstructor) {
    if (constructor === undefined || constructor === null) throw invalidArgument("ctor", "of type function", constructor, util.inherits);
    if (superConstructor === undefined || superConstructor === null) throw invalidArgument("superCtor", "of type function", superConstructor, util.inherits);
    if (superConstructor.prototype === undefined) {
      throw nodeError(TypeError, "ERR_INVALID_ARG_TYPE", 'The "superCtor.prototype" property must be of type object. Received undefined', util.inherits);
    }
    ObjectDefineProperty(constructor, "super_", { __proto__: null, value: superConstructor, writable: true, configurable: true });
    ObjectSetPrototypeOf(constructor.prototype, superConstructor.prototype);
  },
  inspect: publicInspect,
  isDeepStrictEqual(a, b) { return isEqual(a, b, true); },
  parseArgs(config) { return parseArgs(config); },
  promisify(original) { return promisify(original); },
  stripVTControlCharacters(str) {
    needString(str, "str", util.stripVTControlCharacters);
    return stripControls(str);
  },
  toUSVString(value) { return wellFormed(`${value}`); },
  isArray: platform.ArrayIsArray,
  types,
  TextDecoder: platform.provided("TextDecoder"),
  TextEncoder: platform.provided("TextEncoder"),
};
setAll(util.promisify, { custom });

return { exports: toModule(util), types: toModule(types) };
