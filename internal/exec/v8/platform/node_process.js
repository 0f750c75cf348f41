// The global process, which exists with the option for the globals of Node.

const { ObjectCreate, ObjectDefineProperty, ObjectFreeze, ReflectApply } = platform;
const { setAll, needFunction, nodeError } = platform.load("node_tools");
const EventEmitter = platform.load("node_events").exports.default;
const queue = platform.original("globalThis", "queueMicrotask");
const floor = platform.original("Math", "floor");
const BigInt = platform.original("globalThis", "BigInt");

// A script has no process. The object has what libraries read to find out where they run.
class Process extends EventEmitter {}
ObjectDefineProperty(Process, "name", { __proto__: null, value: "process" });
const process = ObjectCreate(Process.prototype);
platform.setTag(Process.prototype, "process");

const hrtime = (before) => {
  const now = platform.now();
  let seconds = floor(now / 1000);
  let nanoseconds = floor((now % 1000) * 1e6);
  if (before !== undefined) {
    seconds -= before[0];
    nanoseconds -= before[1];
    if (nanoseconds < 0) {
      seconds--;
      nanoseconds += 1e9;
    }
  }
  return [seconds, nanoseconds];
};
setAll(hrtime, { bigint() { return BigInt(floor(platform.now() * 1e6)); } });

setAll(process, {
  title: "daybook",
  version: "v20.0.0",
  versions: ObjectFreeze({ node: "20.0.0" }),
  arch: "x64",
  platform: "linux",
  release: ObjectFreeze({ name: "node" }),
  argv: [],
  execArgv: [],
  env: ObjectFreeze({}),
  pid: 1,
  exitCode: undefined,
  browser: false,
  cwd() { return "/"; },
  exit() { throw nodeError(platform.Error, "ERR_NOT_SUPPORTED", "process.exit is not available: a script ends when nothing is pending", process.exit); },
  hrtime,
  uptime() { return (platform.now() - platform.startOfRun()) / 1000; },
  nextTick(callback, ...args) {
    needFunction(callback, "callback", process.nextTick);
    queue(() => ReflectApply(callback, undefined, args));
  },
  emitWarning(warning) { platform.warn(typeof warning === "string" ? `Warning: ${warning}` : `${warning}`); },
  getBuiltinModule(id) {
    const exports = platform.loadNodeModule(id);
    return exports === undefined ? undefined : exports.default;
  },
});

return { process };
