// The clock of a script: Date and performance read the run's virtual time.
//
// host.now() does not advance while JavaScript runs, so two readings in one turn of the
// loop are equal by design. The parts of Date that do not read the clock are the engine's
// own.

const now = () => MathFloor(host.now());

(() => {
  const prototype = NativeDate.prototype;

  function VirtualDate() {
    if (new.target === undefined) return DatePrototypeToString(new NativeDate(now()));
    if (arguments.length === 0) return ReflectConstruct(NativeDate, [now()], new.target);
    return ReflectConstruct(NativeDate, arguments, new.target);
  }
  setMeta(VirtualDate, "Date", 7);
  ObjectDefineProperty(VirtualDate, "prototype", { __proto__: null, value: prototype, writable: false });
  defineHidden(prototype, "constructor", VirtualDate);
  defineHidden(VirtualDate, "now", { now() { return now(); } }.now);
  defineHidden(VirtualDate, "parse", NativeDate.parse);
  defineHidden(VirtualDate, "UTC", NativeDate.UTC);
  defineHidden(global, "Date", VirtualDate);
})();

// performance counts from the start of the current run. entry.begin sets the
// origin. Therefore the numbers in a restored heap start near zero again, as in a
// new process.
let timeOrigin = 0;

(() => {
  class Performance {
    constructor() { throw hideFrames(new NativeTypeError("Illegal constructor"), Performance); }
    now() { return host.now() - timeOrigin; }
    get timeOrigin() { return timeOrigin; }
    toJSON() { return { timeOrigin }; }
  }
  setTag(Performance.prototype, "Performance");
  defineHidden(global, "Performance", Performance);
  defineHidden(global, "performance", ObjectCreate(Performance.prototype));
})();
