// The text of the error that ends a run: the stack, message first, followed by the other
// parts that Node prints of an uncaught error: own properties, cause and errors.
//
// Properties of the error itself are read from their descriptors, so accessors do not
// run. Values inside them follow the rules of inspection.

const maxDetails = 65536; // characters after the stack

// errorHeader returns the text of an error whose stack user code removed. Each part may be
// an accessor that throws. Then only that part is missing.
const errorHeader = (value) => {
  const read = (key, otherwise) => {
    try {
      const part = value[key];
      return typeof part === "string" ? part : otherwise;
    } catch {
      return otherwise;
    }
  };
  const name = read("name", "Error");
  const message = read("message", "");
  return name === "" || message === "" ? name + message : `${name}: ${message}`;
};

const errorStack = (value) => {
  try {
    const stack = nativeStack(value);
    if (typeof stack === "string" && stack !== "") return stack;
  } catch {
    // An Error.prepareStackTrace of user code threw.
  }
  return errorHeader(value);
};

const ownValue = (object, key) => {
  const descriptor = ObjectGetOwnPropertyDescriptor(object, key);
  return descriptor !== undefined && hasOwn(descriptor, "value") ? descriptor.value : undefined;
};

// detailKeys returns the keys of the properties that the stack does not show.
const detailKeys = (error, stack) => {
  const keys = visibleKeys(error, false);
  const shown = ["name", "message", "stack"];
  for (let i = 0; i < 3; i++) {
    if (!listIncludes(keys, shown[i])) continue;
    const text = ownValue(error, shown[i]);
    if (typeof text !== "string" || StringPrototypeIncludes(stack, text)) dropKey(keys, shown[i]);
  }
  if (hasOwn(error, "cause") && !listIncludes(keys, "cause")) keys[keys.length] = "cause";
  if (ArrayIsArray(ownValue(error, "errors")) && !listIncludes(keys, "errors")) keys[keys.length] = "errors";
  return keys;
};

// formatDetail returns the text of one property. User code that inspection has to run may
// throw. Then only that property is missing.
const formatDetail = (ctx, error, key) => {
  try {
    return formatProperty(ctx, error, 1, key, false);
  } catch {
    ctx.indentationLvl = 0;
    ctx.seen.length = 1;
    return `${propertyName(ctx, key, isEnumerable(error, key))}: <Inspection threw>`;
  }
};

const cutText = (text, limit) => {
  if (text.length <= limit) return text;
  const last = StringPrototypeCharCodeAt(text, limit - 1);
  const end = last >= 0xd800 && last <= 0xdbff ? limit - 1 : limit; // keep pairs together
  return `${StringPrototypeSlice(text, 0, end)}\n... ${text.length - end} more characters`;
};

const errorDetails = (error, stack) => {
  const keys = detailKeys(error, stack);
  if (keys.length === 0) return "";
  const ctx = newContext();
  ctx.customInspect = false;
  ctx.depth = 5;
  ctx.maxPrinted = 2 * maxDetails;
  ctx.seen[0] = error;
  ctx.currentDepth = 1;
  const parts = newList();
  let size = 0;
  for (let i = 0; i < keys.length; i++) {
    if (size > maxDetails) {
      parts[parts.length] = moreProperties(keys.length - i);
      break;
    }
    parts[i] = formatDetail(ctx, error, keys[i]);
    size += parts[i].length;
  }
  // The stack is part of the text here, because its length decides whether all fits on one line.
  const text = joinParts(ctx, parts, stack, "{", "}", layoutObject, 1, undefined);
  return cutText(StringPrototypeSlice(text, stack.length), maxDetails);
};

const errorResult = (value) => {
  if (host.kindOf(value) !== "error") return `Uncaught ${safeInspect(value)}`;
  const stack = errorStack(value);
  try {
    return stack + errorDetails(value, stack);
  } catch {
    return stack; // nested too deep to be inspected
  }
};
