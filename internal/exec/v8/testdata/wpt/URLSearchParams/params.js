// Parameters of URLs.

for (const [name, init, want] of [
  ["nothing", undefined, []],
  ["an empty string", "", []],
  ["a question mark", "?", []],
  ["a leading question mark", "?a=1", [["a", "1"]]],
  ["two question marks", "??a=1", [["?a", "1"]]],
  ["several pairs", "a=1&b=2&a=3", [["a", "1"], ["b", "2"], ["a", "3"]]],
  ["a name without value", "a", [["a", ""]]],
  ["an empty value", "a=", [["a", ""]]],
  ["an empty name", "=1", [["", "1"]]],
  ["only an equals sign", "=", [["", ""]]],
  ["empty pairs", "&&a=1&&", [["a", "1"]]],
  ["several equals signs", "a=b=c", [["a", "b=c"]]],
  ["plus signs", "a+b=c+d", [["a b", "c d"]]],
  ["an encoded plus sign", "a%2Bb=%2b", [["a+b", "+"]]],
  ["percent-encoding", "%61%20=%C3%A9", [["a ", "\u00e9"]]],
  ["bad percent-encoding", "a%=%zz&b%4=%4g", [["a%", "%zz"], ["b%4", "%4g"]]],
  ["bytes that are no UTF-8", "a=%ff%C3&%e2%82=x", [["a", "\ufffd\ufffd"], ["\ufffd", "x"]]],
  ["a byte order mark", "%EF%BB%BFa=%EF%BB%BF", [["\ufeffa", "\ufeff"]]],
  ["a byte order mark beside bad bytes", "a=%EF%BB%BF%ff", [["a", "\ufeff\ufffd"]]],
  ["a null", "a%00=\u0000", [["a\u0000", "\u0000"]]],
  ["characters beyond ASCII", "\u00e9=\u{1F4A9}", [["\u00e9", "\u{1F4A9}"]]],
  ["characters beyond ASCII beside bad percent-encoding", "\u00e9%=%\u{1F4A9}", [["\u00e9%", "%\u{1F4A9}"]]],
  ["a lone surrogate", "a=\ud83d", [["a", "\ufffd"]]],
  ["a hash and a slash", "a=#/?", [["a", "#/?"]]],
  ["a semicolon", "a=1;b=2", [["a", "1;b=2"]]],
  ["null", null, [["null", ""]]],
  ["a number", 12, [["12", ""]]],
  ["true", true, [["true", ""]]],
  ["an array", [["a", "1"], ["b", 2]], [["a", "1"], ["b", "2"]]],
  ["an empty array", [], []],
  ["a map", new Map([["a", "1"], ["b", "2"]]), [["a", "1"], ["b", "2"]]],
  ["pairs that are iterable", new Set([new Set(["a", "b"])]), [["a", "b"]]],
  ["an object", { a: 1, b: "x y", 3: null }, [["3", "null"], ["a", "1"], ["b", "x y"]]],
  ["an object without a prototype", Object.assign(Object.create(null), { a: "1" }), [["a", "1"]]],
  ["an object with equal names as USVStrings", { "\ud835x": "1", xx: "2", "\ud83dx": "3" }, [["\ufffdx", "3"], ["xx", "2"]]],
]) {
  test(`from ${name}`, () => {
    const params = new URLSearchParams(init);
    assert_equals(JSON.stringify([...params]), JSON.stringify(want));
    assert_equals(params.size, want.length);
  });
}
test("from other parameters", () => {
  const first = new URLSearchParams("a=1&b=2");
  const second = new URLSearchParams(first);
  first.append("c", "3");
  assert_equals(second.toString(), "a=1&b=2");
});
test("from a function and its properties", () => {
  const f = () => {};
  f.a = 1;
  assert_equals(new URLSearchParams(f).toString(), "a=1");
});
test("from the iterator of an object", () => {
  const params = new URLSearchParams("a=1");
  params[Symbol.iterator] = function* () { yield ["b", "2"]; };
  assert_equals(new URLSearchParams(params).toString(), "b=2");
});
test("hidden properties do not count", () => {
  const object = Object.defineProperty({ a: "1" }, "b", { value: "2", enumerable: false });
  assert_equals(new URLSearchParams(object).toString(), "a=1");
});
for (const [name, init] of [
  ["pairs of one", [["a"]]], ["pairs of three", [["a", "b", "c"]]], ["numbers", [1]], ["null in an array", [null]], ["strings in an array", ["ab"]],
  ["an iterator that is no function", { [Symbol.iterator]: 1 }], ["a symbol", Symbol("x")], ["a symbol as a value", { a: Symbol("x") }], ["a symbol as a name", { [Symbol("x")]: 1 }],
]) {
  test(`${name} are refused`, () => assert_throws_js(TypeError, () => new URLSearchParams(init)));
}
for (const [name, pairs, want] of [
  ["a space", [["a b", "c d"]], "a+b=c+d"],
  ["reserved characters", [["a", "!'()~*-._"]], "a=%21%27%28%29%7E*-._"],
  ["separators", [["a&b=c", "+%#?/"]], "a%26b%3Dc=%2B%25%23%3F%2F"],
  ["characters beyond ASCII", [["\u00e9", "\u{1F4A9}"]], "%C3%A9=%F0%9F%92%A9"],
  ["a lone surrogate", [["a", "\udc00"]], "a=%EF%BF%BD"],
  ["empty strings", [["", ""], ["a", ""]], "=&a="],
  ["control characters", [["\u0000\n", "\u007f"]], "%00%0A=%7F"],
  ["letters and digits", [["azAZ09", "x"]], "azAZ09=x"],
]) {
  test(`toString with ${name}`, () => {
    const params = new URLSearchParams(pairs);
    assert_equals(params.toString(), want);
    assert_equals(new URLSearchParams(want).toString(), want);
  });
}
test("append", () => {
  const params = new URLSearchParams("a=1");
  assert_equals(params.append("a", 2), undefined);
  params.append(null, undefined);
  assert_equals(params.toString(), "a=1&a=2&null=undefined");
});
test("get", () => {
  const params = new URLSearchParams("a=1&b=2&a=3&c");
  assert_equals(params.get("a"), "1");
  assert_equals(params.get("c"), "");
  assert_equals(params.get("d"), null);
  assert_equals(new URLSearchParams("null=x").get(null), "x");
});
test("getAll", () => {
  const params = new URLSearchParams("a=1&b=2&a=3");
  assert_array_equals(params.getAll("a"), ["1", "3"]);
  assert_array_equals(params.getAll("x"), []);
  assert_true(Array.isArray(params.getAll("x")));
});
test("has", () => {
  const params = new URLSearchParams("a=1&a=2&u=undefined");
  assert_object_equals([params.has("a"), params.has("b"), params.has("a", "2"), params.has("a", "3"), params.has("a", undefined), params.has("u", undefined)], [true, false, true, false, true, true]);
  assert_false(params.has("a", null));
});
test("delete", () => {
  const params = new URLSearchParams("a=1&b=2&a=3");
  assert_equals(params.delete("a"), undefined);
  assert_equals(params.toString(), "b=2");
  params.delete("x");
  assert_equals(params.toString(), "b=2");
});
test("delete with a value", () => {
  const params = new URLSearchParams("a=1&a=2&a=1&b=1");
  params.delete("a", "1");
  assert_equals(params.toString(), "a=2&b=1");
  params.delete("a", undefined);
  assert_equals(params.toString(), "b=1");
});
test("set", () => {
  const params = new URLSearchParams("a=1&b=2&a=3");
  assert_equals(params.set("a", "x"), undefined);
  assert_equals(params.toString(), "a=x&b=2");
  params.set("c", "y");
  assert_equals(params.toString(), "a=x&b=2&c=y");
});
test("size", () => {
  const params = new URLSearchParams("a=1&a=2");
  assert_equals(params.size, 2);
  params.delete("a");
  assert_equals(params.size, 0);
});
for (const [input, want] of [
  ["z=b&a=b&z=a&a=a", "a=b&a=a&z=b&z=a"],
  ["\ufffd=x&\ufffc&\ufffd=a", "%EF%BF%BC=&%EF%BF%BD=x&%EF%BF%BD=a"],
  ["\ufb03&\u{1F308}", "%F0%9F%8C%88=&%EF%AC%83="],
  ["b=1&a&B=2&A", "A=&B=2&a=&b=1"],
  ["aa=1&a=2&=3", "=3&a=2&aa=1"],
  ["", ""],
]) {
  test(`sort ${JSON.stringify(input)}`, () => {
    const params = new URLSearchParams(input);
    assert_equals(params.sort(), undefined);
    assert_equals(params.toString(), want);
  });
}
test("sort is stable for many names", () => {
  const params = new URLSearchParams();
  for (let i = 0; i < 500; i++) params.append(`n${i % 3}`, i);
  params.sort();
  const values = params.getAll("n1").map(Number);
  assert_array_equals(values, values.slice().sort((a, b) => a - b));
});
test("forEach", () => {
  const params = new URLSearchParams("a=1&b=2");
  const seen = [];
  const self = {};
  assert_equals(params.forEach(function (...args) { seen.push(this === self, ...args); }, self), undefined);
  assert_array_equals(seen, [true, "1", "a", params, true, "2", "b", params]);
  assert_throws_js(TypeError, () => params.forEach());
  assert_throws_js(TypeError, () => params.forEach({}));
});
test("forEach sees what its callback adds", () => {
  const params = new URLSearchParams("a=1");
  let n = 0;
  params.forEach(() => { if (n++ < 3) params.append("b", n); });
  assert_equals(n, 4);
});
test("iterators", () => {
  const params = new URLSearchParams("a=1&b=2");
  assert_array_equals([...params.keys()], ["a", "b"]);
  assert_array_equals([...params.values()], ["1", "2"]);
  assert_equals(JSON.stringify([...params.entries()]), '[["a","1"],["b","2"]]');
  assert_equals(params[Symbol.iterator], params.entries);
});
test("an iterator follows changes", () => {
  const params = new URLSearchParams("a=1&b=2&c=3");
  const seen = [];
  for (const [name] of params) {
    seen.push(name);
    if (name === "a") params.delete("a");
  }
  assert_array_equals(seen, ["a", "c"]);
});
test("an iterator of a URL follows an assignment to search", () => {
  const url = new URL("http://h/?a=1&b=2&c=3");
  const seen = [];
  for (const [name] of url.searchParams) {
    url.search = "x=1&y=2&z=3";
    seen.push(name);
  }
  assert_array_equals(seen, ["a", "y", "z"]);
});
test("the end of an iterator", () => {
  const iterator = new URLSearchParams("a=1").values();
  assert_object_equals(iterator.next(), { value: "1", done: false });
  const last = iterator.next();
  assert_true(last.done);
  assert_equals(last.value, undefined);
});
test("the prototype of iterators", () => {
  const prototype = Object.getPrototypeOf(new URLSearchParams().entries());
  assert_equals(Object.getPrototypeOf(prototype), Object.getPrototypeOf(Object.getPrototypeOf([].values())));
  assert_equals(prototype, Object.getPrototypeOf(new URLSearchParams().keys()));
  assert_equals(prototype[Symbol.toStringTag], "URLSearchParams Iterator");
  assert_idl_method(prototype, "next", 0);
  assert_throws_js(TypeError, () => prototype.next.call({}));
  const iterator = new URLSearchParams().keys();
  assert_equals(iterator[Symbol.iterator](), iterator);
});
for (const [name, length] of [["append", 2], ["delete", 1], ["get", 1], ["getAll", 1], ["has", 1], ["set", 2], ["sort", 0], ["forEach", 1], ["entries", 0], ["keys", 0], ["values", 0], ["toString", 0]]) {
  test(`${name} is a method`, () => assert_idl_method(URLSearchParams.prototype, name, length));
  test(`${name} needs parameters`, () => assert_throws_js(TypeError, () => URLSearchParams.prototype[name].call({}, "a", "b")));
}
for (const name of ["append", "set"]) test(`${name} needs two arguments`, () => assert_throws_js(TypeError, () => new URLSearchParams()[name]("a")));
for (const name of ["delete", "get", "getAll", "has"]) test(`${name} needs an argument`, () => assert_throws_js(TypeError, () => new URLSearchParams()[name]()));
test("size is an attribute", () => assert_idl_attribute(URLSearchParams.prototype, "size"));
test("the interface", () => {
  assert_equals(URLSearchParams.length, 0);
  assert_class_string(new URLSearchParams(), "URLSearchParams");
  assert_throws_js(TypeError, () => URLSearchParams());
});
