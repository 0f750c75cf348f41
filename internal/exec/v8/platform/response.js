// Response of the Fetch standard.

const { TypeError, RangeError, isObject, original } = platform;
const { illegalInvocation, toUSVString, toByteString, toUnsigned, countArguments, toInit, expose, defineLevelInspection, refuseClones, hasOnly } = platform.load("webidl");
const { internal: headersOf, Headers } = platform.load("headers");
const bodies = platform.load("body");
const stringify = original("JSON", "stringify");

const isReasonUnit = (code) => code === 9 || (code >= 32 && code <= 255 && code !== 127);
const isNullBodyStatus = (status) => status === 101 || status === 103 || status === 204 || status === 205 || status === 304;
const isRedirectStatus = (status) => status === 301 || status === 302 || status === 303 || status === 307 || status === 308;

// readInit reads a ResponseInit in the order of Web IDL.
const readInit = (value) => {
  const init = toInit(value, "Response constructor");
  const read = { __proto__: null, headers: undefined, status: 200, statusText: "" };
  if (init === undefined) return read;
  const { headers } = init;
  read.headers = headers === undefined ? undefined : new Headers(headers);
  const { status } = init;
  if (status !== undefined) read.status = toUnsigned(status, 65536);
  const { statusText } = init;
  if (statusText !== undefined) read.statusText = toByteString(statusText);
  return read;
};

// initialize applies a ResponseInit, a body and the type of its content to a response.
const initialize = (state, init, content) => {
  if (init.status < 200 || init.status > 599) throw new RangeError('init["status"] must be in the range of 200 to 599, inclusive.');
  if (!hasOnly(init.statusText, isReasonUnit)) throw new TypeError("Invalid statusText");
  state.status = init.status;
  state.statusText = init.statusText;
  if (init.headers !== undefined) state.list = headersOf.listOf(init.headers);
  if (content === undefined) return;
  if (isNullBodyStatus(state.status)) throw new TypeError(`Response constructor: Invalid response status code ${state.status}`);
  state.body = content.body;
  if (content.type !== undefined && headersOf.getFrom(state.list, "content-type") === null) headersOf.addTo(state.list, "content-type", content.type);
};

const newState = () => ({
  __proto__: null, kind: "default", url: "", redirected: false, status: 200, statusText: "",
  list: platform.newList(), guard: "none", headers: undefined, body: null,
});

let stateOf;
let wrap;

class Response {
  #state = newState();

  static {
    const isOwn = (value) => isObject(value) && #state in value;
    refuseClones(isOwn);
    stateOf = (response) => {
      if (!isOwn(response)) throw illegalInvocation();
      return response.#state;
    };
    wrap = (state) => {
      const response = new Response();
      response.#state = state;
      return response;
    };
  }

  constructor(body = undefined, init = undefined) {
    // Web IDL converts both arguments before the steps of the constructor.
    const extract = body === null || body === undefined ? undefined : bodies.convert(body);
    const read = readInit(init);
    initialize(this.#state, read, extract === undefined ? undefined : extract());
  }

  static error() {
    const state = newState();
    state.kind = "error";
    state.status = 0;
    state.guard = "immutable";
    return wrap(state);
  }

  static json(data, init = undefined) {
    countArguments(arguments, 1, "Response.json");
    const read = readInit(init);
    const text = stringify(data);
    if (text === undefined) throw new TypeError("Value is not JSON serializable");
    const content = bodies.extractText(text);
    content.type = "application/json";
    const state = newState();
    initialize(state, read, content);
    return wrap(state);
  }

  static redirect(url, status = 302) {
    countArguments(arguments, 1, "Response.redirect");
    const text = toUSVString(url);
    const code = toUnsigned(status, 65536);
    const parsed = platform.load("fetchurl").parse(text);
    if (!isRedirectStatus(code)) throw new RangeError(`Invalid status code ${code}`);
    const state = newState();
    state.status = code;
    state.guard = "immutable";
    headersOf.addTo(state.list, "location", parsed.href);
    return wrap(state);
  }

  get type() { return stateOf(this).kind; }
  get url() { return stateOf(this).url; }
  get redirected() { return stateOf(this).redirected; }
  get status() { return stateOf(this).status; }
  get ok() { return isOK(stateOf(this)); }
  get statusText() { return stateOf(this).statusText; }
  get headers() { return headersFor(stateOf(this)); }

  clone() {
    const state = stateOf(this);
    if (bodies.isUnusable(state.body)) throw new TypeError("Response.clone: Body has already been consumed.");
    const copy = newState();
    copy.kind = state.kind;
    copy.url = state.url;
    copy.redirected = state.redirected;
    copy.status = state.status;
    copy.statusText = state.statusText;
    copy.guard = state.guard;
    copy.list = headersOf.copyList(state.list);
    copy.body = bodies.clone(state.body);
    return wrap(copy);
  }
}

const isOK = (state) => state.status >= 200 && state.status <= 299;

const headersFor = (state) => {
  if (state.headers === undefined) state.headers = headersOf.wrap(state.list, state.guard);
  return state.headers;
};

bodies.addMethods(Response, (response) => {
  const state = stateOf(response);
  return { __proto__: null, body: state.body, type: () => headersOf.getFrom(state.list, "content-type") };
});
expose(Response, "Response");
defineLevelInspection(Response, "Response", (response) => {
  const state = stateOf(response);
  return {
    status: state.status, statusText: state.statusText, headers: headersFor(state), body: bodies.streamOf(state.body),
    bodyUsed: bodies.isUsed(state.body), ok: isOK(state), redirected: state.redirected, type: state.kind, url: state.url,
  };
});

// newResponse makes the response to a request. fields has status, statusText, url (without its
// fragment), redirected, headers (a list of {name, value}), bytes (a Uint8Array that no script
// has, or undefined for no body), and kind, which is "basic" if it is missing.
const newResponse = (fields) => {
  const state = newState();
  state.kind = fields.kind === undefined ? "basic" : fields.kind;
  state.status = fields.status;
  state.statusText = fields.statusText;
  state.url = fields.url;
  state.redirected = fields.redirected;
  state.guard = "immutable";
  for (let i = 0; i < fields.headers.length; i++) headersOf.addTo(state.list, fields.headers[i].name, fields.headers[i].value);
  if (fields.bytes !== undefined) state.body = bodies.newBody(fields.bytes);
  return wrap(state);
};

return { Response, internal: { __proto__: null, newResponse } };
