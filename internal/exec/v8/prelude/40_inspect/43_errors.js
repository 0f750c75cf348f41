// Errors print as their stack, corrected where class, name and stack disagree.

const stackOf = (error) => {
  const stack = isQuiet ? nativeStack(error) : error.stack;
  if (isQuiet && (!stack || isObject(stack))) return stacks().stackHeader(error);
  return stack ? NativeString(stack) : ErrorPrototypeToString(error);
};

const dropKey = (keys, key) => {
  let kept = 0;
  for (let i = 0; i < keys.length; i++) if (keys[i] !== key) keys[kept++] = keys[i];
  keys.length = kept;
};

// errorText removes from keys those that the text already shows, and adds cause and errors.
const errorText = (ctx, error, constructor, tag, keys) => {
  const rawName = readText(error, "name");
  const name = rawName === undefined || rawName === null ? "Error" : NativeString(rawName);
  let stack = stackOf(error);
  dropShownKeys(ctx, keys, error, stack);
  if (has(error, "cause") && !listIncludes(keys, "cause")) keys[keys.length] = "cause";
  // Only an AggregateError or a similar error has an array as errors.
  if (hasOwn(error, "errors") && ArrayIsArray(read(error, "errors")) && !listIncludes(keys, "errors")) keys[keys.length] = "errors";

  if (!isQuiet || rawName !== "") stack = nameInHeader(stack, constructor, name, tag);

  // The search for frames starts after the message, which may contain "\n    at" itself.
  const message = read(error, "message");
  let from = message && typeof message === "string" ? StringPrototypeIndexOf(stack, message) : -1;
  from = from === 0 ? -1 : from;
  if (from !== -1) from += message.length;
  const framesAt = StringPrototypeIndexOf(stack, "\n    at", from);
  if (framesAt === -1) {
    stack = `[${stack}]`;
  } else {
    const frames = frameLines(error, StringPrototypeSlice(stack, framesAt + 1));
    stack = `${StringPrototypeSlice(stack, 0, framesAt)}\n${listJoin(frames, "\n")}`;
  }
  if (ctx.indentationLvl !== 0) stack = replaceText(stack, "\n", `\n${spaces(ctx.indentationLvl)}`);
  return stack;
};

const dropShownKeys = (ctx, keys, error, stack) => {
  if (ctx.showHidden || keys.length === 0) return;
  const shown = ["name", "message", "stack"];
  for (let i = 0; i < 3; i++) {
    if (!listIncludes(keys, shown[i])) continue;
    const text = read(error, shown[i]);
    if (typeof text !== "string" || StringPrototypeIncludes(stack, text)) dropKey(keys, shown[i]);
  }
};

// nameInHeader puts the class into the first line: a subclass that did not set its name
// prints "Sub: message", a subclass with another name prints "Sub [name]: message".
const nameInHeader = (stack, constructor, name, tag) => {
  let length = name.length;
  const regular = StringPrototypeEndsWith(name, "Error") && StringPrototypeStartsWith(stack, name) &&
    (stack.length === length || stack[length] === ":" || stack[length] === "\n");
  if (constructor !== null && !regular) return stack;
  let fallback = "Error";
  if (constructor === null) {
    const start = RegExpPrototypeExec(/^([A-Z][a-z_ A-Z0-9[\]()-]+)(?::|\n\s+at)/, stack) ||
      RegExpPrototypeExec(/^([a-z_A-Z0-9-]*Error)$/, stack);
    fallback = start === null ? "" : start[1];
    length = fallback.length;
    fallback = fallback || "Error";
  }
  const prefix = StringPrototypeSlice(prefixOf(constructor, tag, fallback), 0, -1);
  if (name === prefix) return stack;
  if (StringPrototypeIncludes(prefix, name)) {
    return length === 0 ? `${prefix}: ${stack}` : `${prefix}${StringPrototypeSlice(stack, length)}`;
  }
  return `${prefix} [${name}]${StringPrototypeSlice(stack, length)}`;
};

const isErrorValue = (value) =>
  typeof value === "object" && value !== null && (host.kindOf(value) === "error" || isInstance(NativeError, value));

// frameLines shortens the frames that an error shares with its cause: the cause prints them.
const frameLines = (error, text) => {
  const frames = splitText(text, "\n");
  if (!has(error, "cause")) return frames;
  const cause = read(error, "cause");
  if (!isErrorValue(cause)) return frames;
  const causeStack = stackOf(cause);
  const causeAt = StringPrototypeIndexOf(causeStack, "\n    at");
  if (causeAt === -1) return frames;
  const causeFrames = splitText(StringPrototypeSlice(causeStack, causeAt + 1), "\n");
  const common = commonFrames(frames, causeFrames);
  if (common.length <= 3) return frames;
  const skipped = common.length - 2;
  const out = newList();
  for (let i = 0; i <= common.offset; i++) out[i] = frames[i];
  out[out.length] = `    ... ${skipped} lines matching cause stack trace ...`;
  for (let i = common.offset + 1 + skipped; i < frames.length; i++) out[out.length] = frames[i];
  return out;
};

const commonFrames = (a, b) => {
  for (let i = 0; i < a.length - 3; i++) {
    let at = 0;
    while (at < b.length && b[at] !== a[i]) at++;
    const rest = b.length - at;
    if (rest <= 3) continue;
    let length = 1;
    const limit = MathMin(a.length - i, rest);
    while (length < limit && a[i + length] === b[at + length]) length++;
    if (length > 3) return { length, offset: i };
  }
  return { length: 0, offset: 0 };
};
