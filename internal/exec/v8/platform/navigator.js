// The navigator, of which scripts read the user agent, and other properties of the global scope.

const { setTag, hideFrames, TypeError, ObjectDefineProperty } = platform;

const secret = {};
const languages = platform.ObjectFreeze(["en-US"]);

class Navigator {
  #languages = languages;
  constructor() {
    if (arguments[0] !== secret) throw hideFrames(new TypeError("Illegal constructor"), Navigator);
  }
  static check(value) {
    if (!(#languages in value)) throw new TypeError("Illegal invocation");
  }

  get userAgent() { check(this); return "Daybook"; }
  get language() { check(this); return "en-US"; }
  get languages() { check(this); return this.#languages; }
  get hardwareConcurrency() { check(this); return 1; }
}
const { check } = Navigator;
delete Navigator.check;
const attributes = ["userAgent", "language", "languages", "hardwareConcurrency"];
for (let i = 0; i < attributes.length; i++) ObjectDefineProperty(Navigator.prototype, attributes[i], { __proto__: null, enumerable: true });
setTag(Navigator.prototype, "Navigator");

// The error ends the run, as one that is thrown in a timer does.
const { reportError } = {
  reportError(error) {
    if (arguments.length === 0) throw platform.codedError(TypeError, "ERR_MISSING_ARGS", 'The "error" argument must be specified', reportError);
    platform.reportError(error);
  },
};

// V8 may fail to save a heap in which a list of exports refers to the global object.
return { Navigator, navigator: new Navigator(secret), reportError, get self() { return platform.global; } };
