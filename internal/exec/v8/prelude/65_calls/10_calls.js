// How calls are checked, sent and answered.

const mostInFlight = 16; // further calls wait here for their turn
const mostCalls = 1000;
const longestArguments = 1048576; // bytes of JSON

const someOf = (names) => {
  const few = newList();
  for (let i = 0; i < names.length && i < 50; i++) few[i] = names[i];
  return listJoin(few, ", ") + (names.length > few.length ? ` and ${names.length - few.length} more` : "");
};

// whyNot explains why a name cannot be called in this run. It returns undefined if it can.
const whyNot = (server, tool) => {
  const tools = MapPrototypeGet(callableServers(), server);
  if (tools === undefined) {
    const names = serverNames();
    if (names.length === 0) return `this run has no MCP server "${server}", and no other: the operator adds them, with --mcp-server`;
    return `this run has no MCP server "${server}"; it has ${someOf(names)}`;
  }
  if (listIncludes(tools, tool)) return undefined;
  if (tools.length === 0) return `MCP server "${server}" has no tools now`;
  return `MCP server "${server}" has no tool "${tool}"; it has ${someOf(tools)}`;
};

// The length of a JSON text in bytes of UTF-8. Such a text has no lone surrogates.
const jsonBytes = (text) => {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = StringPrototypeCharCodeAt(text, i);
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
  }
  return bytes;
};

const isTooLong = (text) => text.length > longestArguments || (text.length * 3 > longestArguments && jsonBytes(text) > longestArguments);

// argumentsText returns the arguments as JSON, or throws an error that explains the fault.
const argumentsText = (given, fail) => {
  if (given === undefined) return "{}";
  if (typeof given !== "object" || given === null || ArrayIsArray(given)) throw fail("arguments are one object, such as { query: \"...\" }");
  const text = JSONStringify(given);
  if (typeof text !== "string" || text[0] !== "{") throw fail("arguments are one object, and toJSON made something else of it");
  if (isTooLong(text)) throw fail("arguments are longer than 1 MiB as JSON");
  return text;
};

// The error is created where the call is, so that its trace leads there. Its message is
// set when it is known.
const callError = (server, tool, caller) => {
  const error = hideFrames(new NativeError(""), caller);
  defineHidden(error, "name", "McpError");
  return (text) => {
    const message = `${server}.${tool}: ${text}`;
    defineHidden(error, "message", message);
    setStackHeader(error, `McpError: ${message}`);
    return error;
  };
};

const sendCall = (call) => {
  if (pendingCalls === undefined) pendingCalls = new NativeMap();
  MapPrototypeSet(pendingCalls, call.number, call);
  callsInFlight++;
  host.call(call.number, call.server, call.tool, call.text);
};

// makeCall makes a call of which prepare returns the arguments as JSON, or throws. fail
// returns the error for a message. It calls resolve with the value of the answer, or reject.
const makeCall = (server, tool, prepare, fail, resolve, reject) => {
  try {
    const text = prepare();
    if (callsMade >= mostCalls) throw fail(`a run makes at most ${mostCalls} calls`);
    const call = { __proto__: null, number: ++callsMade, server, tool, text, resolve, reject, fail };
    if (callsInFlight < mostInFlight) {
      sendCall(call);
    } else {
      if (waitingCalls === undefined) waitingCalls = newList();
      waitingCalls[waitingCalls.length] = call;
    }
  } catch (error) {
    reject(error);
  }
};

const callTool = (server, tool, given, caller) => {
  const fail = callError(server, tool, caller);
  const prepare = () => {
    const reason = whyNot(server, tool);
    if (reason !== undefined) throw fail(reason);
    return argumentsText(given, fail);
  };
  return new NativePromise((resolve, reject) => makeCall(server, tool, prepare, fail, resolve, reject));
};

// startFetch sends an HTTP request. request has method, url, redirect, headers (a list of lists
// [name, value] whose characters are bytes) and body (bytes, or undefined for none). fail
// returns the error for a message. startFetch calls resolve with status, statusText, url,
// redirected, headers as in the request, and body (bytes, or undefined for none), or reject. It
// makes no promise: the methods of promises use what user code can change.
const startFetch = (request, fail, resolve, reject) => {
  const prepare = () => {
    callableServers();
    if (!mayFetch) throw fail("fetch is disabled: the operator enables it with --fetch-policy [ERR_FETCH_DISABLED]");
    if (callsMade >= mostCalls) throw fail(`fetch: a run makes at most ${mostCalls} requests and calls of tools [ERR_FETCH_CALLS]`);
    const { method, url, redirect, headers, body } = request;
    let text = JSONStringify({ __proto__: null, method, url, redirect, headers });
    if (body !== undefined) text = `${StringPrototypeSlice(text, 0, -1)},"body":${compute("encodeBody", body)}}`;
    if (isTooLong(text)) throw fail("fetch: the request is longer than 1 MiB, as JSON with its body [ERR_FETCH_TOO_LARGE]");
    return text;
  };
  makeCall(fetchServer, fetchTool, prepare, fail, (answer) => {
    let response;
    try {
      const { status, statusText, url, redirected, headers, body } = answer;
      response = { __proto__: null, status, statusText, url, redirected, headers, body: undefined };
      if (body !== null) response.body = hasOwn(body, "text") ? compute("decodeText", body.text) : compute("decodeBase64", body.base64);
    } catch {
      reject(fail("fetch: the answer is malformed [ERR_FETCH_RESPONSE]"));
      return;
    }
    resolve(response);
  }, reject);
};

const answerCall = (number, ok, text) => {
  const call = MapPrototypeGet(pendingCalls, number);
  MapPrototypeDelete(pendingCalls, number);
  callsInFlight--;
  if (waitingCalls !== undefined && waitingAt < waitingCalls.length) {
    const next = waitingCalls[waitingAt];
    waitingCalls[waitingAt++] = undefined;
    sendCall(next);
  }
  if (ok === 0) {
    call.reject(call.fail(text));
    return;
  }
  let value;
  try {
    value = JSONParse(text);
  } catch {
    call.reject(call.fail("the answer is not JSON"));
    return;
  }
  call.resolve(value);
};

return { __proto__: null, answerCall, callTool, startFetch };
