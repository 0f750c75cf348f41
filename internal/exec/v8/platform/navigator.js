// The navigator, of which scripts read the user agent.

const { setTag, setMeta, hideFrames, TypeError } = platform;

class Navigator {
  constructor() { throw hideFrames(new TypeError("Illegal constructor"), Navigator); }
  get userAgent() { return "Daybook"; }
  get language() { return "en-US"; }
  get hardwareConcurrency() { return 1; }
}
setTag(Navigator.prototype, "Navigator");

return { Navigator, navigator: platform.ObjectCreate(Navigator.prototype) };
