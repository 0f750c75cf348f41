// URL patterns. A line has the arguments of the pattern, those of exec, and the groups of the
// components that match, or null.

for (const [pattern, input, want] of [
  [[{ pathname: "/foo/bar" }], [{ pathname: "/foo/bar" }], {}],
  [[{ pathname: "/foo/bar" }], [{ pathname: "/foo/ba" }], null],
  [[{ pathname: "/foo/:id" }], [{ pathname: "/foo/12" }], { pathname: { id: "12" } }],
  [[{ pathname: "/foo/:id" }], [{ pathname: "/foo/1/2" }], null],
  [[{ pathname: "/foo/:id" }], [{ pathname: "/foo/" }], null],
  [[{ pathname: "/foo/:id?" }], [{ pathname: "/foo" }], { pathname: { id: undefined } }],
  [[{ pathname: "/foo/:id?" }], [{ pathname: "/foo/a" }], { pathname: { id: "a" } }],
  [[{ pathname: "/foo/:id+" }], [{ pathname: "/foo/a/b" }], { pathname: { id: "a/b" } }],
  [[{ pathname: "/foo/:id+" }], [{ pathname: "/foo" }], null],
  [[{ pathname: "/foo/:id*" }], [{ pathname: "/foo" }], { pathname: { id: undefined } }],
  [[{ pathname: "/foo/:id*" }], [{ pathname: "/foo/a/b" }], { pathname: { id: "a/b" } }],
  [[{ pathname: "/foo/*" }], [{ pathname: "/foo/a/b" }], { pathname: { 0: "a/b" } }],
  [[{ pathname: "/foo/*" }], [{ pathname: "/foo/" }], { pathname: { 0: "" } }],
  [[{ pathname: "/foo/*" }], [{ pathname: "/foo" }], null],
  [[{ pathname: "/foo/*?" }], [{ pathname: "/foo" }], { pathname: { 0: undefined } }],
  [[{ pathname: "/(\\d+)" }], [{ pathname: "/12" }], { pathname: { 0: "12" } }],
  [[{ pathname: "/(\\d+)" }], [{ pathname: "/x" }], null],
  [[{ pathname: "/:n(\\d+)-:m" }], [{ pathname: "/12-x" }], { pathname: { n: "12", m: "x" } }],
  [[{ pathname: "/a{/b}?" }], [{ pathname: "/a" }], {}],
  [[{ pathname: "/a{/b}?" }], [{ pathname: "/a/b" }], {}],
  [[{ pathname: "/a{-:x.y}+" }], [{ pathname: "/a-1.y-2.y" }], { pathname: { x: "1.y-2" } }],
  [[{ pathname: "/\\:x" }], [{ pathname: "/:x" }], {}],
  [[{ pathname: "/caf\u00e9" }], [{ pathname: "/caf%C3%A9" }], {}],
  [[{ pathname: "/:caf\u00e9" }], [{ pathname: "/x" }], { pathname: { "caf\u00e9": "x" } }],
  [[{ pathname: "/a/../b" }], [{ pathname: "/b" }], {}],
  [[{ pathname: "/FOO" }], [{ pathname: "/foo" }], null],
  [[{ pathname: "/FOO" }, { ignoreCase: true }], [{ pathname: "/foo" }], {}],
  [[{ hostname: "*.example.com" }], [{ hostname: "a.b.example.com" }], { hostname: { 0: "a.b" } }],
  [[{ hostname: ":sub.example.com" }], [{ hostname: "a.example.com" }], { hostname: { sub: "a" } }],
  [[{ hostname: ":sub.example.com" }], [{ hostname: "a.b.example.com" }], null],
  [[{ hostname: "B\u00fccher.de" }], [{ hostname: "xn--bcher-kva.de" }], {}],
  [[{ hostname: "[\\:\\:AB]" }], [{ hostname: "[::ab]" }], {}],
  [[{ protocol: "http{s}?" }], ["https://x/"], { hostname: { 0: "x" } }],
  [[{ protocol: "http{s}?" }], ["ftp://x/"], null],
  [[{ protocol: "https", port: "443" }], ["https://x/"], {}],
  [[{ port: "80" }], [{ protocol: "http", port: "80" }], null],
  [[{ search: "q=:q" }], ["https://x/?q=1"], { search: { q: "1" } }],
  [[{ search: "?a" }], ["https://x/?a"], {}],
  [[{ hash: "#:part" }], ["https://x/#end"], { hash: { part: "end" } }],
  [[{ username: ":u", password: "*" }], ["https://me:pw@x/"], { username: { u: "me" }, password: { 0: "pw" } }],
  [[{ baseURL: "https://x/a/b?q", pathname: "c" }], ["https://x/a/c"], {}],
  [[{ baseURL: "https://x/a/b?q" }], ["https://x/a/b?q"], {}],
  [[{ baseURL: "https://x/a/b?q" }], ["https://x/a/b"], null],
  [["https://example.com/:a/*"], ["https://example.com/x/y/z"], { pathname: { a: "x", 0: "y/z" } }],
  [["https://example.com/:a/*"], ["https://example.org/x/y"], null],
  [["https://*.com:8080/?q=:q#:h"], ["https://a.com:8080/?q=1#2"], { hostname: { 0: "a" }, search: { q: "1" }, hash: { h: "2" } }],
  [["https://example.com/x"], ["https://example.com/x?any#any"], {}],
  [["https://example.com/x?"], ["https://example.com/x?any"], null],
  [["/books/:id", "https://example.com"], ["https://example.com/books/1"], { pathname: { id: "1" } }],
  [["/books/:id", "https://example.com"], ["/books/1", "https://example.com"], { pathname: { id: "1" } }],
  [["?q=*", "https://example.com/a"], ["https://example.com/a?q=2"], { search: { 0: "2" } }],
  [["#*", "https://example.com/a"], ["https://example.com/a#f"], { hash: { 0: "f" } }],
  [["data\\:text/:kind"], ["data:text/plain"], { pathname: { kind: "plain" } }],
  [["http{s}?://x/"], ["http://x/"], {}],
  [["https://[\\:\\:1]/"], ["https://[::1]/"], {}],
  [["https://u\\:p@x/*"], ["https://u:p@x/y"], { pathname: { 0: "y" } }],
  [["https://x/:a(\\d+)"], ["https://x/7"], { pathname: { a: "7" } }],
  [[{}], ["https://u:p@x:1/y?z#w"], { pathname: { 0: "/y" } }],
  [[], ["foo:bar"], { pathname: { 0: "bar" } }],
  [[{ pathname: "/a" }], ["not a url"], null],
  [[{ pathname: "/a" }], [{ hostname: "a b" }], null],
]) {
  test(`${JSON.stringify(pattern)} and ${JSON.stringify(input)}`, () => {
    const object = new URLPattern(...pattern);
    const result = object.exec(...input);
    assert_equals(object.test(...input), want !== null);
    if (want === null) {
      assert_equals(result, null);
      return;
    }
    assert_not_equals(result, null);
    for (const name of Object.keys(want)) assert_object_equals(result[name].groups, want[name], name);
    assert_equals(result.inputs.length, input.length);
  });
}

for (const [pattern, name, want] of [
  [[{ pathname: "/foo/:id" }], "pathname", "/foo/:id"],
  [[{ pathname: "/foo/([^\\/]+?)" }], "pathname", "/foo/([^\\/]+?)"],
  [[{ pathname: "/foo/(.*)" }], "pathname", "/foo/*"],
  [[{ pathname: "/{:id}" }], "pathname", "/{:id}"],
  [[{ pathname: "/a{b}" }], "pathname", "/ab"],
  [[{ pathname: "/caf\u00e9" }], "pathname", "/caf%C3%A9"],
  [[{ pathname: "/a\\:b" }], "pathname", "/a\\:b"],
  [[{ protocol: "https:" }], "protocol", "https"],
  [[{ hostname: "EXAMPLE.com" }], "hostname", "example.com"],
  [["https://x/"], "port", ""],
  [["https://x/"], "search", "*"],
  [["https://x:443/"], "port", ""],
  [[], "pathname", "*"],
  [["https://x/a?b"], "hash", "*"],
]) {
  test(`${name} of ${JSON.stringify(pattern)}`, () => assert_equals(new URLPattern(...pattern)[name], want));
}

for (const pattern of [
  ["/relative"], ["https://x/("], ["https://x/{"], ["https://x/:"], [{ pathname: "/:a/:a" }], [{ pathname: "/(?:a)" }], [{ pathname: "/(\u00e9)" }], [{ pathname: "/a}" }],
  [{ pathname: "/\\" }], [{ pathname: "/(()" }], [{ hostname: "a b" }], [{ port: "x" }], [{ protocol: "1x" }], [{ baseURL: "x" }], [{ pathname: "/a" }, "https://x/"], [{ pathname: "/*+*" }, "x"],
]) {
  test(`${JSON.stringify(pattern)} is refused`, () => assert_throws_js(TypeError, () => new URLPattern(...pattern)));
}
test("the inputs of exec", () => {
  const result = new URLPattern({ pathname: "/a" }).exec("/a", "https://x/");
  assert_array_equals(result.inputs, ["/a", "https://x/"]);
  assert_equals(result.pathname.input, "/a");
  assert_equals(result.hostname.input, "x");
});
test("a base with a dictionary is refused", () => assert_throws_js(TypeError, () => new URLPattern({}).exec({}, "https://x/")));
test("hasRegExpGroups", () => {
  assert_false(new URLPattern({ pathname: "/:a/*" }).hasRegExpGroups);
  assert_true(new URLPattern({ pathname: "/(\\d+)" }).hasRegExpGroups);
});
for (const name of ["protocol", "username", "password", "hostname", "port", "pathname", "search", "hash", "hasRegExpGroups"]) {
  test(`${name} is an attribute`, () => assert_idl_attribute(URLPattern.prototype, name));
}
for (const name of ["test", "exec"]) test(`${name} is a method`, () => assert_idl_method(URLPattern.prototype, name, 0));
test("the interface", () => {
  assert_equals(URLPattern.length, 0);
  assert_class_string(new URLPattern(), "URLPattern");
  assert_throws_js(TypeError, () => URLPattern());
  assert_throws_js(TypeError, () => URLPattern.prototype.test.call({}));
});
