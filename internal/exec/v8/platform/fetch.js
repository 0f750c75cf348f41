// fetch of the Fetch standard. The host sends the request, if its policy allows that, and follows
// redirects: see startFetch.
//
// There is no cache, no origin and no credentials of a user: the members cache, mode,
// credentials, referrer and integrity of a request have no effect.

const { TypeError, newList, hideFrames, setStackHeader, defineHidden, startFetch } = platform;
const { Request, internal: requests } = platform.load("request");
const { internal: responses } = platform.load("response");
const { then } = platform.load("promises");
const startsWith = platform.method("String.prototype", "startsWith");

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
  else then(requests.readBody(request), ({ bytes }) => start(bytes), reject);
};

const { fetch } = {
  fetch(input, init = undefined) {
    // The error is made where the call is, so that its trace leads there.
    const error = hideFrames(new TypeError(""), fetch);
    const fail = (message) => {
      defineHidden(error, "message", message);
      setStackHeader(error, `TypeError: ${message}`);
      return error;
    };
    return new platform.Promise((resolve, reject) => {
      if (arguments.length === 0) throw fail("fetch needs a URL or a Request");
      send(new Request(input, init), fail, resolve, reject);
    });
  },
};
platform.setMeta(fetch, "fetch", 1);

return { fetch };
