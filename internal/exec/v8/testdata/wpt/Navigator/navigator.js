// The navigator: the user agent that identifies the runtime.

test("the user agent is one product token", () => assert_regexp_match(navigator.userAgent, /^[!#$%&'*+.^_`|~0-9A-Za-z-]+(\/[!#$%&'*+.^_`|~0-9A-Za-z-]+)?$/));
test("the user agent is an attribute of the interface", () => assert_idl_attribute(Navigator.prototype, "userAgent"));
test("navigator has the class string of its interface", () => assert_class_string(navigator, "Navigator"));
test("navigator is an instance of its interface", () => assert_true(navigator instanceof Navigator));
test("the interface has no constructor", () => assert_throws_js(TypeError, () => new Navigator()));
test("the user agent is only available on a navigator", () => {
  const { get } = Object.getOwnPropertyDescriptor(Navigator.prototype, "userAgent");
  assert_throws_js(TypeError, () => get.call({}));
});
test("language is a language tag", () => assert_regexp_match(navigator.language, /^[a-z]{2}(-[A-Z]{2})?$/));
test("languages is frozen and begins with language", () => {
  assert_true(Object.isFrozen(navigator.languages));
  assert_equals(navigator.languages[0], navigator.language);
  assert_equals(navigator.languages, navigator.languages);
});
test("there is at least one processor", () => assert_true(navigator.hardwareConcurrency >= 1));
