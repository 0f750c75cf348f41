// The harness of the conformance tests. It runs in front of each test file, as one script, in
// an isolate of this project and in Node. The functions have the names of their counterparts
// in web-platform-tests:
//
//   test("name", () => { ... });                 // a subtest
//   promise_test("name", async () => { ... });   // a subtest that ends later
//
// Names of subtests are unique within a directory. A file defines its subtests when it is
// evaluated, and also where the interface is missing: use the interface in the functions only.
// Subtests of promise_test run one after the other. Each has 10 s of the script's clock.
"use strict";

const { test, promise_test, finish_tests, give_up_test } = (() => {
  const limit = 10000; // ms
  const { setTimeout, clearTimeout, Promise, JSON } = globalThis;
  const names = new Set();
  const results = [];
  const waiting = [];
  let giveUp = () => {};

  const describe = (error) => {
    try {
      return error instanceof Error || (typeof error === "object" && error !== null && "message" in error)
        ? `${error.name}: ${error.message}` : `thrown: ${String(error)}`;
    } catch {
      return "an error without a text";
    }
  };
  const begin = (name) => {
    if (names.has(name)) throw new Error(`two subtests are called ${name}`);
    names.add(name);
    const result = { name, message: "not run" };
    results.push(result);
    return result;
  };

  const test = (name, fn) => {
    const result = begin(name);
    try {
      fn();
      delete result.message;
    } catch (error) {
      result.message = describe(error);
    }
  };

  const promise_test = (name, fn) => {
    const result = begin(name);
    waiting.push(() => new Promise((done) => {
      const timer = setTimeout(() => end("no end within 10 s"), limit);
      // In an isolate, waiting costs no time. The runner in Node knows when nothing is pending.
      if (typeof process === "object") timer.unref();
      giveUp = () => end("nothing is pending");
      let isEnded = false;
      const end = (message) => {
        if (isEnded) return;
        isEnded = true;
        clearTimeout(timer);
        if (message === undefined) delete result.message;
        else result.message = message;
        done();
      };
      new Promise((resolve) => { resolve(fn()); }).then(() => end(), (error) => end(describe(error)));
    }));
  };

  const finish_tests = async () => {
    for (const run of waiting) await run();
    return JSON.stringify(results);
  };
  return { test, promise_test, finish_tests, give_up_test: () => giveUp() };
})();

const wait = (ms = 0) => new Promise((resolve) => { setTimeout(resolve, ms); });

const {
  assert_true, assert_false, assert_equals, assert_not_equals, assert_array_equals, assert_object_equals, assert_in_array,
  assert_regexp_match, assert_class_string, assert_own_property, assert_idl_method, assert_idl_attribute, assert_unreached,
  assert_throws_js, assert_throws_dom, assert_throws_exactly, promise_rejects_js, promise_rejects_dom, promise_rejects_exactly,
} = (() => {
  class AssertionError extends Error {
    get name() { return "AssertionError"; }
  }
  const show = (value) => {
    if (typeof value === "string") return JSON.stringify(value);
    if (Object.is(value, -0)) return "-0";
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "function") return `function ${value.name}`;
    if (Array.isArray(value)) return `[${value.map(show).join(", ")}]`;
    if (typeof value === "object" && value !== null) return Object.prototype.toString.call(value);
    return String(value);
  };
  const fail = (text, note) => { throw new AssertionError(note === undefined ? text : `${note}: ${text}`); };
  const check = (holds, text, note) => { if (!holds) fail(text, note); };

  const assert_true = (got, note) => check(got === true, `${show(got)} is not true`, note);
  const assert_false = (got, note) => check(got === false, `${show(got)} is not false`, note);
  const assert_equals = (got, want, note) => check(Object.is(got, want), `${show(got)} is not ${show(want)}`, note);
  const assert_not_equals = (got, other, note) => check(!Object.is(got, other), `${show(got)} is not expected`, note);
  const assert_unreached = (note) => fail("this code must not run", note);
  const assert_in_array = (got, list, note) => check(list.includes(got), `${show(got)} is not among ${show(list)}`, note);
  const assert_regexp_match = (got, pattern, note) => check(pattern.test(got), `${show(got)} does not match ${pattern}`, note);
  const assert_class_string = (object, name, note) =>
    assert_equals(Object.prototype.toString.call(object), `[object ${name}]`, note);
  const assert_own_property = (object, key, note) =>
    check(Object.prototype.hasOwnProperty.call(object, key), `the object has no own property ${String(key)}`, note);

  // assert_array_equals compares the items of two array-like objects.
  const assert_array_equals = (got, want, note) => {
    check(typeof got === "object" && got !== null && "length" in got, `${show(got)} is no array`, note);
    const same = got.length === want.length && Array.prototype.every.call(got, (item, i) => Object.is(item, want[i]));
    check(same, `${show(Array.from(got))} is not ${show(Array.from(want))}`, note);
  };

  // assert_object_equals compares two plain objects or arrays, with all that they contain.
  const assert_object_equals = (got, want, note) => {
    if (typeof want !== "object" || want === null) return assert_equals(got, want, note);
    check(typeof got === "object" && got !== null, `${show(got)} is no object`, note);
    assert_array_equals(Object.keys(got).sort(), Object.keys(want).sort(), note);
    for (const key of Object.keys(want)) assert_object_equals(got[key], want[key], note === undefined ? key : `${note}.${key}`);
  };

  // assert_idl_method checks a method of an interface: its attributes, name and length.
  const assert_idl_method = (object, name, length) => {
    const property = Object.getOwnPropertyDescriptor(object, name);
    check(property !== undefined && typeof property.value === "function", `no method ${name}`);
    assert_array_equals([property.enumerable, property.writable, property.configurable], [true, true, true], name);
    assert_equals(property.value.name, name);
    assert_equals(property.value.length, length, `${name}.length`);
  };

  // assert_idl_attribute checks an attribute of an interface, which is an accessor.
  const assert_idl_attribute = (object, name, settable = false) => {
    const property = Object.getOwnPropertyDescriptor(object, name);
    check(property !== undefined && typeof property.get === "function", `no attribute ${name}`);
    assert_array_equals([property.enumerable, property.configurable, property.set !== undefined], [true, true, settable], name);
    assert_equals(property.get.name, `get ${name}`);
    if (settable) assert_equals(property.set.name, `set ${name}`);
  };

  const nothing = {};
  const thrown = (fn) => {
    try {
      fn();
    } catch (error) {
      return { error };
    }
    return nothing;
  };
  const isJS = (error, constructor, note) => {
    check(typeof error === "object" && error !== null, `${show(error)} is no error`, note);
    check(error.constructor === constructor, `the error is ${error.name}: ${error.message}, not ${constructor.name}`, note);
  };
  const isDOM = (error, name, note) => {
    check(typeof error === "object" && error !== null, `${show(error)} is no error`, note);
    check(error.constructor === DOMException && error.name === name, `the error is ${error.name}: ${error.message}, not ${name}`, note);
  };
  const throwing = (compare) => (expected, fn, note) => {
    const caught = thrown(fn);
    check(caught !== nothing, "no error", note);
    compare(caught.error, expected, note);
  };
  const rejecting = (compare) => (expected, promise, note) => promise.then(
    () => fail("the promise is fulfilled", note), (error) => compare(error, expected, note));
  const isExactly = (error, expected, note) => assert_equals(error, expected, note);

  return {
    assert_true, assert_false, assert_equals, assert_not_equals, assert_array_equals, assert_object_equals, assert_in_array,
    assert_regexp_match, assert_class_string, assert_own_property, assert_idl_method, assert_idl_attribute, assert_unreached,
    assert_throws_js: throwing(isJS), assert_throws_dom: throwing(isDOM), assert_throws_exactly: throwing(isExactly),
    promise_rejects_js: rejecting(isJS), promise_rejects_dom: rejecting(isDOM), promise_rejects_exactly: rejecting(isExactly),
  };
})();
