// inspect returns any value as text, exactly as Node's util.inspect prints it.
//
// host.kindOf determines the kind of a value from its internal slots, which user code
// cannot forge. Proxy traps never run (the target is printed instead), and getters of
// data never run. Inspection reads what Node reads from an object: constructor.name,
// Symbol.toStringTag, the custom inspection hook, and an error's name, message and stack.

// Inspection does not descend further once a level has printed this many characters. An
// acyclic value with shared parts can be exponentially larger in print than in memory.
const maxPrinted = 1 << 24;

const newContext = () => ({
  __proto__: null,
  budget: ObjectCreate(null), // characters printed so far, by indentation
  indentationLvl: 0,
  seen: newList(),
  currentDepth: 0,
  circular: undefined,
  stylize: plainStyle,
  userOptions: undefined,
  showHidden: false,
  depth: 2,
  customInspect: true,
  showProxy: false,
  maxArrayLength: 100,
  maxStringLength: 10000,
  breakLength: 80,
  compact: 3,
  sorted: false,
  getters: false,
  numericSeparator: false,
  maxPrinted,
});

// A context of inspectGlobal also has left, the number of characters of values that may still
// be printed; sources, whether functions print with their source; and isPartial, which is set
// if something is left out.

const optionNames = ["showHidden", "depth", "customInspect", "showProxy", "maxArrayLength", "maxStringLength", "breakLength", "compact", "sorted", "getters", "numericSeparator", "stylize"];

// inspectWith reads options as util.inspect does. Colors are not offered, because the
// text is written to a ledger and not to a terminal.
const inspectWith = (value, options) => {
  const ctx = newContext();
  if (typeof options === "object" && options !== null) {
    for (let i = 0; i < optionNames.length; i++) {
      if (hasOwn(options, optionNames[i])) ctx[optionNames[i]] = options[optionNames[i]];
    }
    ctx.userOptions = options;
    if (ctx.maxArrayLength === null) ctx.maxArrayLength = Infinity;
    if (ctx.maxStringLength === null) ctx.maxStringLength = Infinity;
    const { stylize } = ctx;
    if (typeof stylize !== "function") ctx.stylize = plainStyle;
    // It is called as a plain function: it must not get the context as its receiver.
    else if (stylize !== plainStyle) ctx.stylize = (text, style) => `${stylize(text, style)}`;
  }
  return formatValue(ctx, value, 0, false);
};

const userOptionsOf = (ctx) => {
  const options = {
    stylize: ctx.stylize,
    showHidden: ctx.showHidden,
    depth: ctx.depth,
    colors: false,
    customInspect: ctx.customInspect,
    showProxy: ctx.showProxy,
    maxArrayLength: ctx.maxArrayLength,
    maxStringLength: ctx.maxStringLength,
    breakLength: ctx.breakLength,
    compact: ctx.compact,
    sorted: ctx.sorted,
    getters: ctx.getters,
    numericSeparator: ctx.numericSeparator,
  };
  const given = ctx.userOptions;
  if (given !== undefined) {
    const keys = ObjectKeys(given);
    for (let i = 0; i < keys.length; i++) {
      ObjectDefineProperty(options, keys[i], {
        __proto__: null, value: given[keys[i]], writable: true, enumerable: true, configurable: true,
      });
    }
  }
  return options;
};

const formatValue = (ctx, value, depth, inTypedArray) => {
  if (isQuiet && ctx.left <= 0) return "...";
  if (value === null) return ctx.stylize("null", "null");
  const type = typeof value;
  if (type !== "object" && type !== "function") {
    const text = formatPrimitive(ctx, value);
    if (isQuiet) ctx.left -= text.length;
    return text;
  }

  const original = value;
  let kind = host.kindOf(value);
  if (kind === "proxy" && ctx.showProxy) return formatProxy(ctx, value, depth);
  while (kind === "proxy") {
    value = host.proxyDetails(value)[0];
    if (value === null) return ctx.stylize("<Revoked Proxy>", "special");
    kind = host.kindOf(value);
  }
  if (kind === "object" && !isQuiet && isNamespace(value)) kind = "moduleNamespace";

  if (ctx.customInspect) {
    const custom = value[inspectCustom];
    if (typeof custom === "function" && custom !== publicInspect && !isOwnPrototype(value)) {
      const left = ctx.depth === null ? null : ctx.depth - depth;
      const result = ReflectApply(custom, original, [left, userOptionsOf(ctx), publicInspect]);
      // A function that returns its object asks for the ordinary form.
      if (result !== original) {
        if (typeof result !== "string") return formatValue(ctx, result, depth, false);
        return replaceText(result, "\n", `\n${spaces(ctx.indentationLvl)}`);
      }
    }
  }

  if (listIncludes(ctx.seen, value)) {
    if (ctx.circular === undefined) ctx.circular = new NativeMap();
    let index = MapPrototypeGet(ctx.circular, value);
    if (index === undefined) {
      index = MapPrototypeGetSize(ctx.circular) + 1;
      MapPrototypeSet(ctx.circular, value, index);
    }
    return ctx.stylize(`[Circular *${index}]`, "special");
  }
  return formatObject(ctx, value, kind, depth, inTypedArray);
};

const isOwnPrototype = (value) => {
  const constructor = value.constructor;
  return constructor ? constructor.prototype === value : false;
};

const formatProxy = (ctx, proxy, depth) => {
  const details = host.proxyDetails(proxy);
  if (details[0] === null) return ctx.stylize("<Revoked Proxy>", "special");
  if (ctx.depth !== null && depth > ctx.depth) return ctx.stylize("Proxy [Array]", "special");
  ctx.indentationLvl += 2;
  const parts = newList();
  parts[0] = formatValue(ctx, details[0], depth + 1, false);
  parts[1] = formatValue(ctx, details[1], depth + 1, false);
  ctx.indentationLvl -= 2;
  return joinParts(ctx, parts, "", "Proxy [", "]", layoutArray, depth + 1, undefined);
};

// constructorName returns the name of the nearest constructor on the prototype chain, null
// if there is none, and "Name <...>" if the chain is broken before Object.prototype. If
// protoProps is given, it receives the inherited data properties (showHidden).
const constructorName = (value, ctx, depth, protoProps) => {
  let object = value;
  let firstPrototype;
  for (let i = 0; object !== null && i < maxPrototypes; i++) {
    const descriptor = ObjectGetOwnPropertyDescriptor(object, "constructor");
    if (descriptor !== undefined && hasOwn(descriptor, "value") && typeof descriptor.value === "function") {
      const name = isQuiet ? readText(descriptor.value, "name") : descriptor.value.name;
      if (name !== "" && isInstance(descriptor.value, value)) {
        if (protoProps !== undefined && (firstPrototype !== object || !SetPrototypeHas(builtinNames, name))) {
          inheritedProperties(ctx, value, firstPrototype || value, depth, protoProps);
        }
        return NativeString(name);
      }
    }
    object = prototypeOf(object);
    if (firstPrototype === undefined) firstPrototype = object;
  }
  if (firstPrototype === null) return null;
  const name = host.constructorName(value);
  if (ctx.depth !== null && depth > ctx.depth) return `${name} <Complex prototype>`;
  const parent = constructorName(firstPrototype, ctx, depth + 1, protoProps);
  if (parent === null) {
    const inner = inspectWith(firstPrototype, { __proto__: null, showHidden: ctx.showHidden, customInspect: false, depth: -1 });
    return `${name} <${inner}>`;
  }
  return `${name} <${parent}>`;
};

// inheritedProperties lists the data properties of up to three prototypes of user code.
const inheritedProperties = (ctx, main, object, depth, output) => {
  let keys;
  let above;
  for (let layer = 0; layer < 3; layer++) {
    if (layer !== 0 || main === object) {
      object = ObjectGetPrototypeOf(object);
      if (object === null) return;
      const descriptor = ObjectGetOwnPropertyDescriptor(object, "constructor");
      if (descriptor !== undefined && hasOwn(descriptor, "value") && typeof descriptor.value === "function" &&
          SetPrototypeHas(builtinNames, descriptor.value.name)) return;
    }
    if (layer === 0) above = new NativeSet();
    else for (let i = 0; i < keys.length; i++) SetPrototypeAdd(above, keys[i]);
    keys = ReflectOwnKeys(object);
    ctx.seen[ctx.seen.length] = main;
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (key === "constructor" || hasOwn(main, key) || (layer !== 0 && SetPrototypeHas(above, key))) continue;
      const descriptor = ObjectGetOwnPropertyDescriptor(object, key);
      if (hasOwn(descriptor, "value") && typeof descriptor.value === "function") continue;
      output[output.length] = formatProperty(ctx, object, depth, key, false, descriptor);
    }
    ctx.seen.length--;
  }
};

// plainPrefixOf names an object about which nothing else is known. For an object without
// a prototype, the engine knows the constructor, but may take that name from the tag.
const plainPrefixOf = (value, constructor, tag) => {
  if (constructor !== null) return prefixOf(constructor, tag, "");
  const maker = host.constructorName(value);
  return prefixOf(null, tag, maker === tag ? "Object" : maker);
};

// shapeOf decides how an object prints: as a finished string, or by the text before the
// braces (base), the braces, the keys to list, and the body to print before the keys.
const shapeOf = (ctx, value, kind, constructor, tag, inTypedArray, bare) => {
  const shape = { __proto__: null, base: "", open: "{", close: "}", keys: undefined, layout: layoutObject, body: undefined };
  // A builtin whose prototype was replaced has lost its iterator. Node prints only the
  // properties of such an object.
  const intact = constructor === null || value === ArrayPrototype ||
    (constructor !== "Object" && !StringPrototypeEndsWith(constructor, ">"));
  if (intact) {
    switch (kind) {
      case "array": {
        const prefix = constructor !== "Array" || tag !== "" ? prefixOf(constructor, tag, "Array", `(${value.length})`) : "";
        shape.keys = extraKeys(value, ctx.showHidden);
        shape.open = `${prefix}[`;
        shape.close = "]";
        if (value.length === 0 && shape.keys.length === 0 && bare) return `${shape.open}]`;
        shape.layout = layoutArray;
        shape.body = arrayBody;
        return shape;
      }
      case "typedArray": {
        const length = TypedArrayPrototypeGetLength(value);
        const fallback = constructor === null ? TypedArrayPrototypeGetName(value) : "";
        shape.keys = extraKeys(value, ctx.showHidden);
        shape.open = `${prefixOf(constructor, tag, fallback, `(${length})`)}[`;
        shape.close = "]";
        if (length === 0 && !ctx.showHidden && shape.keys.length === 0) return `${shape.open}]`;
        shape.layout = layoutArray;
        shape.body = typedArrayBody;
        return shape;
      }
      case "set":
      case "map": {
        const isSet = kind === "set";
        const size = isSet ? SetPrototypeGetSize(value) : MapPrototypeGetSize(value);
        const prefix = prefixOf(constructor, tag, isSet ? "Set" : "Map", `(${size})`);
        shape.keys = visibleKeys(value, ctx.showHidden);
        shape.open = `${prefix}{`;
        if (size === 0 && shape.keys.length === 0 && bare) return `${prefix}{}`;
        shape.body = isSet ? setBody : mapBody;
        return shape;
      }
    }
  }
  shape.keys = visibleKeys(value, ctx.showHidden);
  const { keys } = shape;
  if (kind === "mapIterator" || kind === "setIterator") {
    const type = kind === "mapIterator" ? "Map" : "Set";
    let label = tag;
    if (tag !== `${type} Iterator`) label = `${tag !== "" ? `${tag}] [` : ""}${type} Iterator`;
    const preview = host.previewEntries(value);
    const paired = preview[1];
    if (paired && StringPrototypeEndsWith(label, " Iterator")) label = `${StringPrototypeSlice(label, 0, -9)} Entries`;
    shape.open = `[${label}] {`;
    shape.body = (c, v, depth) => previewBody(c, preview[0], paired, false, depth);
    return shape;
  }
  const done = () => keys.length === 0 && bare;
  if (typeof value === "function") {
    shape.base = functionText(ctx, value, kind, constructor, tag);
    if (ctx.sources) shape.base += formatValue(ctx, FunctionPrototypeToString(value));
    return done() ? ctx.stylize(shape.base, "special") : shape;
  }
  if (constructor === "Object") {
    if (kind === "arguments") shape.open = `${tag !== "" && tag !== "Arguments" ? prefixOf(constructor, tag, "Arguments") : "[Arguments] "}{`;
    else if (tag !== "") shape.open = `${prefixOf(constructor, tag, "Object")}{`;
    return done() ? `${shape.open}}` : shape;
  }
  switch (kind) {
    case "regexp":
    case "date": {
      const fallback = kind === "date" ? "Date" : "RegExp";
      const prefix = prefixOf(constructor, tag, fallback);
      shape.base = (prefix === `${fallback} ` ? "" : prefix) + (kind === "date" ? dateText(value) : regExpText(value));
      return done() ? ctx.stylize(shape.base, kind) : shape;
    }
    case "arrayBuffer":
    case "sharedArrayBuffer": {
      const prefix = prefixOf(constructor, tag, kind === "arrayBuffer" ? "ArrayBuffer" : "SharedArrayBuffer");
      shape.open = `${prefix}{`;
      if (inTypedArray) {
        if (done()) return `${prefix}{ byteLength: ${ctx.stylize(`${byteLengthOf(value, kind)}`, "number")} }`;
        return shape;
      }
      shape.body = (c, v) => arrayBufferBody(c, v, kind, constructor === null);
      return shape;
    }
    case "dataView":
      shape.open = `${prefixOf(constructor, tag, "DataView")}{`;
      shape.body = dataViewBody;
      return shape;
    case "promise":
      shape.open = `${prefixOf(constructor, tag, "Promise")}{`;
      shape.body = promiseBody;
      return shape;
    case "weakSet":
    case "weakMap":
      shape.open = `${prefixOf(constructor, tag, kind === "weakSet" ? "WeakSet" : "WeakMap")}{`;
      shape.body = ctx.showHidden
        ? (c, v, depth) => {
            const preview = host.previewEntries(v);
            return previewBody(c, preview[0], preview[1], true, depth);
          }
        : weakBody;
      return shape;
    case "moduleNamespace":
      shape.open = `${prefixOf(constructor, tag, "Module")}{`;
      shape.keys = newList();
      shape.body = (c, v, depth) => namespaceBody(c, v, keys, depth);
      return shape;
    case "boxedNumber":
    case "boxedString":
    case "boxedBoolean":
    case "boxedBigInt":
    case "boxedSymbol":
      shape.base = boxedText(ctx, value, kind, keys, constructor, tag);
      return done() ? shape.base : shape;
    case "external":
      if (done()) return ctx.stylize("[External]", "special");
      break;
  }
  if (kind === "error" || isInstance(NativeError, value)) {
    shape.base = errorText(ctx, value, constructor, tag, keys);
    return done() ? shape.base : shape;
  }
  shape.open = `${plainPrefixOf(value, constructor, tag)}{`;
  return done() ? `${shape.open}}` : shape;
};

const weakBody = (ctx) => {
  const parts = newList();
  parts[0] = ctx.stylize("<items unknown>", "special");
  return parts;
};

const isStackOverflow = (error) =>
  host.kindOf(error) === "error" && ObjectGetPrototypeOf(error) === RangeErrorPrototype &&
  error.message === "Maximum call stack size exceeded";

const formatObject = (ctx, value, kind, depth, inTypedArray) => {
  let protoProps = ctx.showHidden && (ctx.depth === null || depth <= ctx.depth) ? newList() : undefined;
  const constructor = constructorName(value, ctx, depth, protoProps);
  if (protoProps !== undefined && protoProps.length === 0) protoProps = undefined;

  // An own visible tag is listed with the properties and not repeated in the prefix.
  let tag = !isQuiet ? value[SymbolToStringTag] : kind === "typedArray" ? TypedArrayPrototypeGetName(value) : read(value, SymbolToStringTag);
  if (typeof tag !== "string" ||
      (tag !== "" && (ctx.showHidden ? hasOwn(value, SymbolToStringTag) : isEnumerable(value, SymbolToStringTag)))) tag = "";

  const shape = shapeOf(ctx, value, kind, constructor, tag, inTypedArray === true, protoProps === undefined);
  if (typeof shape === "string") return shape;
  const shortName = () => StringPrototypeSlice(plainPrefixOf(value, constructor, tag), 0, -1);
  if (ctx.depth !== null && depth > ctx.depth) {
    ctx.isPartial = true;
    if (kind === "regexp") return ctx.stylize(shape.base, "regexp");
    return ctx.stylize(constructor === null ? shortName() : `[${shortName()}]`, "special");
  }

  depth += 1;
  ctx.seen[ctx.seen.length] = value;
  ctx.currentDepth = depth;
  const indentation = ctx.indentationLvl;
  let parts;
  try {
    parts = shape.body === undefined ? newList() : shape.body(ctx, value, depth);
    let size = 0;
    for (let i = 0; i < shape.keys.length; i++) {
      if (size > ctx.maxPrinted) {
        ctx.isPartial = true;
        parts[parts.length] = moreProperties(shape.keys.length - i);
        break;
      }
      const part = formatProperty(ctx, value, depth, shape.keys[i], false);
      parts[parts.length] = part;
      size += part.length;
    }
    if (protoProps !== undefined) for (let i = 0; i < protoProps.length; i++) parts[parts.length] = protoProps[i];
  } catch (error) {
    if (!isStackOverflow(error)) throw error;
    ctx.seen.length--;
    ctx.indentationLvl = indentation;
    return ctx.stylize(`[${shortName()}: Inspection interrupted prematurely. Maximum call stack size exceeded.]`, "special");
  }
  let { base, open } = shape;
  if (ctx.circular !== undefined) {
    const index = MapPrototypeGet(ctx.circular, value);
    if (index !== undefined) {
      const reference = ctx.stylize(`<ref *${index}>`, "special");
      if (ctx.compact === true) open = `${reference} ${open}`;
      else base = base === "" ? reference : `${reference} ${base}`;
    }
  }
  ctx.seen.length--;
  if (ctx.sorted) sortParts(parts, ctx.sorted, shape.layout === layoutArray ? parts.length - shape.keys.length : 0);

  const text = joinParts(ctx, parts, base, open, shape.close, shape.layout, depth, shape.layout === layoutArray ? value : undefined);
  const printed = (ctx.budget[ctx.indentationLvl] || 0) + text.length;
  ctx.budget[ctx.indentationLvl] = printed;
  if (printed > ctx.maxPrinted) ctx.depth = -1;
  return text;
};

// sortParts sorts the entries from the given index on and leaves array elements in place.
const sortParts = (parts, order, from) => {
  const tail = newList();
  for (let i = from; i < parts.length; i++) tail[tail.length] = parts[i];
  ArrayPrototypeSort(tail, typeof order === "function" ? order : undefined);
  for (let i = 0; i < tail.length; i++) parts[from + i] = tail[i];
};
