// Requests: construction and what they inherit.

const url = "https://example.com/path?query#part";
for (const name of ["method", "url", "headers", "destination", "referrer", "referrerPolicy", "mode", "credentials", "cache", "redirect", "integrity", "keepalive", "signal", "duplex", "body", "bodyUsed"]) {
  test(`the attribute ${name}`, () => assert_idl_attribute(Request.prototype, name));
}
test("the class string", () => assert_class_string(new Request(url), "Request"));
test("defaults", () => {
  const r = new Request(url);
  assert_array_equals([r.method, r.url, r.destination, r.referrer, r.referrerPolicy, r.mode, r.credentials, r.cache, r.redirect, r.integrity, r.keepalive, r.duplex, r.body],
    ["GET", url, "", "about:client", "", "cors", "same-origin", "default", "follow", "", false, "half", null]);
});
test("an argument is needed", () => assert_throws_js(TypeError, () => new Request()));
for (const bad of ["", "/path", "http://", "https://user:secret@example.com/"]) {
  test(`the URL ${JSON.stringify(bad)} is refused`, () => assert_throws_js(TypeError, () => new Request(bad)));
}
test("a URL object is taken", () => assert_equals(new Request(new URL(url)).url, url));
for (const method of ["get", "Post", "dElete", "HEAD", "options", "put"]) {
  test(`the method ${method} is normalized`, () => assert_equals(new Request(url, { method }).method, method.toUpperCase()));
}
for (const method of ["patch", "chicken"]) {
  test(`the method ${method} stays`, () => assert_equals(new Request(url, { method }).method, method));
}
for (const method of ["", "a b", "trace", "CONNECT", "track", "\u0100"]) {
  test(`the method ${JSON.stringify(method)} is refused`, () => assert_throws_js(TypeError, () => new Request(url, { method })));
}
for (const [member, values, bad] of [
  ["mode", ["cors", "no-cors", "same-origin"], ["navigate", "other"]], ["credentials", ["omit", "include", "same-origin"], ["x"]],
  ["cache", ["no-store", "reload", "no-cache", "force-cache"], ["x", "only-if-cached"]], ["redirect", ["follow", "error", "manual"], ["x"]],
  ["referrerPolicy", ["", "no-referrer", "origin", "unsafe-url"], ["x"]], ["duplex", ["half"], ["full"]],
]) {
  for (const value of values) {
    test(`${member} can be ${JSON.stringify(value)}`, () => assert_equals(new Request(url, { [member]: value })[member], value));
  }
  for (const value of bad) {
    test(`${member} cannot be ${JSON.stringify(value)}`, () => assert_throws_js(TypeError, () => new Request(url, { [member]: value })));
  }
}
test("keepalive and integrity are taken", () => {
  const r = new Request(url, { keepalive: 1, integrity: "sha256-x" });
  assert_array_equals([r.keepalive, r.integrity], [true, "sha256-x"]);
});
test("window must be null", () => {
  assert_throws_js(TypeError, () => new Request(url, { window: "x" }));
  new Request(url, { window: null });
});
test("no referrer", () => assert_equals(new Request(url, { referrer: "" }).referrer, ""));
test("a bad referrer", () => assert_throws_js(TypeError, () => new Request(url, { referrer: "http://:1:2" })));
for (const method of ["GET", "HEAD"]) {
  test(`${method} has no body`, () => assert_throws_js(TypeError, () => new Request(url, { method, body: "" })));
}
test("a null body is none", () => assert_equals(new Request(url, { body: null }).body, null));
promise_test("a body is read", async () => assert_equals(await new Request(url, { method: "POST", body: "x" }).text(), "x"));
test("a body has a content type", () => assert_equals(new Request(url, { method: "POST", body: "x" }).headers.get("content-type"), "text/plain;charset=UTF-8"));
test("a stream needs duplex", () => {
  assert_throws_js(TypeError, () => new Request(url, { method: "POST", body: new ReadableStream() }));
  new Request(url, { method: "POST", body: new ReadableStream(), duplex: "half" });
});
test("headers are copied", () => {
  const headers = new Headers({ a: "1" });
  const r = new Request(url, { headers });
  headers.set("a", "2");
  assert_equals(r.headers.get("a"), "1");
});
test("a request has a signal of its own", () => {
  const { signal } = new AbortController();
  const r = new Request(url, { signal });
  assert_true(r.signal instanceof AbortSignal);
  assert_not_equals(r.signal, signal);
  assert_equals(r.signal, r.signal);
});
test("the signal follows the one that is given", () => {
  const controller = new AbortController();
  const r = new Request(url, { signal: controller.signal });
  const copy = new Request(r);
  controller.abort("why");
  assert_true(r.signal.aborted);
  assert_equals(copy.signal.reason, "why");
});
test("without a signal it is not aborted", () => assert_false(new Request(url, { signal: null }).signal.aborted));
test("another value is no signal", () => assert_throws_js(TypeError, () => new Request(url, { signal: {} })));
test("a request of a request", () => {
  const one = new Request(url, { method: "PUT", headers: { a: "1" }, redirect: "error", body: "x" });
  const two = new Request(one, { redirect: "manual" });
  assert_array_equals([two.method, two.url, two.headers.get("a"), two.redirect, one.redirect], ["PUT", url, "1", "manual", "error"]);
});
promise_test("the body moves to the request that is made of a request", async () => {
  const one = new Request(url, { method: "POST", body: "x" });
  const two = new Request(one);
  assert_true(one.bodyUsed);
  assert_equals(await two.text(), "x");
});
promise_test("a stream moves too", async () => {
  const body = new ReadableStream({ start(c) { c.enqueue(new Uint8Array([97])); c.close(); } });
  const one = new Request(url, { method: "POST", body, duplex: "half" });
  const two = new Request(one);
  assert_true(one.bodyUsed);
  assert_equals(await two.text(), "a");
});
promise_test("another body can replace that of a used request", async () => {
  const one = new Request(url, { method: "POST", body: "x" });
  await one.text();
  assert_throws_js(TypeError, () => new Request(one));
  assert_equals(await new Request(one, { body: "y" }).text(), "y");
});
test("headers of the init replace those of the request", () => {
  const two = new Request(new Request(url, { headers: { a: "1" } }), { headers: { b: "2" } });
  assert_array_equals([...two.headers.keys()], ["b"]);
});
promise_test("clones are independent", async () => {
  const one = new Request(url, { method: "POST", body: "x", headers: { a: "1" } });
  const two = one.clone();
  two.headers.set("a", "2");
  assert_equals(one.headers.get("a"), "1");
  assert_equals(await one.text() + await two.text(), "xx");
});
promise_test("a used request has no clone", async () => {
  const one = new Request(url, { method: "POST", body: "x" });
  await one.text();
  assert_throws_js(TypeError, () => one.clone());
});
test("attributes need a request", () => assert_throws_js(TypeError, () => Object.getOwnPropertyDescriptor(Request.prototype, "url").get.call({})));
promise_test("a null body keeps the body of the request", async () =>
  assert_equals(await new Request(new Request(url, { method: "POST", body: "x" }), { body: null }).text(), "x"));
test("an init resets the referrer and its policy", () => {
  const one = new Request(url, { referrer: "", referrerPolicy: "origin" });
  const copy = new Request(one);
  const two = new Request(one, { method: "POST" });
  assert_array_equals([copy.referrer, copy.referrerPolicy, two.referrer, two.referrerPolicy], ["", "origin", "about:client", ""]);
});
test("a stream needs cors or same-origin", () =>
  assert_throws_js(TypeError, () => new Request(url, { method: "POST", body: new ReadableStream(), duplex: "half", mode: "no-cors" })));
test("a stream needs no keepalive", () =>
  assert_throws_js(TypeError, () => new Request(url, { method: "POST", body: new ReadableStream(), duplex: "half", keepalive: true })));
