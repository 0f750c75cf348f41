// The formatting of the console.

// formatArguments is util.format: it replaces the directives of a leading string, as printf
// does, inspects the remaining arguments and joins them by spaces.
const formatArguments = (args, options) => {
  const count = args.length;
  if (count === 0) return "";
  let text = "";
  let next = 0;
  if (typeof args[0] === "string") {
    if (count === 1) return args[0];
    const format = args[0];
    let start = 0;
    next = 1;
    for (let i = 0; i < format.length - 1; i++) {
      if (StringPrototypeCharCodeAt(format, i) !== 37) continue; // %
      const directive = format[i + 1];
      if (directive === "%") {
        text += StringPrototypeSlice(format, start, i + 1);
        start = i + 2;
        i++;
        continue;
      }
      if (next === count) continue;
      const piece = formatDirective(directive, args, next);
      if (piece === undefined) continue;
      text += StringPrototypeSlice(format, start, i) + piece;
      start = i + 2;
      i++;
      next++;
    }
    text += StringPrototypeSlice(format, start);
  }
  for (let i = next; i < count; i++) {
    if (i > 0) text += " ";
    const value = args[i];
    text += typeof value === "string" ? value : inspectWith(value, options);
  }
  return text;
};

const formatDirective = (directive, args, index) => {
  const value = args[index];
  switch (directive) {
    case "s": return formatAsString(value);
    case "d":
      if (typeof value === "bigint") return `${value}n`;
      return typeof value === "symbol" ? "NaN" : formatNumber(NativeNumber(value));
    case "i":
      if (typeof value === "bigint") return `${value}n`;
      return typeof value === "symbol" ? "NaN" : formatNumber(NumberParseInt(value));
    case "f": return typeof value === "symbol" ? "NaN" : formatNumber(NumberParseFloat(value));
    case "j": return formatAsJSON(value);
    case "O": return inspectWith(value, undefined);
    case "o": return inspectWith(value, { __proto__: null, showHidden: true, showProxy: true, depth: 4 });
    case "c": return ""; // styling is consumed and has no effect on text
    default: return undefined;
  }
};

const formatAsString = (value) => {
  switch (typeof value) {
    case "number": return formatNumber(value);
    case "bigint": return `${value}n`;
    case "object":
      if (value !== null && usesBuiltinToString(value)) {
        return inspectWith(value, { __proto__: null, depth: 0, compact: 3 });
      }
      return NativeString(value);
    default: return NativeString(value);
  }
};

// usesBuiltinToString serves %s, which calls a toString of user code and inspects other values.
const usesBuiltinToString = (value) => {
  while (host.kindOf(value) === "proxy") {
    value = host.proxyDetails(value)[0];
    if (value === null) return true;
  }
  if (typeof value.toString !== "function") return true;
  if (hasOwn(value, "toString")) return false;
  let pointer = value;
  do {
    pointer = ObjectGetPrototypeOf(pointer);
    if (pointer === null) return true;
  } while (!hasOwn(pointer, "toString"));
  const descriptor = ObjectGetOwnPropertyDescriptor(pointer, "constructor");
  return descriptor !== undefined && hasOwn(descriptor, "value") && typeof descriptor.value === "function" &&
    SetPrototypeHas(builtinNames, descriptor.value.name);
};

const formatAsJSON = (value) => {
  try {
    return `${JSONStringify(value)}`;
  } catch (error) {
    if (host.kindOf(error) === "error" && typeof error.message === "string" &&
        StringPrototypeIncludes(error.message, "circular structure")) return "[Circular]";
    throw error;
  }
};

// elapsedText returns a duration in a suitable unit.
const elapsedText = (ms) => {
  if (ms < 1000) return `${NativeNumber(NumberPrototypeToFixed(ms, 3))}ms`;
  if (ms < 60000) return `${NumberPrototypeToFixed(ms / 1000, 3)}s`;
  const pad = (n) => StringPrototypePadStart(`${n}`, 2, "0");
  const hours = MathFloor(ms / 3600000);
  const minutes = MathFloor((ms % 3600000) / 60000);
  const seconds = StringPrototypePadStart(NumberPrototypeToFixed((ms % 60000) / 1000, 3), 6, "0");
  return hours > 0 ? `${hours}:${pad(minutes)}:${seconds} (h:mm:ss.mmm)` : `${minutes}:${seconds} (m:ss.mmm)`;
};

// reportElapsed serves timeLog and timeEnd. It returns false if no such stopwatch runs.
const reportElapsed = (method, label, extra) => {
  const started = MapPrototypeGet(stopwatches, label);
  if (started === undefined) {
    emit(levelWarn, `No such label '${label}' for console.${method}()`);
    return false;
  }
  let text = `${label}: ${elapsedText(host.now() - started)}`;
  for (let i = 0; i < extra.length; i++) {
    text += ` ${typeof extra[i] === "string" ? extra[i] : inspectWith(extra[i], undefined)}`;
  }
  emit(levelLog, text);
  return true;
};

// inspectPlainly is console.dir: it calls no custom inspection function unless an option asks for it.
const inspectPlainly = (value, options) => {
  const merged = { __proto__: null, customInspect: false };
  for (let i = 0; i < optionNames.length; i++) {
    if (hasOwn(options, optionNames[i])) merged[optionNames[i]] = options[optionNames[i]];
  }
  return inspectWith(value, merged);
};
