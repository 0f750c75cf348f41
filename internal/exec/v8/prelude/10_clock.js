// The clock a script sees: Date and performance on the run's virtual time.
//
// host.now() stands still while JavaScript runs, so two readings in one turn are
// equal by design. Everything about Date that does not read the clock is the
// engine's own.

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

// performance counts from the start of the current run. The origin is set by
// entry.begin, so the numbers of a restored heap start again near zero, as in a
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
