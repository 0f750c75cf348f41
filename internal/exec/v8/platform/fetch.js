// fetch of the Fetch standard. The host sends the request, if its policy allows that, and follows
// redirects: see startFetch.
//
// There is no cache, no origin and no credentials of a user: the members cache, mode,
// credentials, referrer and integrity of a request have no effect.

const { Error, TypeError, ObjectDefineProperty, newList, hideFrames, setStackHeader, defineHidden, startFetch } = platform;
const { Request, internal: requests } = platform.load("request");
const { internal: responses } = platform.load("response");
const { then, rejected } = platform.load("promises");
const startsWith = platform.method("String.prototype", "startsWith");
const endsWith = platform.method("String.prototype", "endsWith");
const indexOf = platform.method("String.prototype", "indexOf");
const lastIndexOf = platform.method("String.prototype", "lastIndexOf");
const slice = platform.method("String.prototype", "slice");

// These headers follow from a request. A browser ignores them too if a script sets them.
const ownHeaders = platform.splitText("accept-encoding connection content-length expect host http2-settings keep-alive te trailer transfer-encoding upgrade", " ");
const isOwnHeader = (lower) => platform.listIncludes(ownHeaders, lower) || startsWith(lower, "proxy-");

// listOfPairs returns lists without a prototype: JSON would read toJSON of others.
const listOfPairs = (headers) => {
  const pairs = newList();
  for (let i = 0; i < headers.length; i++) {
    if (isOwnHeader(headers[i].lower)) continue;
    const pair = newList();
    pair[0] = headers[i].lower;
    pair[1] = headers[i].value;
    pairs[pairs.length] = pair;
  }
  return pairs;
};

const newResponse = (answer) => {
  const headers = newList();
  for (let i = 0; i < answer.headers.length; i++) headers[i] = { __proto__: null, name: answer.headers[i][0], value: answer.headers[i][1] };
  const { status, statusText, url, redirected, body } = answer;
  return responses.newResponse({ __proto__: null, status, statusText, url, redirected, headers, bytes: body });
};

// describeFailure returns {message, reason, code} of the text of a failure. The text ends in a code
// in brackets, and begins with the request unless that was not sent. code is undefined for a text
// without one, such as one that an earlier version recorded.
const describeFailure = (text) => {
  const at = endsWith(text, "]") ? lastIndexOf(text, " [") : -1;
  const code = at < 0 ? "" : slice(text, at + 2, -1);
  if (!startsWith(code, "E")) return { __proto__: null, message: text, reason: text, code: undefined };
  const message = slice(text, 0, at);
  let reason = startsWith(message, "fetch: ") ? slice(message, 7) : message;
  // A URL has no space.
  const url = indexOf(reason, "://");
  const end = url < 0 ? -1 : indexOf(reason, ": ", url);
  if (end >= 0 && startsWith(message, "fetch: ")) reason = slice(reason, end + 2);
  return { __proto__: null, message, reason, code };
};

// send sends a request, and calls resolve with the response, or reject. When the signal of the
// request is aborted, it calls reject with the reason. The host finishes the request anyway.
const send = (request, fail, resolve, reject) => {
  const { method, url, redirect, headers, signal, hasBody } = requests.read(request);
  const abort = signal === undefined ? undefined : platform.load("abort").signalOf(signal);
  if (abort !== undefined) {
    if (abort.aborted()) {
      reject(abort.reason());
      return;
    }
    const remove = abort.add(reject);
    const yes = resolve;
    const no = reject;
    resolve = (response) => {
      remove();
      yes(response);
    };
    reject = (reason) => {
      remove();
      no(reason);
    };
  }
  const start = (body) => {
    if (abort !== undefined && abort.aborted()) return;
    startFetch({ __proto__: null, method, url, redirect, headers: listOfPairs(headers), body }, fail, (answer) => resolve(newResponse(answer)), reject);
  };
  if (!hasBody) start(undefined);
  else then(requests.readBody(request), ({ bytes }) => start(bytes), (reason) => reject(fail("fetch: the body of the request cannot be read", reason)));
};

const { fetch } = {
  fetch(input, init = undefined) {
    // The error is made where the call is, so that its trace leads there.
    const error = hideFrames(new TypeError(""), fetch);
    const fail = function (text, cause) {
      const { message, reason, code } = describeFailure(text);
      defineHidden(error, "message", message);
      setStackHeader(error, `TypeError: ${message}`);
      if (code !== undefined) {
        cause = hideFrames(new Error(reason), fail);
        ObjectDefineProperty(cause, "code", { __proto__: null, value: code, writable: true, enumerable: true, configurable: true });
      }
      if (code !== undefined || arguments.length > 1) defineHidden(error, "cause", cause);
      return error;
    };
    if (arguments.length === 0) return rejected(fail("fetch needs a URL or a Request"));
    let request;
    try {
      request = new Request(input, init);
    } catch (refusal) {
      return rejected(refusal);
    }
    return new platform.Promise((resolve, reject) => send(request, fail, resolve, reject));
  },
};
platform.setMeta(fetch, "fetch", 1);

return { fetch };
