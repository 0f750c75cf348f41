// Header lists: validation, combining, order of iteration.

for (const [name, length] of [["append", 2], ["delete", 1], ["get", 1], ["getSetCookie", 0], ["has", 1], ["set", 2], ["entries", 0], ["keys", 0], ["values", 0], ["forEach", 1]]) {
  test(`the method ${name}`, () => assert_idl_method(Headers.prototype, name, length));
}
test("the class string", () => assert_class_string(new Headers(), "Headers"));
test("entries is the iterator", () => assert_equals(Headers.prototype.entries, Headers.prototype[Symbol.iterator]));
test("get returns null for a name that is not there", () => assert_equals(new Headers().get("a"), null));
test("names are compared without case", () => assert_equals(new Headers({ "X-One": "1" }).get("x-oNE"), "1"));
test("append combines with a comma", () => {
  const headers = new Headers();
  headers.append("a", "1");
  headers.append("A", "2");
  assert_equals(headers.get("a"), "1, 2");
});
test("set replaces all values", () => {
  const headers = new Headers([["a", "1"], ["a", "2"], ["b", "3"]]);
  headers.set("A", "4");
  assert_equals(headers.get("a"), "4");
  assert_equals(headers.get("b"), "3");
});
test("delete removes all values", () => {
  const headers = new Headers([["a", "1"], ["A", "2"]]);
  headers.delete("a");
  assert_false(headers.has("a"));
});
test("values lose the whitespace around them", () => assert_equals(new Headers({ a: " \t\r\n1 2\n " }).get("a"), "1 2"));
test("values are converted to strings", () => assert_equals(new Headers({ a: 1 }).get("a"), "1"));
test("an empty value is a value", () => assert_equals(new Headers({ a: "" }).get("a"), ""));
for (const name of ["", " ", "a b", "a:", "a\n", "(", "\u00e9", "a,b", "{", "\""]) {
  for (const method of ["append", "set", "has", "get", "delete"]) {
    test(`${method} refuses the name ${JSON.stringify(name)}`, () => assert_throws_js(TypeError, () => new Headers()[method](name, "x")));
  }
}
for (const value of ["a\nb", "a\rb", "a\0b", "\u0100"]) {
  test(`the value ${JSON.stringify(value)} is refused`, () => {
    assert_throws_js(TypeError, () => new Headers({ a: value }));
    assert_throws_js(TypeError, () => new Headers().set("a", value));
  });
}
test("names with characters beyond a byte are refused", () => assert_throws_js(TypeError, () => new Headers().get("\u0100")));
for (const init of [null, 5, "text", true]) {
  test(`${JSON.stringify(init)} is no init`, () => assert_throws_js(TypeError, () => new Headers(init)));
}
test("undefined is an empty init", () => assert_equals([...new Headers(undefined)].length, 0));
for (const pair of [[], ["a"], ["a", "b", "c"]]) {
  test(`a pair of ${pair.length} items is refused`, () => assert_throws_js(TypeError, () => new Headers([pair])));
}
test("an item that is no sequence is refused", () => assert_throws_js(TypeError, () => new Headers(["ab"])));
test("an init of headers is copied", () => {
  const one = new Headers({ a: "1" });
  const two = new Headers(one);
  one.set("a", "2");
  assert_equals(two.get("a"), "1");
});
test("an init can be any iterable", () => {
  const headers = new Headers((function* () { yield ["a", "1"]; yield new Set(["b", "2"]); })());
  assert_equals(headers.get("b"), "2");
});
test("a record has its enumerable own properties", () => {
  const init = Object.create({ inherited: "1" }, { hidden: { value: "2" }, shown: { value: "3", enumerable: true } });
  assert_array_equals([...new Headers(init).keys()], ["shown"]);
});
test("a record with a symbol is refused", () => assert_throws_js(TypeError, () => new Headers({ [Symbol("x")]: "1" })));
test("iteration is sorted by lower-case names", () => {
  assert_array_equals([...new Headers([["b", "1"], ["A", "2"], ["c", "3"]]).keys()], ["a", "b", "c"]);
});
test("iteration combines values", () => assert_array_equals([...new Headers([["b", "1"], ["a", "2"], ["b", "3"]]).values()], ["2", "1, 3"]));
test("set-cookie has a pair for each value", () => {
  const headers = new Headers([["set-cookie", "a=1"], ["x", "y"], ["Set-Cookie", "b=2"]]);
  assert_array_equals([...headers].flat(), ["set-cookie", "a=1", "set-cookie", "b=2", "x", "y"]);
});
test("getSetCookie returns the values one by one", () => {
  const headers = new Headers([["set-cookie", "a=1, x"], ["Set-Cookie", "b=2"]]);
  assert_array_equals(headers.getSetCookie(), ["a=1, x", "b=2"]);
  assert_equals(headers.get("set-cookie"), "a=1, x, b=2");
});
test("getSetCookie of no cookies is empty", () => assert_array_equals(new Headers().getSetCookie(), []));
test("set of set-cookie replaces all", () => {
  const headers = new Headers([["set-cookie", "a=1"], ["set-cookie", "b=2"]]);
  headers.set("set-cookie", "c=3");
  assert_array_equals(headers.getSetCookie(), ["c=3"]);
});
test("an iterator sees a header that is added meanwhile", () => {
  const headers = new Headers({ b: "1" });
  const iterator = headers.keys();
  iterator.next();
  headers.append("c", "2");
  assert_equals(iterator.next().value, "c");
  assert_true(iterator.next().done);
});
test("forEach passes value, name and object, with a receiver", () => {
  const headers = new Headers({ a: "1" });
  const receiver = {};
  headers.forEach(function (...args) { assert_array_equals([...args, this], ["1", "a", headers, receiver]); }, receiver);
});
test("forEach needs a function", () => assert_throws_js(TypeError, () => new Headers().forEach({})));
test("methods need their number of arguments", () => {
  assert_throws_js(TypeError, () => new Headers().append("a"));
  assert_throws_js(TypeError, () => new Headers().get());
});
test("methods need headers", () => {
  assert_throws_js(TypeError, () => Headers.prototype.get.call({}, "a"));
  assert_throws_js(TypeError, () => Headers.prototype.entries.call({}));
});
test("the iterator has a prototype of its own", () => {
  const prototype = Object.getPrototypeOf(new Headers().entries());
  assert_equals(Object.getPrototypeOf(prototype), Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())));
  assert_equals(prototype[Symbol.toStringTag], "Headers Iterator");
  assert_throws_js(TypeError, () => prototype.next.call({}));
});
test("the constructor needs new", () => assert_throws_js(TypeError, () => Headers()));
