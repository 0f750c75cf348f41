// What outlives a run of the group stack, which writes stack traces, and the start and the end of
// a run.

const stacks = lazily(evaluateStack);

let scriptName = ""; // of the current run, file#hash
let scriptFile = ""; // what its caller calls it
let scriptMappings = ""; // "" when the engine got the caller's source itself
let scriptFiles; // name -> what its caller calls it, of the files of the current run
let mappingsAdded = false; // whether keptMappings has more than before the run
let heapIsSaved = false;
let formattedErrors; // error -> its text in this run and its text in later ones
let textsToSave; // while readStacks reads traces: the texts so far

// name -> mappings, of earlier runs, in the order of their last run. The mappings are ""
// if they were dropped to free space: frames of those scripts then show no position.
const keptMappings = new NativeMap();
// The hashes in names that keptMappings had once, in the order in which they were dropped: frames
// with them show no position either. The files of a run have the same hash.
const droppedHashes = new NativeMap();
const { CallSitePrototype, CallSitePrototypeToString, CallSitePrototypeGetScriptName } = (() => {
  // No run has started: the engine still reads Error.prepareStackTrace itself.
  NativeError.prepareStackTrace = (_, sites) => ObjectGetPrototypeOf(sites[0]);
  const prototype = new NativeError().stack;
  delete NativeError.prepareStackTrace;
  return {
    CallSitePrototype: prototype,
    CallSitePrototypeToString: uncurryThis(prototype.toString),
    CallSitePrototypeGetScriptName: uncurryThis(prototype.getScriptNameOrSourceURL),
  };
})();

// nativeStack returns the trace of an error: the value of an own data property, or the
// result of the engine's accessor. It returns undefined for an accessor of user code.
const nativeStack = (error) => {
  const descriptor = ObjectGetOwnPropertyDescriptor(error, "stack");
  if (descriptor === undefined) return undefined;
  if (hasOwn(descriptor, "value")) return descriptor.value;
  return descriptor.get === nativeStackGetter && nativeStackGetter !== undefined ? ReflectApply(nativeStackGetter, error, []) : undefined;
};

const { get: nativeStackGetter, set: nativeStackSetter } = (() => {
  const descriptor = ObjectGetOwnPropertyDescriptor(new NativeError(), "stack");
  return descriptor === undefined ? { get: undefined, set: undefined } : descriptor;
})();

const { get: nameOfDOMException } = ObjectGetOwnPropertyDescriptor(DOMExceptionClass.prototype, "name");

const setStackHeader = (error, header) => stacks().setStackHeader(error, header);

const isDigit = (code) => code >= 48 && code <= 57;

const beginScript = (name, file, mappings) => {
  scriptName = name;
  scriptFile = file;
  scriptMappings = mappings;
};

const keepMappings = (name, mappings) => {
  MapPrototypeDelete(keptMappings, name);
  MapPrototypeSet(keptMappings, name, mappings);
  mappingsAdded = true;
};

// addFile notes a file of the current run and its mappings, "" if they are not known.
const addFile = (name, file, mappings) => {
  if (scriptFiles === undefined) scriptFiles = new NativeMap();
  MapPrototypeSet(scriptFiles, name, file);
  keepMappings(name, mappings);
};

const endScript = (ran) => {
  if (formattedErrors !== undefined) stacks().renameStacks();
  if (ran && scriptMappings !== "") keepMappings(scriptName, scriptMappings);
  if (mappingsAdded) stacks().limitMappings();
  mappingsAdded = false;
  scriptName = scriptFile = scriptMappings = "";
  scriptFiles = undefined;
};
