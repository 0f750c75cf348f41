// Stack traces. The native side calls prepareStack when a trace is first read. Therefore
// error.stack, console.error, console.trace and uncaught errors all show the same text.
//
// The engine knows a script as file#hash. Frames of an earlier run show that name. Frames
// of the current run show the name that its caller gave. A script that was generated from
// another source has the mappings of a source map. They stay in the heap as long as its
// functions may.

// The prelude and the parts of the platform have names that start with this.
const ownNames = "daybook:";

const maxKeptMappings = 1048576; // characters
const maxKeptScripts = 1000;
const maxDroppedHashes = 10000;
let mappingIndexes; // name -> where each generated line's mappings begin

// ---- positions ------------------------------------------------------------------

const base64Value = (code) => {
  if (code >= 97) return code - 71;
  if (code >= 65) return code - 65;
  if (code >= 48) return code + 4;
  return code === 43 ? 62 : 63;
};

// readLine reads the mappings of one generated line and advances state: at is an index of
// the text, line and column are those of the source. It calls visit for each segment, with
// the generated column and whether the segment has a source.
const readLine = (mappings, state, visit) => {
  let column = 0;
  const fields = newList();
  while (state.at < mappings.length) {
    let code = StringPrototypeCharCodeAt(mappings, state.at);
    if (code === 59 || code === 44) { // ; ends the line, a comma the segment
      state.at++;
      if (code === 59) return;
      continue;
    }
    fields.length = 0;
    let value = 0;
    let shift = 0;
    while (code !== 44 && code !== 59) {
      const digit = base64Value(code);
      value += (digit & 31) * 2 ** shift;
      shift += 5;
      if ((digit & 32) === 0) {
        const half = MathFloor(value / 2);
        fields[fields.length] = value % 2 === 1 ? -half : half;
        value = 0;
        shift = 0;
      }
      if (++state.at >= mappings.length) break;
      code = StringPrototypeCharCodeAt(mappings, state.at);
    }
    column += fields[0];
    if (fields.length >= 4) {
      state.line += fields[2];
      state.column += fields[3];
    }
    visit(column, fields.length >= 4);
  }
};

const indexOfLines = (mappings) => {
  const lines = newList();
  const state = { __proto__: null, at: 0, line: 0, column: 0 };
  do {
    lines[lines.length] = { __proto__: null, at: state.at, line: state.line, column: state.column };
    readLine(mappings, state, () => {});
  } while (state.at < mappings.length);
  return lines;
};

// sourcePosition maps a position in generated code (1-based) to ":line:column" in its
// source, or to "" if that code has no source.
const sourcePosition = (name, mappings, line, column) => {
  if (mappings === "") return "";
  if (mappingIndexes === undefined) mappingIndexes = new NativeMap();
  let lines = MapPrototypeGet(mappingIndexes, name);
  if (lines === undefined) {
    lines = indexOfLines(mappings);
    MapPrototypeSet(mappingIndexes, name, lines);
  }
  if (line < 1 || line > lines.length) return "";
  const start = lines[line - 1];
  const state = { __proto__: null, at: start.at, line: start.line, column: start.column };
  let found = "";
  readLine(mappings, state, (generated, hasSource) => {
    if (generated < column) found = hasSource ? `:${state.line + 1}:${state.column + 1}` : "";
  });
  return found;
};

const isHexDigit = (code) => (code >= 48 && code <= 57) || (code >= 97 && code <= 102);

const skipDigits = (text, at) => {
  while (at < text.length && isDigit(StringPrototypeCharCodeAt(text, at))) at++;
  return at;
};

// hashIn returns the hash in a name.
const hashIn = (name) => StringPrototypeSlice(name, name.length - 8);

// shownPlace returns the text of a position in a script. Now it uses the caller's name for
// the current script and its files, later the name that the script has in the heap.
const shownPlace = (name, line, column, later) => {
  const current = name === scriptName;
  const file = current ? scriptFile : scriptFiles && MapPrototypeGet(scriptFiles, name);
  const shown = file !== undefined && !later ? file : name;
  const mappings = current ? scriptMappings || undefined : MapPrototypeGet(keptMappings, name);
  if (mappings === undefined) return !current && MapPrototypeHas(droppedHashes, hashIn(name)) ? shown : `${shown}:${line}:${column}`;
  return shown + sourcePosition(name, mappings, +line, +column);
};

// placeFrame rewrites each "file#hash:line:column" in a frame. A frame of eval has two.
const placeFrame = (frame, later) => {
  let out = "";
  let from = 0;
  for (let hash = StringPrototypeIndexOf(frame, "#"); hash !== -1; hash = StringPrototypeIndexOf(frame, "#", hash + 1)) {
    let end = hash + 1;
    while (end < frame.length && end < hash + 9 && isHexDigit(StringPrototypeCharCodeAt(frame, end))) end++;
    if (end !== hash + 9 || frame[end] !== ":") continue;
    const column = skipDigits(frame, end + 1);
    const over = frame[column] === ":" ? skipDigits(frame, column + 1) : 0;
    if (column === end + 1 || over <= column + 1) continue;
    let start = hash;
    while (start > from && frame[start - 1] !== " " && frame[start - 1] !== "(") start--;
    const name = StringPrototypeSlice(frame, start, end);
    const place = shownPlace(name, StringPrototypeSlice(frame, end + 1, column), StringPrototypeSlice(frame, column + 1, over), later);
    out += StringPrototypeSlice(frame, from, start) + place;
    from = over;
  }
  return from === 0 ? frame : out + StringPrototypeSlice(frame, from);
};

// ---- traces ---------------------------------------------------------------------

// stackHeader returns the first part of a trace. A name or message may be an accessor
// that throws. The header then shows that accessor's error, as in the engine.
const stackHeader = (error) => {
  try {
    if (isQuiet) {
      let name = readText(error, "name");
      name = name === undefined ? "Error" : NativeString(name);
      const message = readText(error, "message");
      return name && message ? `${name}: ${NativeString(message)}` : name || NativeString(message);
    }
    return ErrorPrototypeToString(error);
  } catch (thrown) {
    try {
      return `<error: ${ErrorPrototypeToString(thrown)}>`;
    } catch {
      return "<error>";
    }
  }
};

const prepareStack = (error, sites) => {
  const frames = newList();
  for (let i = 0; i < sites.length; i++) {
    const name = CallSitePrototypeGetScriptName(sites[i]);
    if (typeof name !== "string" || !StringPrototypeStartsWith(name, ownNames)) frames[frames.length] = sites[i];
  }
  // Only an own property of Error counts: an inherited one is not meant for it.
  const prepare = !isQuiet && hasOwn(NativeError, "prepareStackTrace") ? NativeError.prepareStackTrace : undefined;
  if (typeof prepare === "function") return ReflectApply(prepare, NativeError, [error, ObjectSetPrototypeOf(frames, ArrayPrototype)]);
  let text = stackHeader(error);
  if (textsToSave !== undefined) {
    for (let i = 0; i < frames.length; i++) text += `\n    at ${placeFrame(CallSitePrototypeToString(frames[i]), true)}`;
    const known = MapPrototypeGet(textsToSave, text); // many errors have equal traces: one text serves all
    if (known === undefined) MapPrototypeSet(textsToSave, text, text);
    return known === undefined ? text : known;
  }
  let later = text;
  for (let i = 0; i < frames.length; i++) {
    const frame = CallSitePrototypeToString(frames[i]);
    text += `\n    at ${placeFrame(frame, false)}`;
    later += `\n    at ${placeFrame(frame, true)}`;
  }
  if (text !== later && heapIsSaved) {
    if (formattedErrors === undefined) formattedErrors = new NativeWeakMap();
    WeakMapPrototypeSet(formattedErrors, error, { __proto__: null, text, later });
  }
  return text;
};

// setStackHeader replaces the first line of a trace. The caller MUST have set the message.
const setStackHeader = (error, header) => {
  const trace = error.stack; // a script may decide what that is
  if (typeof trace !== "string") return;
  const withHeader = (text) => {
    const at = StringPrototypeIndexOf(text, "\n");
    return at < 0 ? header : header + StringPrototypeSlice(text, at);
  };
  const text = withHeader(trace);
  defineHidden(error, "stack", text);
  const known = formattedErrors === undefined ? undefined : WeakMapPrototypeGet(formattedErrors, error);
  if (known !== undefined) {
    WeakMapPrototypeSet(formattedErrors, error, { __proto__: null, text, later: withHeader(known.later) });
  }
};

// isFixedText reports whether no code of a script decides what the text of a property of an error is.
const isFixedText = (error, key) => {
  for (let object = error, i = 0; object !== null; object = ObjectGetPrototypeOf(object), i++) {
    if (i >= maxPrototypes || isProxy(object)) return false;
    const descriptor = ObjectGetOwnPropertyDescriptor(object, key);
    if (descriptor === undefined) continue;
    if (!hasOwn(descriptor, "value")) return descriptor.get === nameOfDOMException;
    return !isObject(descriptor.value) && typeof descriptor.value !== "symbol";
  }
  return true;
};

const maxFramesToSave = 100000;

// readStacks reads the traces of all errors of a list, before they are saved: they are what a
// later run would read. It omits those whose texts depend on code of a script, and all if they
// could have so many frames that their texts would take much time. The order of the list does
// not change the result.
const readStacks = (list) => {
  if (nativeStackGetter === undefined || hasOwn(NativeError, "prepareStackTrace")) return;
  const limit = ObjectGetOwnPropertyDescriptor(NativeError, "stackTraceLimit");
  const frames = limit !== undefined && typeof limit.value === "number" ? limit.value : 0;
  if (list.length * (frames > 1000 ? 1000 : frames) > maxFramesToSave) return;
  textsToSave = new NativeMap();
  for (let i = 0; i < list.length; i++) {
    if (isFixedText(list[i], "name") && isFixedText(list[i], "message")) ReflectApply(nativeStackGetter, list[i], []);
  }
  textsToSave = undefined;
};

// ---- the end of a run ----------------------------------------------------------

// Traces that were read in this run name the current script as its caller does. In the
// next run that name belongs to another script, so they get the name in the heap.
const renameStacks = () => {
  const entries = host.previewEntries(formattedErrors)[0];
  const texts = new NativeMap(); // many errors have equal traces: one text serves all in the heap
  for (let i = 0; i + 1 < entries.length; i += 2) {
    const error = entries[i];
    const stack = entries[i + 1];
    const descriptor = ObjectGetOwnPropertyDescriptor(error, "stack");
    if (descriptor === undefined) continue;
    let later = MapPrototypeGet(texts, stack.later);
    if (later === undefined) MapPrototypeSet(texts, stack.later, later = stack.later);
    if (hasOwn(descriptor, "value")) {
      if (descriptor.value === stack.text && descriptor.writable) {
        ObjectDefineProperty(error, "stack", { __proto__: null, value: later });
      }
    } else if (descriptor.get === nativeStackGetter && ReflectApply(nativeStackGetter, error, []) === stack.text) {
      ReflectApply(nativeStackSetter, error, [later]);
    }
  }
  formattedErrors = undefined;
};

// limitMappings drops the mappings of the oldest runs.
const limitMappings = () => {
  let total = 0;
  const all = newList();
  const entries = MapPrototypeEntries(keptMappings);
  for (let next = MapIteratorPrototypeNext(entries); !next.done; next = MapIteratorPrototypeNext(entries)) {
    all[all.length] = next.value;
    total += next.value[1].length;
  }
  for (let i = 0; i < all.length; i++) {
    const name = all[i][0];
    if (total > maxKeptMappings) {
      total -= all[i][1].length;
      MapPrototypeSet(keptMappings, name, "");
    }
    if (all.length - i > maxKeptScripts) {
      MapPrototypeDelete(keptMappings, name);
      MapPrototypeSet(droppedHashes, hashIn(name), true);
    }
  }
  const hashes = MapPrototypeEntries(droppedHashes);
  while (MapPrototypeGetSize(droppedHashes) > maxDroppedHashes) MapPrototypeDelete(droppedHashes, MapIteratorPrototypeNext(hashes).value[0]);
};

return { __proto__: null, limitMappings, prepareStack, readStacks, renameStacks, setStackHeader, stackHeader };
