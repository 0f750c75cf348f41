// The body of a Request or Response: its content as bytes, or a stream that a script made.
//
// A body is {bytes, stream, used}. Bytes never change, so clones share them. A stream of them
// is made when a script asks for it.

const { TypeError, isObject, bytesOf, original, ObjectGetOwnPropertyDescriptor, ObjectDefineProperty } = platform;
const { toUSV, resolved, rejected, then } = platform.load("idl");
const { internal: blobs } = platform.load("blob");
const toLowerCase = platform.method("String.prototype", "toLowerCase");
const slice = platform.method("String.prototype", "slice");
const exec = platform.method("RegExp.prototype", "exec");
const bufferOf = platform.getter("TypedArray.prototype", "buffer");
const parseJSON = original("JSON", "parse");

const newBody = (bytes, stream) => ({ __proto__: null, bytes, stream, used: false });
const streams = () => platform.load("streams").internal;

// paramsText returns the text of a URLSearchParams, or undefined for another value.
const paramsText = (value) => {
  try {
    platform.load("url");
    return platform.method("URLSearchParams.prototype", "toString")(value);
  } catch {
    return undefined;
  }
};

// extract returns {body, type} of a BodyInit. type is undefined if the content has none.
const extract = (init) => {
  if (isObject(init)) {
    if (blobs.isBlob(init)) {
      const type = blobs.typeOf(init);
      return { __proto__: null, body: newBody(blobs.bytesOf(init)), type: type === "" ? undefined : type };
    }
    const bytes = bytesOf(init);
    if (bytes !== undefined) return { __proto__: null, body: newBody(blobs.copyBytes(bytes)), type: undefined };
    const forms = platform.load("formdata").internal;
    if (forms.isForm(init)) {
      const form = forms.serialize(init);
      return { __proto__: null, body: newBody(form.bytes), type: form.type };
    }
    const text = paramsText(init);
    if (text !== undefined) {
      return { __proto__: null, body: newBody(blobs.encodeText(text)), type: "application/x-www-form-urlencoded;charset=UTF-8" };
    }
    if (streams().isReadableStream(init)) {
      if (streams().isDisturbed(init) || streams().isLocked(init)) throw new TypeError("Response body object should not be disturbed or locked");
      return { __proto__: null, body: newBody(undefined, init), type: undefined };
    }
  }
  return { __proto__: null, body: newBody(blobs.encodeText(toUSV(init))), type: "text/plain;charset=UTF-8" };
};

const isUsed = (body) => body !== null && (body.used || (body.stream !== undefined && streams().isDisturbed(body.stream)));
const isUnusable = (body) => isUsed(body) || (body !== null && body.stream !== undefined && streams().isLocked(body.stream));

// streamOf returns the stream of a body. After it, the stream has the content.
const streamOf = (body) => {
  if (body === null) return null;
  if (body.stream === undefined) {
    body.stream = body.used ? streams().closedStream() : streams().streamOfBytes(body.bytes);
    body.bytes = undefined;
  }
  return body.stream;
};

// clone returns a body with the same content. The body must be usable.
const clone = (body) => {
  if (body === null) return null;
  if (body.stream === undefined) return newBody(body.bytes);
  const branches = streams().teeForClone(body.stream);
  body.stream = branches[0];
  return newBody(undefined, branches[1]);
};

// take moves the content of a body to a new one.
const take = (body) => {
  const taken = newBody(body.bytes, body.stream === undefined ? undefined : streams().proxyOf(body.stream));
  body.used = true;
  body.bytes = undefined;
  return taken;
};

// readAll returns a promise of the bytes of a body, which is used afterwards. They must not be
// changed, and a script must not get them.
const readAll = (body) => {
  if (body === null) return resolved(blobs.encodeText(""));
  if (isUnusable(body)) return rejected(new TypeError("Body is unusable: Body has already been read"));
  body.used = true;
  if (body.stream !== undefined) return streams().readAllBytes(body.stream);
  const { bytes } = body;
  body.bytes = undefined;
  return resolved(bytes);
};

const consume = (body, convert) => then(readAll(body), convert);

// ---- content types ------------------------------------------------------------------

const essencePattern = /^[\t\n\r ]*([!#$%&'*+\-.^_\x60|~0-9A-Za-z]+\/[!#$%&'*+\-.^_\x60|~0-9A-Za-z]+)[\t\n\r ]*(?:;|$)/;
const boundaryPattern = /;[\t\n\r ]*boundary=(?:"((?:[^"\\]|\\[\s\S])*)"|([^;]*))/i;

// contentType returns {essence, boundary, text} of the last valid Content-Type, or undefined.
const contentType = (value) => {
  if (value === null) return undefined;
  const match = exec(essencePattern, value);
  if (match === null) return undefined;
  const boundary = exec(boundaryPattern, value);
  let found;
  if (boundary !== null) found = boundary[1] === undefined ? boundary[2] : boundary[1];
  while (found !== undefined && found.length > 0 && (found[found.length - 1] === " " || found[found.length - 1] === "\t")) found = slice(found, 0, -1);
  return { __proto__: null, essence: toLowerCase(match[1]), boundary: found };
};

const notForm = () => new TypeError('Content-Type was not one of "multipart/form-data" or "application/x-www-form-urlencoded".');

// addMethods adds the members of the mixin to an interface. stateOf returns {body, type} of
// an object, where type() is its Content-Type or null, and throws for an object of another type.
const addMethods = (constructor, stateOf) => {
  const withBody = (object, convert) => {
    let state;
    try {
      state = stateOf(object);
    } catch (error) {
      return rejected(error);
    }
    return consume(state.body, (bytes) => convert(bytes, state));
  };
  const members = {
    get body() { return streamOf(stateOf(this).body); },
    get bodyUsed() { return isUsed(stateOf(this).body); },
    arrayBuffer() { return withBody(this, (bytes) => bufferOf(blobs.copyBytes(bytes))); },
    blob() {
      return withBody(this, (bytes, state) => {
        const type = state.type();
        return blobs.newBlob(bytes, contentType(type) === undefined ? "" : toLowerCase(type));
      });
    },
    bytes() { return withBody(this, (bytes) => blobs.copyBytes(bytes)); },
    formData() {
      return withBody(this, (bytes, state) => {
        const type = contentType(state.type());
        const forms = platform.load("formdata").internal;
        if (type !== undefined && type.essence === "multipart/form-data") {
          if (type.boundary === undefined || type.boundary === "") throw new TypeError("Failed to parse body as FormData.");
          return forms.parseMultipart(bytes, type.boundary);
        }
        if (type !== undefined && type.essence === "application/x-www-form-urlencoded") return forms.parseURLEncoded(bytes);
        throw notForm();
      });
    },
    json() { return withBody(this, (bytes) => parseJSON(blobs.decodeText(bytes))); },
    text() { return withBody(this, (bytes) => blobs.decodeText(bytes)); },
  };
  const names = platform.ObjectKeys(members);
  for (let i = 0; i < names.length; i++) {
    // Without its prototype, to which a script may have added a getter.
    const descriptor = platform.ObjectSetPrototypeOf(ObjectGetOwnPropertyDescriptor(members, names[i]), null);
    ObjectDefineProperty(constructor.prototype, names[i], descriptor);
  }
};

return { newBody, extract, isUsed, isUnusable, streamOf, clone, take, readAll, addMethods };
