// Responses: construction, status, static methods, clones.

for (const [name, length] of [["arrayBuffer", 0], ["blob", 0], ["bytes", 0], ["clone", 0], ["formData", 0], ["json", 0], ["text", 0]]) {
  test(`the method ${name}`, () => assert_idl_method(Response.prototype, name, length));
}
for (const name of ["type", "url", "redirected", "status", "ok", "statusText", "headers", "body", "bodyUsed"]) {
  test(`the attribute ${name}`, () => assert_idl_attribute(Response.prototype, name));
}
for (const [name, length] of [["error", 0], ["redirect", 1], ["json", 1]]) {
  test(`the static method ${name}`, () => assert_idl_method(Response, name, length));
}
test("the class string", () => assert_class_string(new Response(), "Response"));
test("defaults", () => {
  const r = new Response();
  assert_array_equals([r.type, r.url, r.redirected, r.status, r.ok, r.statusText, r.body, r.bodyUsed], ["default", "", false, 200, true, "", null, false]);
});
for (const status of [0, 99, 100, 199, 600, 1000, -1, NaN, "x", 65536]) {
  test(`the status ${status} is refused`, () => assert_throws_js(RangeError, () => new Response("", { status })));
}
for (const status of [200, 201, 299, 300, 404, 599, "204.7", 65736]) {
  test(`the status ${status} is taken`, () => {
    const number = Math.trunc(Number(status)) % 65536;
    const r = new Response(null, { status });
    assert_equals(r.status, number);
    assert_equals(r.ok, number < 300);
  });
}
for (const status of [204, 205, 304]) {
  test(`the status ${status} has no body`, () => {
    assert_throws_js(TypeError, () => new Response("", { status }));
    assert_equals(new Response(null, { status }).body, null);
  });
}
for (const statusText of ["\n", "a\0", "\u0100", "\x7f"]) {
  test(`the status text ${JSON.stringify(statusText)} is refused`, () => assert_throws_js(TypeError, () => new Response("", { statusText })));
}
test("a status text can have bytes above ASCII", () => assert_equals(new Response("", { statusText: "caf\u00e9\t!" }).statusText, "caf\u00e9\t!"));
for (const init of [1, "x", true]) {
  test(`the init ${init} is refused`, () => assert_throws_js(TypeError, () => new Response("", init)));
}
for (const [what, body, type] of [
  ["text", () => "x", "text/plain;charset=UTF-8"], ["a buffer", () => new ArrayBuffer(1), null], ["a view", () => new Uint8Array(1), null],
  ["a blob", () => new Blob(["x"], { type: "a/b" }), "a/b"], ["a blob without a type", () => new Blob(["x"]), null],
  ["parameters", () => new URLSearchParams("a=1"), "application/x-www-form-urlencoded;charset=UTF-8"],
  ["a number", () => 1, "text/plain;charset=UTF-8"], ["an object", () => ({}), "text/plain;charset=UTF-8"],
  ["a stream", () => new ReadableStream(), null],
]) {
  test(`the content type of ${what}`, () => assert_equals(new Response(body()).headers.get("content-type"), type));
}
test("the content type of a form has a boundary", () => assert_regexp_match(new Response(new FormData()).headers.get("content-type"), /^multipart\/form-data; boundary=.{8,70}$/));
test("a content type that is given stays", () => assert_equals(new Response("x", { headers: { "Content-Type": "a/b" } }).headers.get("content-type"), "a/b"));
for (const [method, want] of [["text", "h\u00e9"], ["json", null]]) {
  promise_test(`read as ${method}`, async () => {
    if (want === null) assert_object_equals(await new Response('{"a":[1]}').json(), { a: [1] });
    else assert_equals(await new Response("h\u00e9").text(), want);
  });
}
promise_test("read as a buffer", async () => assert_array_equals(new Uint8Array(await new Response("ab").arrayBuffer()), [97, 98]));
promise_test("read as bytes", async () => assert_array_equals(await new Response("ab").bytes(), [97, 98]));
promise_test("read as a blob with the type", async () => {
  const blob = await new Response("ab", { headers: { "content-type": "Text/HTML" } }).blob();
  assert_equals(blob.size, 2);
  assert_equals(blob.type, "text/html");
});
promise_test("no body reads as nothing", async () => {
  const r = new Response();
  assert_equals(await r.text(), "");
  assert_equals(await r.text(), "");
  assert_false(r.bodyUsed);
});
promise_test("text drops a byte order mark", async () => assert_equals(await new Response(new Uint8Array([0xef, 0xbb, 0xbf, 65])).text(), "A"));
promise_test("text replaces what is not UTF-8", async () => assert_equals(await new Response(new Uint8Array([0xff, 65])).text(), "\ufffdA"));
promise_test("JSON that is none is refused", async () => promise_rejects_js(SyntaxError, new Response("{").json()));
promise_test("a body is read once", async () => {
  const r = new Response("x");
  await r.text();
  assert_true(r.bodyUsed);
  await promise_rejects_js(TypeError, r.text());
});
promise_test("a locked body is not read", async () => {
  const r = new Response("x");
  r.body.getReader();
  assert_false(r.bodyUsed);
  await promise_rejects_js(TypeError, r.text());
});
promise_test("the body is a stream of bytes", async () => {
  const { value, done } = await new Response("x").body.getReader().read();
  assert_false(done);
  assert_array_equals(value, [120]);
});
promise_test("reading the stream uses the body", async () => {
  const r = new Response("x");
  const reader = r.body.getReader();
  await reader.read();
  assert_true(r.bodyUsed);
});
test("body is the same stream each time", () => {
  const r = new Response("x");
  assert_equals(r.body, r.body);
});
promise_test("a stream of bytes is read", async () => {
  const stream = new ReadableStream({ start(c) { c.enqueue(new Uint8Array([104])); c.enqueue(new Uint8Array([105])); c.close(); } });
  assert_equals(await new Response(stream).text(), "hi");
});
promise_test("a stream of other chunks is refused", async () => {
  const stream = new ReadableStream({ start(c) { c.enqueue("text"); c.close(); } });
  await promise_rejects_js(TypeError, new Response(stream).text());
});
promise_test("an error of the stream is passed on", async () => {
  const error = new Error("of the source");
  await promise_rejects_exactly(error, new Response(new ReadableStream({ start(c) { c.error(error); } })).text());
});
test("a disturbed or locked stream is no body", () => {
  const locked = new ReadableStream();
  locked.getReader();
  assert_throws_js(TypeError, () => new Response(locked));
});
promise_test("a form is read back", async () => {
  const form = new FormData();
  form.append("a", "1");
  form.append("f", new File(["content"], "n.txt", { type: "text/plain" }));
  const back = await new Response(form).formData();
  assert_equals(back.get("a"), "1");
  assert_equals(back.get("f").name, "n.txt");
  assert_equals(await back.get("f").text(), "content");
});
promise_test("parameters are read as a form", async () => {
  const form = await new Response(new URLSearchParams([["a b", "c&d"], ["e", "\u00e9"]])).formData();
  assert_array_equals([...form].flat(), ["a b", "c&d", "e", "\u00e9"]);
});
promise_test("other content is no form", async () => promise_rejects_js(TypeError, new Response("x").formData()));
for (const body of ["", "x", "--b\r\n", "--b\r\n\r\nx\r\n--b--", "--c\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--c--"]) {
  promise_test(`the multipart body ${JSON.stringify(body)} is refused`, async () =>
    promise_rejects_js(TypeError, new Response(body, { headers: { "content-type": "multipart/form-data; boundary=b" } }).formData()));
}
promise_test("methods of another object reject", async () => promise_rejects_js(TypeError, Response.prototype.text.call({})));
test("attributes need a response", () => assert_throws_js(TypeError, () => Object.getOwnPropertyDescriptor(Response.prototype, "status").get.call({})));
test("error()", () => {
  const r = Response.error();
  assert_array_equals([r.type, r.status, r.ok, r.body], ["error", 0, false, null]);
  assert_throws_js(TypeError, () => r.headers.append("a", "b"));
});
for (const status of [301, 302, 303, 307, 308]) {
  test(`redirect() with ${status}`, () => {
    const r = Response.redirect("https://example.com/a b", status);
    assert_equals(r.status, status);
    assert_equals(r.headers.get("location"), "https://example.com/a%20b");
    assert_throws_js(TypeError, () => r.headers.set("a", "b"));
  });
}
test("redirect() is 302", () => assert_equals(Response.redirect("https://example.com").status, 302));
for (const status of [200, 300, 304, 309, 400]) {
  test(`redirect() refuses ${status}`, () => assert_throws_js(RangeError, () => Response.redirect("https://example.com", status)));
}
test("redirect() refuses what is no URL", () => assert_throws_js(TypeError, () => Response.redirect("http://:80")));
promise_test("json()", async () => {
  const r = Response.json({ a: 1 }, { status: 201 });
  assert_equals(r.status, 201);
  assert_equals(r.headers.get("content-type"), "application/json");
  assert_equals(await r.text(), '{"a":1}');
});
for (const [what, value] of [["undefined", undefined], ["a function", () => {}], ["a symbol", Symbol()]]) {
  test(`json() refuses ${what}`, () => assert_throws_js(TypeError, () => Response.json(value)));
}
test("json() passes errors of getters on", () => {
  const error = new Error("x");
  assert_throws_exactly(error, () => Response.json({ get a() { throw error; } }));
});
test("json() refuses a status without a body", () => assert_throws_js(TypeError, () => Response.json({}, { status: 204 })));
promise_test("a clone has the same content", async () => {
  const r = new Response("x", { status: 201, headers: { a: "1" } });
  const copy = r.clone();
  copy.headers.set("a", "2");
  assert_equals(r.headers.get("a"), "1");
  assert_equals(copy.status, 201);
  assert_equals(await copy.text() + await r.text(), "xx");
});
promise_test("a clone of a stream has the same content", async () => {
  const r = new Response(new ReadableStream({ start(c) { c.enqueue(new Uint8Array([97])); c.close(); } }));
  const copy = r.clone();
  assert_equals(await copy.text() + await r.text(), "aa");
});
promise_test("a used response has no clone", async () => {
  const r = new Response("x");
  await r.text();
  assert_throws_js(TypeError, () => r.clone());
});
for (const [values, want] of [
  [["Text/Plain; Charset=UTF-8"], "text/plain;charset=utf-8"], [["text/plain", "text/html"], "text/html"], [["text/plain", "no type"], "text/plain"],
  [["text/plain", "*/*"], "text/plain"], [['text/plain; a="x,y"'], 'text/plain;a="x,y"'], [['text/plain; a="x\\\"y"'], 'text/plain;a="x\\\"y"'],
  [["text/plain;charset=a", "text/plain"], "text/plain;charset=a"], [["text/plain;charset=a", "text/html"], "text/html"],
  [["text/plain;a=1;a=2;b"], "text/plain;a=1"], [["/"], ""], [["text/"], ""], [["text/pl ain"], ""], [[""], ""], [["text/plain;a=;b=3"], "text/plain;b=3"],
]) {
  promise_test(`the type of a blob of a body of ${JSON.stringify(values)}`, async () => {
    const headers = new Headers();
    for (const value of values) headers.append("content-type", value);
    assert_equals((await new Response(new Uint8Array(1), { headers }).blob()).type, want);
  });
}
promise_test("the last valid content type is that of a form", async () => {
  const headers = new Headers([["content-type", "text/plain"], ["content-type", "application/x-www-form-urlencoded"]]);
  assert_array_equals([...await new Response("a=b", { headers }).formData()].flat(), ["a", "b"]);
});
