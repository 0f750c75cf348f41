// node:assert and node:assert/strict.

const { codedError, host, inspectWith, invalidArgument, isObject, newList, ObjectGetPrototypeOf, ReflectApply, splitText, String, TypeError, Error } = platform;
const { text, needFunction, setAll, toModule } = platform.load("node_tools");
const { isEqual } = platform.load("node_compare");
const PromiseClass = platform.Promise;
const then = platform.method("Promise.prototype", "then");
const is = platform.original("Object", "is");
const Uint16Array = platform.original("globalThis", "Uint16Array");
const test = platform.method("RegExp.prototype", "exec");

const show = (value) => inspectWith(value, {
  __proto__: null, compact: false, customInspect: false, depth: 1000, maxArrayLength: Infinity, showHidden: false, showProxy: false, sorted: true, getters: true, breakLength: Infinity,
});

const titles = {
  __proto__: null,
  deepStrictEqual: "Expected values to be strictly deep-equal:",
  strictEqual: "Expected values to be strictly equal:",
  strictEqualObject: 'Expected "actual" to be reference-equal to "expected":',
  deepEqual: "Expected values to be loosely deep-equal:",
  notDeepStrictEqual: 'Expected "actual" not to be strictly deep-equal to:',
  notStrictEqual: 'Expected "actual" to be strictly unequal to:',
  notStrictEqualObject: 'Expected "actual" not to be reference-equal to "expected":',
  notDeepEqual: 'Expected "actual" not to be loosely deep-equal to:',
  notIdentical: "Values identical but not reference-equal:",
};

// isSameLine ignores a comma at the end.
const isSameLine = (a, b) => a === b || (a.length + 1 === b.length ? `${a},` === b : b.length + 1 === a.length && a === `${b},`);

// diffOf returns the lines of two texts with their marks: the longest common subsequence.
const diffOf = (a, b) => {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width); // at most maxDiffLines
  for (let i = a.length; i >= 0; i--) {
    for (let j = b.length; j >= 0; j--) {
      lengths[i * width + j] = i === a.length || j === b.length ? 0
        : isSameLine(a[i], b[j]) ? lengths[(i + 1) * width + j + 1] + 1
        : lengths[(i + 1) * width + j] > lengths[i * width + j + 1] ? lengths[(i + 1) * width + j] : lengths[i * width + j + 1];
    }
  }
  const out = newList();
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && isSameLine(a[i], b[j])) {
      out[out.length] = `  ${a[i].length > b[j].length ? a[i] : b[j]}`;
      i++;
      j++;
    } else if (j < b.length && (i === a.length || lengths[i * width + j + 1] > lengths[(i + 1) * width + j])) {
      out[out.length] = `- ${b[j++]}`;
    } else {
      out[out.length] = `+ ${a[i++]}`;
    }
  }
  return platform.listJoin(out, "\n");
};

const maxDiffLines = 1000;

const messageOf = (actual, expected, operator) => {
  if (operator === "deepStrictEqual" || operator === "strictEqual") {
    const a = splitText(show(actual), "\n");
    const b = splitText(show(expected), "\n");
    let kind = operator;
    if (operator === "strictEqual" && ((isObject(actual) && isObject(expected)))) kind = "strictEqualObject";
    if (a.length === 1 && b.length === 1 && a[0] !== b[0] && a[0].length + b[0].length <= 12 && (!isObject(actual) || actual === null) && (!isObject(expected) || expected === null) && (actual !== 0 || expected !== 0)) {
      return `${titles[kind]}\n\n${a[0]} !== ${b[0]}\n`;
    }
    if (kind === "strictEqualObject" && a.length === b.length && platform.listJoin(a, "\n") === platform.listJoin(b, "\n")) {
      return `${titles.notIdentical}\n\n${platform.listJoin(a, "\n")}\n`;
    }
    if (a.length > maxDiffLines || b.length > maxDiffLines) return `${titles[kind]} the values have too many lines to show them`;
    return `${titles[kind]}\n+ actual - expected\n\n${diffOf(a, b)}`;
  }
  if (operator === "notDeepStrictEqual" || operator === "notStrictEqual") {
    const shown = show(actual);
    const kind = operator === "notStrictEqual" && isObject(actual) ? "notStrictEqualObject" : operator;
    return text.includes(shown, "\n") ? `${titles[kind]}\n\n${shown}\n` : `${titles[kind]}${shown.length > 5 ? "\n\n" : " "}${shown}${shown.length > 5 ? "\n" : ""}`;
  }
  let a = show(actual);
  let b = show(expected);
  const known = titles[operator];
  if (operator === "notDeepEqual" && a === b) {
    const shown = `${known}\n\n${a}`;
    return shown.length > 1024 ? `${text.slice(shown, 0, 1021)}...` : shown;
  }
  if (a.length > 512) a = `${text.slice(a, 0, 509)}...`;
  if (b.length > 512) b = `${text.slice(b, 0, 509)}...`;
  if (operator === "deepEqual") return `${known}\n\n${a}\n\nshould loosely deep-equal\n\n${b}`;
  if (operator === "notDeepEqual") return `${known}\n\n${a}\n\nshould not loosely deep-equal\n\n${b}`;
  return `${a} ${operator} ${b}`;
};

class AssertionError extends Error {
  constructor(options) {
    if (!isObject(options) || typeof options === "function") throw invalidArgument("options", "of type object", options, AssertionError);
    const { message, operator, actual, expected } = options;
    super(message === undefined || message === null ? messageOf(actual, expected, operator) : String(message));
    setAll(this, { generatedMessage: !message });
    platform.defineHidden(this, "name", "AssertionError [ERR_ASSERTION]");
    setAll(this, { code: "ERR_ASSERTION", actual, expected, operator });
    platform.hideFrames(this, options.stackStartFn);
    void this.stack;
    platform.defineHidden(this, "name", "AssertionError");
  }
  toString() { return `${this.name} [${this.code}]: ${this.message}`; }
}

const fail = (details) => {
  if (platform.isError(details.message)) throw details.message;
  throw new AssertionError(details);
};

const check = (holds, fn, operator, actual, expected, args, count) => {
  if (args.length < count) throw codedError(TypeError, "ERR_MISSING_ARGS", 'The "actual" and "expected" arguments must be specified', fn);
  if (!holds) fail({ actual, expected, message: args[count], operator, stackStartFn: fn });
};

const innerOk = (fn, args) => {
  if (args[0]) return;
  let message = args[1];
  let generated = false;
  if (args.length === 0) {
    generated = true;
    message = "No value argument passed to `assert.ok()`";
  } else if (message === undefined || message === null) {
    generated = true;
    message = "The expression evaluated to a falsy value";
  } else if (platform.isError(message)) {
    throw message;
  }
  const error = new AssertionError({ actual: args[0], expected: true, message, operator: "==", stackStartFn: fn });
  error.generatedMessage = generated;
  throw error;
};

// ---- errors that are expected ----------------------------------------------------------------

const nothing = platform.ObjectCreate(null);

const matchError = (actual, expected, message, fn) => {
  const operator = fn.name;
  const mismatch = (generated) => {
    const error = new AssertionError({ actual, expected, message: message ?? generated, operator, stackStartFn: fn });
    error.generatedMessage = !message;
    throw error;
  };
  if (typeof expected !== "function") {
    if (isObject(expected) && host.kindOf(expected) === "regexp") {
      if (test(expected, String(actual)) !== null) return;
      if (platform.isError(message)) throw message;
      mismatch(`The input did not match the regular expression ${inspectWith(expected, undefined)}. Input:\n\n${inspectWith(String(actual), undefined)}\n`);
    }
    if (!isObject(actual)) mismatch(undefined);
    const keys = platform.toList(platform.ObjectKeys(expected));
    if (platform.isError(expected)) {
      keys[keys.length] = "name";
      keys[keys.length] = "message";
    } else if (keys.length === 0) {
      throw codedError(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'error' may not be an empty object. Received ${inspectWith(expected, undefined)}`, fn);
    }
    for (let i = 0; i < keys.length; i++) {
      const value = expected[keys[i]];
      if (typeof actual[keys[i]] === "string" && isObject(value) && host.kindOf(value) === "regexp" && test(value, actual[keys[i]]) !== null) continue;
      if (keys[i] in actual && isEqual(actual[keys[i]], value, true)) continue;
      if (message !== undefined) {
        if (platform.isError(message)) throw message;
        mismatch(message);
      }
      const shownActual = {};
      const shownExpected = {};
      for (let k = 0; k < keys.length; k++) {
        if (keys[k] in actual) setAll(shownActual, { [keys[k]]: actual[keys[k]] });
        setAll(shownExpected, { [keys[k]]: expected[keys[k]] });
      }
      const error = new AssertionError({ actual: shownActual, expected: shownExpected, operator: "deepStrictEqual", stackStartFn: fn });
      error.actual = actual;
      error.expected = expected;
      error.operator = operator;
      throw error;
    }
    return;
  }
  if (expected.prototype !== undefined && platform.isInstance(expected, actual)) return;
  if (isObject(ObjectGetPrototypeOf(expected)) && (expected === Error || platform.isInstance(Error, expected.prototype ?? nothing))) {
    const name = isObject(actual) && isObject(actual.constructor) ? actual.constructor.name : "";
    mismatch(`The error is expected to be an instance of "${expected.name}". Received ${platform.isError(actual) ? `"${name}"` : `"${inspectWith(actual, { __proto__: null, depth: -1 })}"`}${platform.isError(actual) ? `\n\nError message:\n\n${actual.message}` : ""}`);
  }
  const valid = ReflectApply(expected, {}, [actual]);
  if (valid === true) return;
  const name = expected.name ? `The ${expected.name} validation function` : "The validation function";
  mismatch(`${name} is expected to return "true". Received ${inspectWith(valid, undefined)}${platform.isError(actual) ? `\n\nCaught error:\n\n${actual}` : ""}`);
};

const expectThrown = (fn, actual, expected, message) => {
  if (typeof expected === "string") {
    if (message !== undefined) throw invalidArgument("error", "of type function or an instance of Error, RegExp, or Object", expected, fn);
    if (isObject(actual) && actual !== nothing ? actual.message === expected : actual === expected) {
      throw codedError(TypeError, "ERR_AMBIGUOUS_ARGUMENT", `The "error/message" argument is ambiguous. The error ${isObject(actual) ? `message "${actual.message}"` : `"${actual}"`} is identical to the message.`, fn);
    }
    message = expected;
    expected = undefined;
  } else if (expected !== null && expected !== undefined && typeof expected !== "object" && typeof expected !== "function") {
    throw invalidArgument("error", "of type function or an instance of Error, RegExp, or Object", expected, fn);
  }
  if (actual === nothing) {
    const wanted = expected && expected.name ? ` (${expected.name})` : "";
    fail({ actual: undefined, expected, operator: fn.name, message: platform.isError(message) ? message : `Missing expected ${fn === assert.rejects ? "rejection" : "exception"}${wanted}${message ? `: ${message}` : "."}`, stackStartFn: fn });
  }
  if (expected) matchError(actual, expected, message, fn);
};

const expectNoError = (fn, actual, expected, message) => {
  if (actual === nothing) return;
  if (typeof expected === "string") {
    message = expected;
    expected = undefined;
  }
  if (expected) {
    const matches = typeof expected === "function" ? platform.isInstance(expected, actual) : host.kindOf(expected) === "regexp" && test(expected, String(actual)) !== null;
    if (!matches) throw actual;
  }
  fail({ actual, expected, operator: fn.name, message: `Got unwanted ${fn === assert.doesNotReject ? "rejection" : "exception"}${message ? `: ${message}` : "."}\nActual message: "${actual && actual.message}"`, stackStartFn: fn });
};

const caught = (fn, caller) => {
  needFunction(fn, "fn", caller);
  try {
    fn();
  } catch (error) {
    return error;
  }
  return nothing;
};

// settled returns a promise of the reason of a promise, or of nothing if it is fulfilled.
const settled = (given, caller) => new PromiseClass((resolve) => {
  if (typeof given === "function") {
    given = given();
    if (!isObject(given) || typeof given.then !== "function") {
      throw codedError(TypeError, "ERR_INVALID_RETURN_VALUE", `Expected instance of Promise to be returned from the "promiseFn" function but got ${given === null || typeof given !== "object" ? `type ${typeof given}` : "an instance of Object"}.`, caller);
    }
  } else if (!isObject(given) || typeof given.then !== "function") {
    throw invalidArgument("promiseFn", "of type function or an instance of Promise", given, caller);
  }
  given.then(() => resolve(nothing), (reason) => resolve({ __proto__: null, reason }));
});
const reasonOf = (outcome) => (outcome === nothing ? nothing : outcome.reason);

// ---- the module --------------------------------------------------------------------------------

function assert(...args) { innerOk(assert, args); }
const functions = {
  ok(...args) { innerOk(functions.ok, args); },
  fail(message) {
    if (platform.isError(message)) throw message;
    const error = new AssertionError({ message: message ?? "Failed", operator: "fail", stackStartFn: functions.fail });
    error.generatedMessage = message === undefined;
    throw error;
  },
  equal(actual, expected, message) { check(actual == expected || (actual !== actual && expected !== expected), functions.equal, "==", actual, expected, arguments, 2); },
  notEqual(actual, expected, message) { check(actual != expected && !(actual !== actual && expected !== expected), functions.notEqual, "!=", actual, expected, arguments, 2); },
  deepEqual(actual, expected, message) { check(isEqual(actual, expected, false), functions.deepEqual, "deepEqual", actual, expected, arguments, 2); },
  notDeepEqual(actual, expected, message) { check(!isEqual(actual, expected, false), functions.notDeepEqual, "notDeepEqual", actual, expected, arguments, 2); },
  deepStrictEqual(actual, expected, message) { check(isEqual(actual, expected, true), functions.deepStrictEqual, "deepStrictEqual", actual, expected, arguments, 2); },
  notDeepStrictEqual(actual, expected, message) { check(!isEqual(actual, expected, true), functions.notDeepStrictEqual, "notDeepStrictEqual", actual, expected, arguments, 2); },
  strictEqual(actual, expected, message) { check(is(actual, expected), functions.strictEqual, "strictEqual", actual, expected, arguments, 2); },
  notStrictEqual(actual, expected, message) { check(!is(actual, expected), functions.notStrictEqual, "notStrictEqual", actual, expected, arguments, 2); },
  throws(fn, expected, message) { expectThrown(functions.throws, caught(fn, functions.throws), expected, message); },
  doesNotThrow(fn, expected, message) { expectNoError(functions.doesNotThrow, caught(fn, functions.doesNotThrow), expected, message); },
  rejects(promiseFn, expected, message) {
    return then(settled(promiseFn, functions.rejects), (outcome) => expectThrown(functions.rejects, reasonOf(outcome), expected, message));
  },
  doesNotReject(promiseFn, expected, message) {
    return then(settled(promiseFn, functions.doesNotReject), (outcome) => expectNoError(functions.doesNotReject, reasonOf(outcome), expected, message));
  },
  ifError(value) {
    if (value === null || value === undefined) return;
    let message = "ifError got unwanted exception: ";
    message += isObject(value) && typeof value.message === "string" ? (value.message.length === 0 && value.constructor ? value.constructor.name : value.message) : inspectWith(value, undefined);
    throw new AssertionError({ actual: value, expected: null, operator: "ifError", message, stackStartFn: functions.ifError });
  },
  match(string, regexp, message) { match(string, regexp, message, true, functions.match); },
  doesNotMatch(string, regexp, message) { match(string, regexp, message, false, functions.doesNotMatch); },
};

const match = (string, regexp, message, wanted, fn) => {
  if (!isObject(regexp) || host.kindOf(regexp) !== "regexp") throw invalidArgument("regexp", "an instance of RegExp", regexp, fn);
  if (typeof string === "string" && (test(regexp, string) !== null) === wanted) return;
  if (platform.isError(message)) throw message;
  const generated = !message;
  const shown = typeof string !== "string"
    ? `The "string" argument must be of type string. Received type ${typeof string} (${inspectWith(string, undefined)})`
    : `${wanted ? "The input did not match the regular expression " : "The input was expected to not match the regular expression "}${inspectWith(regexp, undefined)}. Input:\n\n${inspectWith(string, undefined)}\n`;
  const error = new AssertionError({ actual: string, expected: regexp, message: message || shown, operator: fn.name, stackStartFn: fn });
  error.generatedMessage = generated;
  throw error;
};

setAll(assert, functions);
setAll(assert, { AssertionError });
function strict(...args) { innerOk(strict, args); }
setAll(strict, functions);
setAll(strict, {
  AssertionError, equal: functions.strictEqual, deepEqual: functions.deepStrictEqual, notEqual: functions.notStrictEqual, notDeepEqual: functions.notDeepStrictEqual,
});
setAll(assert, { strict });
setAll(strict, { strict });

return { exports: toModule(assert), strict: toModule(strict), hidden: { AssertionError } };
