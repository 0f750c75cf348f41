// The text inside the braces for each kind of value, and the one-token forms of functions,
// errors, boxed primitives, dates and regular expressions.

const spaces = (count) => StringPrototypeRepeat(" ", count);

const moreItems = (count) => `... ${count} more item${count > 1 ? "s" : ""}`;

const moreProperties = (count) => `... ${count} more propert${count > 1 ? "ies" : "y"}`;

// prefixOf returns the text before an opening brace: class name, size, tag.
const prefixOf = (constructor, tag, fallback, size = "") => {
  if (constructor === null) {
    return tag !== "" && fallback !== tag ? `[${fallback}${size}: null prototype] [${tag}] ` : `[${fallback}${size}: null prototype] `;
  }
  return tag !== "" && constructor !== tag ? `${constructor}${size} [${tag}] ` : `${constructor}${size} `;
};

// visibleKeys returns the own keys that inspection lists: enumerable keys, or all with showHidden.
const visibleKeys = (value, showHidden) => {
  let keys;
  if (showHidden) {
    keys = toList(ObjectGetOwnPropertyNames(value));
  } else {
    try {
      keys = toList(ObjectKeys(value));
    } catch {
      // Object.keys throws for a module namespace with a binding in its dead zone.
      keys = toList(ObjectGetOwnPropertyNames(value));
    }
  }
  const symbols = ObjectGetOwnPropertySymbols(value);
  for (let i = 0; i < symbols.length; i++) {
    if (showHidden || isEnumerable(value, symbols[i])) keys[keys.length] = symbols[i];
  }
  return keys;
};

const hasIndex = matcher(() => /^(?:0|[1-9][0-9]{0,9})$/);
const isIndexKey = (key) => typeof key === "string" && hasIndex(key) && +key < 4294967295;

// extraKeys returns the visible keys of an array besides its elements.
const extraKeys = (value, showHidden) => toList(host.ownNonIndexKeys(value, !showHidden));

// formatProperty returns the text of one own property. An element is shown without its name.
const formatProperty = (ctx, value, depth, key, isElement, given) => {
  const descriptor = given === undefined ? ObjectGetOwnPropertyDescriptor(value, key) : given;
  if (descriptor === undefined) return isElement ? "undefined" : `${propertyName(ctx, key, true)}: undefined`;
  let text;
  if (hasOwn(descriptor, "value")) {
    const step = ctx.compact !== true || isElement ? 2 : 3;
    ctx.indentationLvl += step;
    text = formatValue(ctx, descriptor.value, depth, false);
    ctx.indentationLvl -= step;
    if (step === 3 && ctx.breakLength < displayWidth(text)) text = `\n${spaces(ctx.indentationLvl)}${text}`;
  } else if (descriptor.get !== undefined) {
    text = formatGetter(ctx, value, depth, descriptor);
  } else {
    text = ctx.stylize(descriptor.set !== undefined ? "[Setter]" : "undefined", "special");
  }
  return isElement ? text : `${propertyName(ctx, key, descriptor.enumerable)}: ${text}`;
};

const formatGetter = (ctx, value, depth, descriptor) => {
  const label = descriptor.set !== undefined ? "Getter/Setter" : "Getter";
  const wanted = ctx.getters === true ||
    (ctx.getters === "get" && descriptor.set === undefined) ||
    (ctx.getters === "set" && descriptor.set !== undefined);
  if (ctx.sources) return `[${label}] ${formatValue(ctx, FunctionPrototypeToString(descriptor.get))}`;
  if (!wanted) return ctx.stylize(`[${label}]`, "special");
  try {
    const result = ReflectApply(descriptor.get, value, []);
    ctx.indentationLvl += 2;
    let text;
    if (result === null) text = `[${label}: null]`;
    else if (typeof result === "object") text = `[${label}] ${formatValue(ctx, result, depth, false)}`;
    else text = `[${label}: ${formatPrimitive(ctx, result)}]`;
    ctx.indentationLvl -= 2;
    return text;
  } catch (error) {
    return `[${label}: <Inspection threw (${error === null || error === undefined ? error : error.message})>]`;
  }
};

// ---- bodies: the entries between the braces -------------------------------

const arrayBody = (ctx, value, depth) => {
  const parts = newList();
  const length = value.length;
  const shown = MathMin(MathMax(0, ctx.maxArrayLength), length);
  for (let i = 0; i < shown; i++) {
    const descriptor = ObjectGetOwnPropertyDescriptor(value, i);
    if (descriptor === undefined) return sparseBody(ctx, value, depth, parts, i, shown);
    parts[i] = formatProperty(ctx, value, depth, i, true, descriptor);
  }
  if (length > shown) parts[shown] = moreItems(length - shown);
  return parts;
};

// sparseBody continues an array at its first hole. Consecutive holes are one entry.
const sparseBody = (ctx, value, depth, parts, at, limit) => {
  const keys = ObjectKeys(value);
  let index = at;
  for (let i = at; i < keys.length && parts.length < limit; i++) {
    const key = keys[i];
    if (!isIndexKey(key)) break;
    const position = +key;
    if (position !== index) {
      const holes = position - index;
      parts[parts.length] = ctx.stylize(`<${holes} empty item${holes > 1 ? "s" : ""}>`, "undefined");
      index = position;
      if (parts.length === limit) break;
    }
    parts[parts.length] = formatProperty(ctx, value, depth, key, true);
    index++;
  }
  const rest = value.length - index;
  if (parts.length !== limit) {
    if (rest > 0) parts[parts.length] = ctx.stylize(`<${rest} empty item${rest > 1 ? "s" : ""}>`, "undefined");
  } else if (rest > 0) {
    parts[parts.length] = moreItems(rest);
  }
  return parts;
};

const typedArrayBody = (ctx, value, depth) => {
  const length = TypedArrayPrototypeGetLength(value);
  const shown = MathMin(MathMax(0, ctx.maxArrayLength), length);
  const parts = newList();
  if (isQuiet) ctx.left -= shown;
  for (let i = 0; i < shown; i++) parts[i] = formatPrimitive(ctx, value[i]);
  if (length > shown) parts[shown] = moreItems(length - shown);
  if (ctx.showHidden) {
    ctx.indentationLvl += 2;
    const add = (name, v) => { parts[parts.length] = `[${name}]: ${formatValue(ctx, v, depth, true)}`; };
    add("BYTES_PER_ELEMENT", length === 0 ? value.BYTES_PER_ELEMENT : TypedArrayPrototypeGetByteLength(value) / length);
    add("length", length);
    add("byteLength", TypedArrayPrototypeGetByteLength(value));
    add("byteOffset", TypedArrayPrototypeGetByteOffset(value));
    add("buffer", TypedArrayPrototypeGetBuffer(value));
    ctx.indentationLvl -= 2;
  }
  return parts;
};

const byteLengthOf = (value, kind) =>
  kind === "arrayBuffer" ? ArrayBufferPrototypeGetByteLength(value) : sharedArrayBufferByteLength(value);

const arrayBufferBody = (ctx, value, kind, orphan) => {
  const parts = newList();
  let bytes;
  try {
    bytes = new NativeUint8Array(value);
  } catch {
    parts[0] = ctx.stylize("(detached)", "special");
    parts[1] = `byteLength: ${ctx.stylize("0", "number")}`;
    return parts;
  }
  const length = TypedArrayPrototypeGetLength(bytes);
  const shown = MathMin(MathMax(0, ctx.maxArrayLength), length);
  let text = "";
  for (let i = 0; i < shown; i++) {
    const pair = NumberPrototypeToString(bytes[i], 16);
    text += `${i === 0 ? "" : " "}${pair.length === 1 ? "0" : ""}${pair}`;
  }
  if (isQuiet) ctx.left -= text.length;
  const rest = length - shown;
  if (rest > 0) text += ` ... ${rest} more byte${rest > 1 ? "s" : ""}`;
  parts[0] = `${ctx.stylize("[Uint8Contents]", "special")}: <${text}>`;
  // Without a prototype there is no byteLength to read. Node then prints undefined.
  parts[1] = `byteLength: ${formatPrimitive(ctx, orphan ? undefined : byteLengthOf(value, kind))}`;
  return parts;
};

const dataViewBody = (ctx, value, depth) => {
  const parts = newList();
  let length;
  let offset;
  try {
    length = DataViewPrototypeGetByteLength(value);
    offset = DataViewPrototypeGetByteOffset(value);
  } catch {
    length = offset = 0; // detached
  }
  parts[0] = `byteLength: ${ctx.stylize(`${length}`, "number")}`;
  parts[1] = `byteOffset: ${ctx.stylize(`${offset}`, "number")}`;
  ctx.indentationLvl += 2;
  parts[2] = `buffer: ${formatValue(ctx, DataViewPrototypeGetBuffer(value), depth, false)}`;
  ctx.indentationLvl -= 2;
  return parts;
};

const setBody = (ctx, value, depth) => {
  const parts = newList();
  const size = SetPrototypeGetSize(value);
  const shown = MathMin(MathMax(0, ctx.maxArrayLength), size);
  const iterator = SetPrototypeValues(value);
  ctx.indentationLvl += 2;
  for (let i = 0; i < shown; i++) {
    const step = SetIteratorPrototypeNext(iterator);
    if (step.done) break;
    parts[parts.length] = formatValue(ctx, step.value, depth, false);
  }
  if (size > shown) parts[parts.length] = moreItems(size - shown);
  ctx.indentationLvl -= 2;
  return parts;
};

const mapBody = (ctx, value, depth) => {
  const parts = newList();
  const size = MapPrototypeGetSize(value);
  const shown = MathMin(MathMax(0, ctx.maxArrayLength), size);
  const iterator = MapPrototypeEntries(value);
  ctx.indentationLvl += 2;
  for (let i = 0; i < shown; i++) {
    const step = MapIteratorPrototypeNext(iterator);
    if (step.done) break;
    const entry = step.value;
    parts[parts.length] = `${formatValue(ctx, entry[0], depth, false)} => ${formatValue(ctx, entry[1], depth, false)}`;
  }
  if (size > shown) parts[parts.length] = moreItems(size - shown);
  ctx.indentationLvl -= 2;
  return parts;
};

// previewBody prints the entries that the engine reports for an iterator or a weak
// collection, without advancing it. Weak collections have no order: theirs are sorted.
const previewBody = (ctx, entries, paired, weak, depth) => {
  const parts = newList();
  const count = paired ? entries.length / 2 : entries.length;
  const shown = MathMin(MathMax(0, ctx.maxArrayLength), count);
  ctx.indentationLvl += 2;
  for (let i = 0; i < shown; i++) {
    if (!paired) {
      parts[i] = formatValue(ctx, entries[i], depth, false);
      continue;
    }
    const key = formatValue(ctx, entries[2 * i], depth, false);
    const item = formatValue(ctx, entries[2 * i + 1], depth, false);
    if (weak) {
      parts[i] = `${key} => ${item}`;
    } else {
      const pair = newList();
      pair[0] = key;
      pair[1] = item;
      parts[i] = joinParts(ctx, pair, "", "[", "]", layoutArray, depth, undefined);
    }
  }
  ctx.indentationLvl -= 2;
  if (weak) ArrayPrototypeSort(parts);
  if (count > shown) parts[parts.length] = moreItems(count - shown);
  return parts;
};

const promiseBody = (ctx, value, depth) => {
  const parts = newList();
  const details = host.promiseDetails(value);
  if (details[0] === 0) {
    parts[0] = ctx.stylize("<pending>", "special");
    return parts;
  }
  ctx.indentationLvl += 2;
  const text = formatValue(ctx, details[1], depth, false);
  ctx.indentationLvl -= 2;
  parts[0] = details[0] === 2 ? `${ctx.stylize("<rejected>", "special")} ${text}` : text;
  return parts;
};

const namespaceBody = (ctx, value, keys, depth) => {
  const parts = newList();
  for (let i = 0; i < keys.length; i++) {
    let descriptor;
    try {
      descriptor = ObjectGetOwnPropertyDescriptor(value, keys[i]);
      // The namespaces of imported modules have getters.
      if (hasOwn(descriptor, "get")) descriptor = { __proto__: null, value: value[keys[i]], writable: true, enumerable: true, configurable: false };
    } catch {
      parts[i] = `${propertyName(ctx, keys[i], true)}: ${ctx.stylize("<uninitialized>", "special")}`;
      continue;
    }
    parts[i] = formatProperty(ctx, value, depth, keys[i], false, descriptor);
  }
  return parts;
};

// ---- bases: one-token forms -------------------------------------------------

const regExpText = (value) => {
  let flags = "";
  for (let i = 0; i < regExpFlagGetters.length; i++) {
    if (regExpFlagGetters[i].get(value)) flags += regExpFlagGetters[i].letter;
  }
  return `/${RegExpPrototypeGetSource(value)}/${flags}`;
};

const dateText = (value) => {
  const time = DatePrototypeGetTime(value);
  return time !== time ? DatePrototypeToString(value) : DatePrototypeToISOString(value);
};

const boxedText = (ctx, value, kind, keys, constructor, tag) => {
  const type = StringPrototypeSlice(kind, 5); // "boxedString" and so on
  let primitive;
  if (type === "Number") primitive = NumberPrototypeValueOf(value);
  else if (type === "String") primitive = StringPrototypeValueOf(value);
  else if (type === "Boolean") primitive = BooleanPrototypeValueOf(value);
  else if (type === "BigInt") primitive = BigIntPrototypeValueOf(value);
  else primitive = SymbolPrototypeValueOf(value);
  if (type === "String") {
    // The characters are own index properties, which the text already shows.
    const length = primitive.length;
    for (let i = length; i < keys.length; i++) keys[i - length] = keys[i];
    keys.length = MathMax(0, keys.length - length);
  }
  let base = `[${type}`;
  if (type !== constructor) base += constructor === null ? " (null prototype)" : ` (${constructor})`;
  base += `: ${formatPrimitive({ __proto__: ctx, stylize: plainStyle }, primitive)}]`;
  if (tag !== "" && tag !== constructor) base += ` [${tag}]`;
  return ctx.stylize(base, StringPrototypeToLowerCase(type));
};

// isClassSource reports whether the source text of a function is that of a class.
const isClassSource = (source) => {
  if (!StringPrototypeStartsWith(source, "class") || !StringPrototypeEndsWith(source, "}")) return false;
  const rest = StringPrototypeSlice(source, 5, -1);
  const brace = StringPrototypeIndexOf(rest, "{");
  if (brace === -1) return false;
  if (!StringPrototypeIncludes(StringPrototypeSlice(rest, 0, brace), "(")) return true;
  return matches(/^(\s+[^(]*?)\s*{/, withoutComments(rest));
};

const withoutComments = (source) => {
  let out = "";
  let at = 0;
  while (at < source.length) {
    const pair = StringPrototypeSlice(source, at, at + 2);
    let end = -1;
    if (pair === "//") end = StringPrototypeIndexOf(source, "\n", at) + 1 || -1;
    else if (pair === "/*") end = StringPrototypeIndexOf(source, "*/", at + 2) + 2;
    if (end > at) {
      at = end;
    } else {
      out += source[at++];
    }
  }
  return out;
};

const classText = (value, constructor, tag) => {
  const own = hasOwn(value, "name") && readText(value, "name");
  let base = `class ${own ? NativeString(own) : "(anonymous)"}`;
  if (constructor !== "Function" && constructor !== null) base += ` [${constructor}]`;
  if (tag !== "" && constructor !== tag) base += ` [${tag}]`;
  if (constructor === null) {
    base += " extends [null prototype]";
  } else {
    const parent = readText(ObjectGetPrototypeOf(value), "name");
    if (parent) base += ` extends ${NativeString(parent)}`;
  }
  return `[${base}]`;
};

const functionText = (ctx, value, kind, constructor, tag) => {
  const source = FunctionPrototypeToString(value);
  if (isClassSource(source)) return classText(value, constructor, tag);
  let type = "Function";
  if (kind === "generatorFunction") type = "GeneratorFunction";
  else if (kind === "asyncFunction") type = "AsyncFunction";
  else if (kind === "asyncGeneratorFunction") type = "AsyncGeneratorFunction";
  let base = `[${type}`;
  if (constructor === null) base += " (null prototype)";
  const name = readText(value, "name");
  if (name === "") base += " (anonymous)";
  else base += `: ${typeof name === "symbol" ? SymbolPrototypeToString(name) : name}`;
  base += "]";
  if (constructor !== type && constructor !== null) base += ` ${constructor}`;
  if (tag !== "" && constructor !== tag) base += ` [${tag}]`;
  return base;
};
