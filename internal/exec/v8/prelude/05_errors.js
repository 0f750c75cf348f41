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
  const names = newList();
  const add = (code, name, constant) => { names[names.length] = { code, name, constant }; };
  add(1, "IndexSizeError", "INDEX_SIZE_ERR");
  add(3, "HierarchyRequestError", "HIERARCHY_REQUEST_ERR");
  add(4, "WrongDocumentError", "WRONG_DOCUMENT_ERR");
  add(5, "InvalidCharacterError", "INVALID_CHARACTER_ERR");
  add(7, "NoModificationAllowedError", "NO_MODIFICATION_ALLOWED_ERR");
  add(8, "NotFoundError", "NOT_FOUND_ERR");
  add(9, "NotSupportedError", "NOT_SUPPORTED_ERR");
  add(11, "InvalidStateError", "INVALID_STATE_ERR");
  add(12, "SyntaxError", "SYNTAX_ERR");
  add(13, "InvalidModificationError", "INVALID_MODIFICATION_ERR");
  add(15, "InvalidAccessError", "INVALID_ACCESS_ERR");
  add(17, "TypeMismatchError", "TYPE_MISMATCH_ERR");
  add(18, "SecurityError", "SECURITY_ERR");
  add(19, "NetworkError", "NETWORK_ERR");
  add(20, "AbortError", "ABORT_ERR");
  add(22, "QuotaExceededError", "QUOTA_EXCEEDED_ERR");
  add(23, "TimeoutError", "TIMEOUT_ERR");
  add(25, "DataCloneError", "DATA_CLONE_ERR");

  class DOMException extends NativeError {
    #name;
    constructor(message = "", name = "Error") {
      super(`${message}`);
      this.#name = `${name}`;
      hideFrames(this, new.target); // again, now that the header can read the name
    }
    get name() { return this.#name; }
    get code() {
      for (let i = 0; i < names.length; i++) if (names[i].name === this.#name) return names[i].code;
      return 0;
    }
  }
  setTag(DOMException.prototype, "DOMException");
  setMeta(DOMException, "DOMException", 0);
  for (let i = 0; i < names.length; i++) {
    const constant = { __proto__: null, value: names[i].code, enumerable: true };
    ObjectDefineProperty(DOMException, names[i].constant, constant);
    ObjectDefineProperty(DOMException.prototype, names[i].constant, constant);
  }
  return DOMException;
})();
defineHidden(global, "DOMException", DOMExceptionClass);

const domError = (name, message, fn) => {
  const error = new DOMExceptionClass(message, name);
  return fn === undefined ? error : hideFrames(error, fn);
};
