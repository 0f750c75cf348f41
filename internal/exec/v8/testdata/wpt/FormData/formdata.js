// Forms: entries, and how bodies represent them.

for (const [name, length] of [["append", 2], ["delete", 1], ["get", 1], ["getAll", 1], ["has", 1], ["set", 2], ["entries", 0], ["keys", 0], ["values", 0], ["forEach", 1]]) {
  test(`the method ${name}`, () => assert_idl_method(FormData.prototype, name, length));
}
const formOf = (...pairs) => {
  const form = new FormData();
  for (const pair of pairs) form.append(...pair);
  return form;
};
test("the class string", () => assert_class_string(new FormData(), "FormData"));
test("an argument is refused", () => assert_throws_js(TypeError, () => new FormData(1)));
test("append keeps all values", () => assert_array_equals(formOf(["a", "1"], ["a", "2"]).getAll("a"), ["1", "2"]));
test("get returns the first value", () => assert_equals(formOf(["a", "1"], ["a", "2"]).get("a"), "1"));
test("get returns null for a name that is not there", () => assert_equals(new FormData().get("a"), null));
test("names have case", () => assert_false(formOf(["a", "1"]).has("A")));
test("delete removes all values", () => {
  const form = formOf(["a", "1"], ["b", "2"], ["a", "3"]);
  form.delete("a");
  assert_array_equals([...form].flat(), ["b", "2"]);
});
test("set replaces the first value and removes the others", () => {
  const form = formOf(["a", "1"], ["b", "2"], ["a", "3"]);
  form.set("a", "4");
  assert_array_equals([...form].flat(), ["a", "4", "b", "2"]);
});
test("set appends a new name", () => {
  const form = formOf(["a", "1"]);
  form.set("b", "2");
  assert_array_equals([...form.keys()], ["a", "b"]);
});
for (const [value, want] of [[1, "1"], [null, "null"], [undefined, "undefined"], [{}, "[object Object]"], ["\ud800", "\ufffd"]]) {
  test(`the value ${JSON.stringify(value)}`, () => assert_equals(formOf(["a", value]).get("a"), want));
}
test("a blob becomes a file", () => {
  const file = formOf(["a", new Blob(["x"], { type: "a/b" })]).get("a");
  assert_true(file instanceof File);
  assert_array_equals([file.name, file.type, file.size], ["blob", "a/b", 1]);
});
test("a blob gets the name that is given", () => assert_equals(formOf(["a", new Blob(), "n.txt"]).get("a").name, "n.txt"));
test("a file stays itself", () => {
  const file = new File(["x"], "n", { lastModified: 5 });
  assert_equals(formOf(["a", file]).get("a"), file);
});
test("a file with another name keeps its time", () => {
  const file = formOf(["a", new File(["x"], "n", { lastModified: 5 }), "m"]).get("a");
  assert_array_equals([file.name, file.lastModified], ["m", 5]);
});
test("a name for a text is refused", () => assert_throws_js(TypeError, () => new FormData().append("a", "b", "c")));
test("methods need their number of arguments", () => {
  assert_throws_js(TypeError, () => new FormData().append("a"));
  assert_throws_js(TypeError, () => new FormData().set("a"));
  assert_throws_js(TypeError, () => new FormData().get());
});
test("methods need a form", () => assert_throws_js(TypeError, () => FormData.prototype.get.call({}, "a")));
test("entries is the iterator", () => assert_equals(FormData.prototype.entries, FormData.prototype[Symbol.iterator]));
test("an iterator sees what is appended", () => {
  const form = formOf(["a", "1"]);
  const got = [];
  for (const [name] of form) {
    got.push(name);
    if (got.length === 1) form.append("b", "2");
  }
  assert_array_equals(got, ["a", "b"]);
});
test("forEach passes value, name and form", () => {
  const form = formOf(["a", "1"]);
  form.forEach((...args) => assert_array_equals(args, ["1", "a", form]));
});
const bodyOf = async (form) => {
  const response = new Response(form);
  const boundary = /boundary=(.*)$/.exec(response.headers.get("content-type"))[1];
  return (await response.text()).replaceAll(boundary, "B");
};
promise_test("the body of texts", async () =>
  assert_equals((await bodyOf(formOf(["a", "1"], ["b", "\u00e9"]))).replace(/\r\n$/, ""),
    '--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--B\r\nContent-Disposition: form-data; name="b"\r\n\r\n\u00e9\r\n--B--'));
promise_test("the body of a file", async () =>
  assert_equals((await bodyOf(formOf(["f", new File(["x"], "n.txt", { type: "a/b" })]))).replace(/\r\n$/, ""),
    '--B\r\nContent-Disposition: form-data; name="f"; filename="n.txt"\r\nContent-Type: a/b\r\n\r\nx\r\n--B--'));
promise_test("a file without a type", async () => assert_regexp_match(await bodyOf(formOf(["f", new Blob(["x"])])), /\r\nContent-Type: application\/octet-stream\r\n/));
promise_test("names are escaped", async () => assert_regexp_match(await bodyOf(formOf(['a"b\r\nc', "1"])), /name="a%22b%0D%0Ac"/));
for (const [value, want] of [["a\nb", "a\r\nb"], ["a\rb", "a\r\nb"], ["a\r\nb", "a\r\nb"], ["\n\r", "\r\n\r\n"]]) {
  promise_test(`line ends of ${JSON.stringify(value)}`, async () => assert_equals((await new Response(formOf(["a", value])).formData()).get("a"), want));
}
promise_test("the content of a file is not changed", async () => {
  const bytes = new Uint8Array([0, 10, 13, 255, 45, 45]);
  const back = await new Response(formOf(["f", new Blob([bytes])])).formData();
  assert_array_equals(await back.get("f").bytes(), bytes);
});
promise_test("an empty form", async () => assert_equals([...await new Response(new FormData()).formData()].length, 0));
promise_test("special names come back", async () => {
  const form = await new Response(formOf(['q"\n\u00e9', "1"])).formData();
  assert_equals([...form.keys()][0].replace("\r\n", "\n"), 'q"\n\u00e9');
});
for (const [text, want] of [["a=b&c=d", ["a", "b", "c", "d"]], ["a", ["a", ""]], ["=b", ["", "b"]], ["&&a=1&", ["a", "1"]], ["a=b=c", ["a", "b=c"]], ["a+b=%20%2B", ["a b", " +"]], ["%=%z1", ["%", "%z1"]], ["a=%ff", ["a", "\ufffd"]]]) {
  promise_test(`the parameters ${text}`, async () =>
    assert_array_equals([...await new Response(text, { headers: { "content-type": "application/x-www-form-urlencoded" } }).formData()].flat(), want));
}
