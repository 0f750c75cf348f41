// Errors that the prelude throws into user code, with Node's texts.

// In V8's snapshot isolates the property is missing, and without it err.stack is undefined.
if (!hasOwn(NativeError, "stackTraceLimit")) {
  ObjectDefineProperty(NativeError, "stackTraceLimit", {
    __proto__: null, value: 10, writable: true, enumerable: true, configurable: true,
  });
}

// hideFrames removes the prelude's own frames: the trace starts at the caller of fn.
const hideFrames = (error, fn) => {
  ErrorCaptureStackTrace(error, fn);
  return error;
};

// codedError returns an error whose stack starts with "TypeError [CODE]: message" while
// its name stays plain, as in Node.
const codedError = (Base, code, message, fn) => {
  const error = new Base(message);
  const name = Base === NativeTypeError ? "TypeError" : "RangeError";
  defineHidden(error, "name", `${name} [${code}]`);
  hideFrames(error, fn);
  void error.stack; // the header is fixed when the trace is first read
  delete error.name;
  ObjectDefineProperty(error, "code", {
    __proto__: null, value: code, writable: true, enumerable: true, configurable: true,
  });
  return error;
};

// describeReceived returns the "Received ..." part of the message of ERR_INVALID_ARG_TYPE.
const describeReceived = (value) => {
  if (value === null) return " Received null";
  if (value === undefined) return " Received undefined";
  if (typeof value === "function") {
    const name = value.name;
    return typeof name === "string" && name !== "" ? ` Received function ${name}` : " Received function ";
  }
  if (typeof value === "object") {
    const constructor = value.constructor;
    const name = constructor === undefined || constructor === null ? "" : constructor.name;
    if (typeof name === "string" && name !== "") return ` Received an instance of ${name}`;
    return ` Received ${inspectWith(value, { __proto__: null, depth: -1 })}`;
  }
  let text = inspectWith(value, { __proto__: null });
  if (text.length > 28) text = `${StringPrototypeSlice(text, 0, 25)}...`;
  return ` Received type ${typeof value} (${text})`;
};

const invalidArgument = (name, expected, value, fn) =>
  codedError(NativeTypeError, "ERR_INVALID_ARG_TYPE", `The "${name}" argument must be ${expected}.${describeReceived(value)}`, fn);

const requireFunction = (value, name, fn) => {
  if (typeof value !== "function") throw invalidArgument(name, "of type function", value, fn);
};

// DOMException is the class of the errors of web globals (crypto, atob, structuredClone).
const DOMExceptionClass = (() => {
  // code, name and constant of each
  const table = "1 IndexSizeError INDEX_SIZE_ERR 3 HierarchyRequestError HIERARCHY_REQUEST_ERR 4 WrongDocumentError WRONG_DOCUMENT_ERR 5 InvalidCharacterError INVALID_CHARACTER_ERR 7 NoModificationAllowedError NO_MODIFICATION_ALLOWED_ERR 8 NotFoundError NOT_FOUND_ERR 9 NotSupportedError NOT_SUPPORTED_ERR 11 InvalidStateError INVALID_STATE_ERR 12 SyntaxError SYNTAX_ERR 13 InvalidModificationError INVALID_MODIFICATION_ERR 15 InvalidAccessError INVALID_ACCESS_ERR 17 TypeMismatchError TYPE_MISMATCH_ERR 18 SecurityError SECURITY_ERR 19 NetworkError NETWORK_ERR 20 AbortError ABORT_ERR 22 QuotaExceededError QUOTA_EXCEEDED_ERR 23 TimeoutError TIMEOUT_ERR 25 DataCloneError DATA_CLONE_ERR";
  class DOMException extends NativeError {
    #name;
    constructor(message = "", name = "Error") {
      super(`${message}`);
      this.#name = `${name}`;
      hideFrames(this, new.target); // again, now that the header can read the name
    }
    get name() { return this.#name; }
    get code() {
      const fields = splitText(table, " ");
      for (let i = 0; i < fields.length; i += 3) if (fields[i + 1] === this.#name) return +fields[i];
      return 0;
    }
  }
  setTag(DOMException.prototype, "DOMException");
  setMeta(DOMException, "DOMException", 0);
  const fields = splitText(table, " ");
  for (let i = 0; i < fields.length; i += 3) {
    const constant = { __proto__: null, value: +fields[i], enumerable: true };
    ObjectDefineProperty(DOMException, fields[i + 2], constant);
    ObjectDefineProperty(DOMException.prototype, fields[i + 2], constant);
  }
  return DOMException;
})();
defineHidden(global, "DOMException", DOMExceptionClass);

const domError = (name, message, fn) => {
  const error = new DOMExceptionClass(message, name);
  return fn === undefined ? error : hideFrames(error, fn);
};
