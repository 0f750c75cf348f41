// URLs: the interface, its parts, its parameters.

for (const [input, want] of [
  ["http://u:p@h.example:8080/a/b?q=1#f", { protocol: "http:", username: "u", password: "p", host: "h.example:8080", hostname: "h.example", port: "8080", pathname: "/a/b", search: "?q=1", hash: "#f", origin: "http://h.example:8080" }],
  ["https://h/", { protocol: "https:", username: "", password: "", host: "h", hostname: "h", port: "", pathname: "/", search: "", hash: "", origin: "https://h" }],
  ["http://h/?#", { search: "", hash: "", href: "http://h/?#" }],
  ["http://[::1]:3/", { host: "[::1]:3", hostname: "[::1]", port: "3", origin: "http://[::1]:3" }],
  ["http://:p@h/", { username: "", password: "p", origin: "http://h" }],
  ["http://u@h/", { username: "u", password: "", host: "h" }],
  ["foo:opaque?q#f", { protocol: "foo:", host: "", hostname: "", port: "", pathname: "opaque", search: "?q", hash: "#f", origin: "null" }],
  ["foo://h:1/p", { host: "h:1", pathname: "/p", origin: "null" }],
  ["foo:/.//p", { host: "", pathname: "//p", href: "foo:/.//p" }],
  ["foo:///p", { host: "", pathname: "/p" }],
  ["file:///a", { host: "", pathname: "/a", origin: "null" }],
  ["file://h/a", { host: "h", pathname: "/a", origin: "null" }],
  ["blob:https://h:8/x", { origin: "https://h:8", pathname: "https://h:8/x", protocol: "blob:" }],
  ["blob:ftp://h/x", { origin: "null" }],
  ["blob:foo://h/x", { origin: "null" }],
  ["blob:blob:https://h/x", { origin: "null" }],
  ["blob:x", { origin: "null" }],
  ["ws://h/x", { origin: "ws://h" }],
  ["ftp://h:2121/x", { origin: "ftp://h:2121" }],
  ["data:,x", { origin: "null", pathname: ",x" }],
]) {
  for (const part of Object.keys(want)) test(`${part} of ${input}`, () => assert_equals(new URL(input)[part], want[part]));
}

test("the arguments are converted to strings", () => {
  assert_equals(new URL({ toString: () => "http://h/" }).href, "http://h/");
  assert_equals(new URL("x", { toString: () => "http://h/" }).href, "http://h/x");
  assert_equals(new URL(new URL("http://h/")).href, "http://h/");
  assert_equals(new URL("x", new URL("http://h/")).href, "http://h/x");
  assert_throws_js(TypeError, () => new URL(Symbol("x")));
  assert_throws_js(TypeError, () => new URL(undefined));
  assert_equals(new URL(undefined, "http://h/").href, "http://h/undefined");
  assert_equals(new URL(null, "http://h/").href, "http://h/null");
});
test("a base of undefined is none, null is the text null", () => {
  assert_equals(new URL("http://h/", undefined).href, "http://h/");
  assert_throws_js(TypeError, () => new URL("http://h/", null));
});
test("a URL is required", () => {
  assert_throws_js(TypeError, () => new URL());
  assert_throws_js(TypeError, () => URL("http://h/"));
  assert_throws_js(TypeError, () => URL.canParse());
  assert_throws_js(TypeError, () => URL.parse());
});
test("lone surrogates are replaced", () => {
  assert_equals(new URL("http://h/\ud800x").pathname, "/%EF%BF%BDx");
  assert_equals(new URL("http://h/?\udc00").search, "?%EF%BF%BD");
});
test("URL.parse", () => {
  assert_equals(URL.parse("http://h/").href, "http://h/");
  assert_equals(URL.parse("x", "http://h/").href, "http://h/x");
  assert_equals(URL.parse("x"), null);
  assert_equals(URL.parse("x", "y"), null);
  assert_not_equals(URL.parse("http://h/"), URL.parse("http://h/"));
});
test("href refuses an invalid URL and keeps the old one", () => {
  const url = new URL("http://h/");
  assert_throws_js(TypeError, () => { url.href = "x"; });
  assert_equals(url.href, "http://h/");
});
test("toString and toJSON", () => {
  const url = new URL("http://H");
  assert_equals(url.toString(), "http://h/");
  assert_equals(`${url}`, "http://h/");
  assert_equals(JSON.stringify({ url }), '{"url":"http://h/"}');
});
test("origin and searchParams cannot be set", () => {
  "use strict";
  const url = new URL("http://h/");
  assert_throws_js(TypeError, () => { url.origin = "x"; });
  assert_throws_js(TypeError, () => { url.searchParams = "x"; });
});
for (const name of ["href", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"]) {
  test(`${name} is a settable attribute`, () => assert_idl_attribute(URL.prototype, name, true));
}
for (const name of ["origin", "searchParams"]) test(`${name} is an attribute`, () => assert_idl_attribute(URL.prototype, name));
for (const name of ["toString", "toJSON"]) test(`${name} is a method`, () => assert_idl_method(URL.prototype, name, 0));
for (const name of ["canParse", "parse"]) test(`${name} is a static method`, () => assert_idl_method(URL, name, 1));
test("the interface", () => {
  assert_equals(URL.length, 1);
  assert_class_string(new URL("http://h"), "URL");
  assert_throws_js(TypeError, () => URL.prototype.href);
});

test("searchParams is the same object", () => {
  const url = new URL("http://h/?a=1");
  assert_equals(url.searchParams, url.searchParams);
  assert_equals(url.searchParams.get("a"), "1");
});
for (const [name, change, want] of [
  ["append", (p) => p.append("b", "2 3"), "http://h/p?a=1&b=2+3#f"],
  ["set", (p) => p.set("a", "\u00e9"), "http://h/p?a=%C3%A9#f"],
  ["delete", (p) => p.delete("a"), "http://h/p#f"],
  ["sort", (p) => { p.append("A", ""); p.sort(); }, "http://h/p?A=&a=1#f"],
]) {
  test(`searchParams.${name} changes the URL`, () => {
    const url = new URL("http://h/p?a=1#f");
    change(url.searchParams);
    assert_equals(url.href, want);
    assert_equals(url.hash, "#f");
    assert_equals(new URL(url.href).searchParams.toString(), url.searchParams.toString());
  });
}
test("search changes searchParams", () => {
  const url = new URL("http://h/?a=1");
  const { searchParams } = url;
  url.search = "?b=2&b=3";
  assert_equals(searchParams.toString(), "b=2&b=3");
  url.href = "http://x/?c=%zz";
  assert_equals(searchParams.get("c"), "%zz");
  url.search = "";
  assert_equals(searchParams.size, 0);
});
test("other assignments keep searchParams", () => {
  const url = new URL("http://h/?a=1");
  const { searchParams } = url;
  url.host = "x";
  url.pathname = "/p";
  assert_equals(searchParams.toString(), "a=1");
  searchParams.append("b", "2");
  assert_equals(url.href, "http://x/p?a=1&b=2");
});
test("reading searchParams does not change the query", () => {
  const url = new URL("http://h/?a b&c=%7e");
  assert_equals(url.searchParams.get("c"), "~");
  assert_equals(url.search, "?a%20b&c=%7e");
  url.searchParams.delete("none");
  assert_equals(url.search, "?a+b=&c=%7E");
});
test("the parameters of an opaque path", () => {
  const url = new URL("foo:x?a=1#f");
  url.searchParams.set("a", "2");
  assert_equals(url.href, "foo:x?a=2#f");
  url.searchParams.delete("a");
  assert_equals(url.href, "foo:x#f");
});
test("the parts after a change of the parameters", () => {
  const url = new URL("http://h/p?a#f");
  url.searchParams.append("long", "x".repeat(100));
  url.hash = "g";
  url.pathname = "q";
  assert_equals(url.href, `http://h/q?a=&long=${"x".repeat(100)}#g`);
});
