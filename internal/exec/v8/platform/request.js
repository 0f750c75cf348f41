// Request of the Fetch standard. It describes a request; fetch sends it.

const { TypeError, isObject, newList } = platform;
const { illegalInvocation, toUSVString, toByteString, countArguments, toInit, expose, defineLevelInspection, refuseClones, isToken } = platform.load("webidl");
const { internal: headersOf, Headers } = platform.load("headers");
const bodies = platform.load("body");
const parse = (text) => platform.load("fetchurl").parse(text);
const toUpperCase = platform.method("String.prototype", "toUpperCase");

const standardMethods = platform.splitText("DELETE GET HEAD OPTIONS POST PUT", " ");
const forbiddenMethods = platform.splitText("CONNECT TRACE TRACK", " ");

// The members of RequestInit that are enumerations, with their values.
const choices = {
  __proto__: null,
  cache: "default, no-store, reload, no-cache, force-cache, only-if-cached",
  credentials: "omit, same-origin, include",
  duplex: "half",
  mode: "navigate, same-origin, no-cors, cors",
  redirect: "follow, manual, error",
  referrerPolicy: ", no-referrer, no-referrer-when-downgrade, same-origin, origin, strict-origin, origin-when-cross-origin, strict-origin-when-cross-origin, unsafe-url",
};

const choose = (value, member) => {
  const text = `${value}`;
  if (!platform.listIncludes(platform.splitText(choices[member], ", "), text)) {
    throw new TypeError(`Request constructor: ${text} is not an accepted type. Expected one of ${choices[member]}.`);
  }
  return text;
};

// checkSignal returns a signal or null, and throws for another value.
const checkSignal = (signal) => {
  if (signal !== null && platform.load("abort").signalOf(signal) === undefined) {
    throw new TypeError("Failed to construct 'Request': member signal is not of type AbortSignal.");
  }
  return signal;
};

// readInit reads a RequestInit, with its members in the order of Web IDL.
const readInit = (value) => {
  const given = toInit(value, "Request constructor");
  const init = { __proto__: null };
  if (given === undefined) return init;
  const take = (key, convert) => {
    const member = given[key];
    if (member !== undefined) init[key] = convert(member, key);
  };
  take("body", (member) => (member === null ? null : bodies.convert(member)));
  take("cache", choose);
  take("credentials", choose);
  take("duplex", choose);
  take("headers", (member) => new Headers(member));
  take("integrity", (member) => `${member}`);
  take("keepalive", (member) => (member ? true : false));
  take("method", toByteString);
  take("mode", choose);
  take("redirect", choose);
  take("referrer", toUSVString);
  take("referrerPolicy", choose);
  take("signal", checkSignal);
  take("window", (member) => member);
  return init;
};

const checkMethod = (method) => {
  if (!isToken(method)) throw new TypeError(`'${method}' is not a valid HTTP method.`);
  const upper = toUpperCase(method);
  if (platform.listIncludes(forbiddenMethods, upper)) throw new TypeError(`'${method}' HTTP method is unsupported.`);
  return platform.listIncludes(standardMethods, upper) ? upper : method;
};

const newState = () => ({
  __proto__: null, method: "GET", url: "", list: newList(), headers: undefined, body: null, source: undefined, signal: undefined,
  mode: "cors", credentials: "same-origin", cache: "default", redirect: "follow", referrer: "about:client", referrerPolicy: "",
  integrity: "", keepalive: false,
});

const copyState = (from) => {
  const state = newState();
  const keys = platform.ObjectKeys(from);
  for (let i = 0; i < keys.length; i++) state[keys[i]] = from[keys[i]];
  state.list = headersOf.copyList(from.list);
  state.headers = state.signal = undefined;
  return state;
};

const applyReferrer = (state, referrer) => {
  if (referrer === "") {
    state.referrer = "no-referrer";
    return;
  }
  try {
    parse(referrer);
  } catch {
    throw new TypeError(`Referrer "${referrer}" is not a valid URL.`);
  }
  // A script has no origin, so every URL is one of another origin, which means the client.
  state.referrer = "about:client";
};

// applyInit changes the state of a request as a RequestInit says.
const applyInit = (state, init) => {
  if ("window" in init && init.window !== null) throw new TypeError("'window' option must be null");
  if (platform.ObjectKeys(init).length > 0) {
    state.referrer = "about:client";
    state.referrerPolicy = "";
  }
  if ("referrer" in init) applyReferrer(state, init.referrer);
  if ("referrerPolicy" in init) state.referrerPolicy = init.referrerPolicy;
  if (init.mode === "navigate") throw new TypeError("Request constructor: invalid request mode navigate.");
  if ("mode" in init) state.mode = init.mode;
  if ("credentials" in init) state.credentials = init.credentials;
  if ("cache" in init) state.cache = init.cache;
  if (state.cache === "only-if-cached" && state.mode !== "same-origin") {
    throw new TypeError("'only-if-cached' can be set only with 'same-origin' mode");
  }
  if ("redirect" in init) state.redirect = init.redirect;
  if ("integrity" in init) state.integrity = init.integrity;
  if ("keepalive" in init) state.keepalive = init.keepalive;
  if ("method" in init) state.method = checkMethod(init.method);
  if ("signal" in init) state.source = init.signal === null ? undefined : init.signal;
  if (state.mode === "no-cors" && state.method !== "GET" && state.method !== "HEAD" && state.method !== "POST") {
    throw new TypeError(`'${state.method}' is unsupported in no-cors mode.`);
  }
  if ("headers" in init) state.list = headersOf.listOf(init.headers);
};

// applyBody sets the body of a request. input is the state of the request it is made from.
const applyBody = (state, init, input) => {
  const given = init.body !== undefined && init.body !== null;
  const inherited = input === undefined ? null : input.body;
  if ((given || inherited !== null) && (state.method === "GET" || state.method === "HEAD")) {
    throw new TypeError("Request with GET/HEAD method cannot have body.");
  }
  state.body = null;
  if (given) {
    const { body, type } = init.body();
    if (body.stream !== undefined) checkStream(state, init);
    state.body = body;
    if (type !== undefined && headersOf.getFrom(state.list, "content-type") === null) headersOf.addTo(state.list, "content-type", type);
  } else if (inherited !== null) {
    if (bodies.isUnusable(inherited)) throw new TypeError("Cannot construct a Request with a Request object that has already been used.");
    // The content moves to this request.
    state.body = bodies.take(inherited);
  }
};

// checkStream throws for a request whose body cannot be a stream.
const checkStream = (state, init) => {
  if (state.keepalive) throw new TypeError("Request constructor: a request with keepalive cannot have a stream as its body.");
  if (init.duplex === undefined) throw new TypeError("RequestInit: duplex option is required when sending a body.");
  if (state.mode === "no-cors") throw new TypeError('If request is made from ReadableStream, mode should be "same-origin" or "cors"');
};

let stateOf;
let isRequest;
let wrap;
const secret = { __proto__: null };

class Request {
  #state;

  static {
    isRequest = (value) => isObject(value) && #state in value;
    stateOf = (request) => {
      if (!isRequest(request)) throw illegalInvocation();
      return request.#state;
    };
    wrap = (state) => new Request(secret, state);
  }

  constructor(input, init = undefined) {
    if (input === secret) {
      this.#state = init;
      return;
    }
    countArguments(arguments, 1, "Request constructor");
    const from = isRequest(input) ? input.#state : undefined;
    const text = from === undefined ? toUSVString(input) : "";
    const read = readInit(init);
    let state;
    if (from === undefined) {
      const url = parse(text);
      if (url.hasCredentials) throw new TypeError(`Request cannot be constructed from a URL that includes credentials: ${text}`);
      state = newState();
      state.url = url.href;
    } else {
      state = copyState(from);
    }
    applyInit(state, read);
    applyBody(state, read, from);
    this.#state = state;
  }

  get method() { return stateOf(this).method; }
  get url() { return stateOf(this).url; }
  get headers() { return headersFor(stateOf(this)); }
  get destination() { stateOf(this); return ""; }
  get referrer() { return shownReferrer(stateOf(this)); }
  get referrerPolicy() { return stateOf(this).referrerPolicy; }
  get mode() { return stateOf(this).mode; }
  get credentials() { return stateOf(this).credentials; }
  get cache() { return stateOf(this).cache; }
  get redirect() { return stateOf(this).redirect; }
  get integrity() { return stateOf(this).integrity; }
  get keepalive() { return stateOf(this).keepalive; }
  get isReloadNavigation() { stateOf(this); return false; }
  get isHistoryNavigation() { stateOf(this); return false; }
  get signal() { return signalOf(stateOf(this)); }
  get duplex() { stateOf(this); return "half"; }

  clone() {
    const state = stateOf(this);
    if (bodies.isUnusable(state.body)) throw new TypeError("Request.clone: Body has already been consumed.");
    const copy = copyState(state);
    copy.body = bodies.clone(state.body);
    return wrap(copy);
  }
}

const shownReferrer = (state) => (state.referrer === "no-referrer" ? "" : state.referrer);

const headersFor = (state) => {
  if (state.headers === undefined) state.headers = headersOf.wrap(state.list, "none");
  return state.headers;
};

// A request has a signal of its own, which follows the one that it was made with.
const signalOf = (state) => {
  if (state.signal === undefined) {
    const sources = newList();
    if (state.source !== undefined) sources[0] = state.source;
    state.signal = platform.load("abort").createDependent(sources);
  }
  return state.signal;
};

bodies.addMethods(Request, (request) => {
  const state = stateOf(request);
  return { __proto__: null, body: state.body, type: () => headersOf.getFrom(state.list, "content-type") };
});
expose(Request, "Request");
refuseClones(isRequest);
defineLevelInspection(Request, "Request", (request) => {
  const state = stateOf(request);
  return {
    method: state.method, url: state.url, headers: headersFor(state), destination: "", referrer: shownReferrer(state),
    referrerPolicy: state.referrerPolicy, mode: state.mode, credentials: state.credentials, cache: state.cache,
    redirect: state.redirect, integrity: state.integrity, keepalive: state.keepalive, isReloadNavigation: false,
    isHistoryNavigation: false, signal: signalOf(state),
  };
});

// read returns what fetch needs of a request: method, url, headers (a list of {name, lower, value}
// that must not be changed), redirect, signal (the one that the script passed, or undefined), and
// whether it has a body. readBody returns a promise of {bytes} of the body, which is used
// afterwards.
const internal = {
  __proto__: null,
  isRequest,
  read: (request) => {
    const state = stateOf(request);
    return {
      __proto__: null, method: state.method, url: state.url, headers: state.list, redirect: state.redirect,
      signal: state.source, hasBody: state.body !== null,
    };
  },
  readBody: (request) => bodies.readAll(stateOf(request).body),
};
return { Request, internal };
