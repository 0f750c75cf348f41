// Marks and measures of performance, in the virtual time of the run. The entries of earlier runs
// stay in the heap. Their times count from the starts of those runs.

const { TypeError, codedError, domError, isObject, newList } = platform;
const { illegalInvocation, illegalConstructor, requireArguments, toDictionary, expose, defineInspection } = platform.load("webidl");

const now = platform.method("Performance.prototype", "now");
const structuredClone = platform.original("globalThis", "structuredClone");

const secret = {};
const entries = newList(); // sorted by their start

let entryState;

class PerformanceEntry {
  #state;
  constructor() {
    if (arguments[0] !== secret) throw illegalConstructor();
    this.#state = arguments[1];
  }
  static state(value) { return isObject(value) && #state in value ? value.#state : undefined; }

  get name() { return read(this).name; }
  get entryType() { return read(this).entryType; }
  get startTime() { return read(this).startTime; }
  get duration() { return read(this).duration; }
  toJSON() {
    const state = read(this);
    const fields = { name: state.name, entryType: state.entryType, startTime: state.startTime, duration: state.duration };
    if ("detail" in state) fields.detail = state.detail;
    return fields;
  }
}
entryState = PerformanceEntry.state;
delete PerformanceEntry.state;
expose(PerformanceEntry, "PerformanceEntry");
defineInspection(PerformanceEntry, "PerformanceEntry", (entry) => {
  const state = entryState(entry);
  return state && { name: state.name, entryType: state.entryType, startTime: state.startTime, duration: state.duration, detail: state.detail };
});

const read = (value) => {
  const state = entryState(value);
  if (state === undefined) throw illegalInvocation("PerformanceEntry");
  return state;
};

let created = 0;
const newState = (name, entryType, startTime, duration, detail) =>
  ({ __proto__: null, name, entryType, startTime, duration, detail, order: ++created });
const cloneDetail = (detail) => (detail === undefined || detail === null ? null : structuredClone(detail));

const toTime = (value) => {
  const time = +value;
  if (time - time !== 0) throw new TypeError(`${time} is no finite number`);
  if (time < 0) throw codedError(TypeError, "ERR_PERFORMANCE_INVALID_TIMESTAMP", `${time} is not a valid timestamp`);
  return time;
};

class PerformanceMark extends PerformanceEntry {
  constructor(name, options) {
    requireArguments(arguments, "name");
    name = `${name}`;
    const given = toDictionary(options, "options");
    const { detail, startTime } = given === undefined ? { __proto__: null } : given;
    super(secret, newState(name, "mark", startTime === undefined ? now(undefined) : toTime(startTime), 0, cloneDetail(detail)));
  }
  get detail() { return readOf(this, "mark", "PerformanceMark").detail; }
}
expose(PerformanceMark, "PerformanceMark", { constructor: 1 });

class PerformanceMeasure extends PerformanceEntry {
  constructor() {
    if (arguments[0] !== secret) throw illegalConstructor();
    super(secret, arguments[1]);
  }
  get detail() { return readOf(this, "measure", "PerformanceMeasure").detail; }
}
expose(PerformanceMeasure, "PerformanceMeasure");

const readOf = (value, type, name) => {
  const state = entryState(value);
  if (state === undefined || state.entryType !== type) throw illegalInvocation(name);
  return state;
};

// add keeps the entries in the order of their starts, and equal ones in the order of creation.
const add = (entry) => {
  const { startTime } = entryState(entry);
  let at = entries.length;
  while (at > 0 && entryState(entries[at - 1]).startTime > startTime) {
    entries[at] = entries[at - 1];
    at--;
  }
  entries[at] = entry;
  return entry;
};

// timeOf converts the name of a mark, or a time.
const timeOf = (mark) => {
  if (typeof mark === "number") return toTime(mark);
  const name = `${mark}`;
  let found;
  for (let i = 0; i < entries.length; i++) {
    const state = entryState(entries[i]);
    if (state.entryType === "mark" && state.name === name && (found === undefined || state.order > found.order)) found = state;
  }
  if (found === undefined) throw domError("SyntaxError", `The "${name}" performance mark has not been set`);
  return found.startTime;
};

const invalidOptions = (text) => codedError(TypeError, "ERR_PERFORMANCE_MEASURE_INVALID_OPTIONS", text);

const select = (isSelected) => {
  const array = [];
  for (let i = 0; i < entries.length; i++) {
    if (!isSelected(entryState(entries[i]))) continue;
    platform.ObjectDefineProperty(array, array.length, { __proto__: null, value: entries[i], writable: true, enumerable: true, configurable: true });
  }
  return array;
};

const clear = (type, name) => {
  const wanted = name === undefined ? undefined : `${name}`;
  let length = 0;
  for (let i = 0; i < entries.length; i++) {
    const state = entryState(entries[i]);
    if (state.entryType !== type || (wanted !== undefined && state.name !== wanted)) entries[length++] = entries[i];
  }
  entries.length = length;
};

function mark(name, options) {
  requireArguments(arguments, "name");
  return add(new PerformanceMark(name, options));
}

function measure(name, startOrOptions, endMark) {
  requireArguments(arguments, "name");
  name = `${name}`;
  let start;
  let end;
  let duration;
  let detail;
  if (isObject(startOrOptions)) ({ detail, duration, end, start } = startOrOptions);
  if (detail !== undefined || duration !== undefined || end !== undefined || start !== undefined) {
    if (endMark !== undefined) throw invalidOptions("endMark must not be specified");
    if (start === undefined && end === undefined) throw invalidOptions("One of options.start or options.end is required");
    if (start !== undefined && end !== undefined && duration !== undefined) {
      throw invalidOptions("Must not have options.start, options.end, and options.duration specified");
    }
    if (duration !== undefined) duration = toTime(duration);
  } else if (startOrOptions !== undefined && startOrOptions !== null && !isObject(startOrOptions)) {
    start = `${startOrOptions}`;
  }
  if (endMark !== undefined) end = `${endMark}`;
  let endTime;
  if (end !== undefined) endTime = timeOf(end);
  else if (start !== undefined && duration !== undefined) endTime = timeOf(start) + duration;
  else endTime = now(undefined);
  const startTime = start !== undefined ? timeOf(start) : duration !== undefined ? endTime - duration : 0;
  return add(new PerformanceMeasure(secret, newState(name, "measure", startTime, endTime - startTime, cloneDetail(detail))));
}

function clearMarks(name) { clear("mark", name); }
function clearMeasures(name) { clear("measure", name); }
function getEntries() { return select(() => true); }
function getEntriesByName(name, type) {
  requireArguments(arguments, "name");
  name = `${name}`;
  if (type !== undefined) type = `${type}`;
  return select((state) => state.name === name && (type === undefined || state.entryType === type));
}
function getEntriesByType(type) {
  requireArguments(arguments, "type");
  type = `${type}`;
  return select((state) => state.entryType === type);
}

return {
  PerformanceEntry, PerformanceMark, PerformanceMeasure,
  mark, measure, clearMarks, clearMeasures, getEntries, getEntriesByName, getEntriesByType,
};
