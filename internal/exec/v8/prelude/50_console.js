// console: Node's formatting, written through host.write. The level is a separate
// argument, so that no text of a script can be mistaken for another level.

const levelLog = 0;
const levelDebug = 1;
const levelInfo = 2;
const levelWarn = 3;
const levelError = 4;
const levelTrace = 5;
const levelPrefixes = ["", "", "[INFO] ", "[WARN] ", "[ERROR] ", ""];

let groupIndent = "";
const counts = new NativeMap();
const stopwatches = new NativeMap();

const emit = (level, text) => {
  if (groupIndent !== "") {
    text = groupIndent + (StringPrototypeIncludes(text, "\n") ? replaceText(text, "\n", `\n${groupIndent}`) : text);
  }
  const prefix = levelPrefixes[level];
  host.write(level, prefix === "" ? text : prefix + text);
};

// print is all that console.log("text") costs: it does no formatting.
const print = (level, args) => {
  if (args.length === 1 && typeof args[0] === "string") emit(level, args[0]);
  else emit(level, formatArguments(args));
};

const openGroup = (args) => {
  if (args.length > 0) print(levelLog, args);
  groupIndent += "  ";
};

const consoleObject = {
  log(...args) { print(levelLog, args); },
  warn(...args) { print(levelWarn, args); },
  dir(value, options) {
    if (options === undefined || options === null) options = {};
    emit(levelLog, inspecting().inspectPlainly(value, options));
  },
  time(label = "default") {
    label = `${label}`;
    if (MapPrototypeHas(stopwatches, label)) {
      emit(levelWarn, `Label '${label}' already exists for console.time()`);
      return;
    }
    MapPrototypeSet(stopwatches, label, host.now());
  },
  timeEnd(label = "default") {
    label = `${label}`;
    if (inspecting().reportElapsed("timeEnd", label, [])) MapPrototypeDelete(stopwatches, label);
  },
  timeLog(label = "default", ...extra) {
    inspecting().reportElapsed("timeLog", `${label}`, extra);
  },
  trace(...args) {
    const error = { name: "Trace", message: formatArguments(args) };
    ErrorCaptureStackTrace(error, consoleObjectTrace);
    emit(levelTrace, `${error.stack}`);
  },
  assert(condition, ...args) {
    if (condition) return;
    if (args.length === 0) {
      emit(levelWarn, "Assertion failed");
      return;
    }
    args[0] = `Assertion failed: ${args[0]}`;
    print(levelWarn, args);
  },
  clear() {}, // nothing to clear: output is a ledger
  count(label = "default") {
    label = `${label}`;
    const count = (MapPrototypeGet(counts, label) || 0) + 1;
    MapPrototypeSet(counts, label, count);
    emit(levelLog, `${label}: ${count}`);
  },
  countReset(label = "default") {
    label = `${label}`;
    if (!MapPrototypeDelete(counts, label)) emit(levelWarn, `Count for '${label}' does not exist`);
  },
  group(...args) { openGroup(args); },
  groupEnd() { groupIndent = StringPrototypeSlice(groupIndent, 0, groupIndent.length - 2); },
  table(data, properties) {
    const text = inspecting().tableText(data, properties, consoleObjectTable);
    if (text === undefined) print(levelLog, [data]);
    else emit(levelLog, text);
  },
  debug(...args) { print(levelDebug, args); },
  info(...args) { print(levelInfo, args); },
  dirxml(...args) { print(levelLog, args); },
  error(...args) { print(levelError, args); },
  groupCollapsed(...args) { openGroup(args); },
};
// Captured here, because user code may replace the methods of the object.
const consoleObjectTrace = consoleObject.trace;
const consoleObjectTable = consoleObject.table;

(() => {
  const names = ObjectKeys(consoleObject);
  for (let i = 0; i < names.length; i++) setMeta(consoleObject[names[i]], names[i], 0);
  setTag(consoleObject, "console");
  // Its prototype is an empty object of its own, as the console standard requires.
  ObjectSetPrototypeOf(consoleObject, {});
  defineHidden(global, "console", consoleObject);
})();
