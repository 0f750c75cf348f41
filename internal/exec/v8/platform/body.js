// The body of a Request or Response: its content as bytes, or a stream that a script made.
//
// A body is {bytes, stream, used}. Bytes never change, so clones share them. A stream of them
// is made when a script asks for it.

const { TypeError, isObject, bytesOf, original, ObjectGetOwnPropertyDescriptor, ObjectDefineProperty } = platform;
const { toUSVString } = platform.load("webidl");
const { resolved, rejected, then } = platform.load("promises");
const { internal: blobs } = platform.load("blob");
const toLowerCase = platform.method("String.prototype", "toLowerCase");
const bufferOf = platform.getter("TypedArray.prototype", "buffer");
const parseJSON = original("JSON", "parse");

const newBody = (bytes, stream) => ({ __proto__: null, bytes, stream, used: false });
const streams = () => platform.load("streams").internal;

const contentOf = (body, type) => ({ __proto__: null, body, type });

const extractBlob = (blob) => {
  const type = blobs.typeOf(blob);
  return contentOf(newBody(blobs.bytesOf(blob)), type === "" ? undefined : type);
};

const extractForm = (form) => {
  const { bytes, type } = platform.load("formdata").internal.serialize(form);
  return contentOf(newBody(bytes), type);
};

const extractParams = (params) => {
  const { paramsState, serializeQuery } = platform.load("url");
  return contentOf(newBody(blobs.encodeText(serializeQuery(paramsState(params).list))), "application/x-www-form-urlencoded;charset=UTF-8");
};

const extractStream = (stream) => {
  if (streams().isDisturbed(stream) || streams().isLocked(stream)) throw new TypeError("Response body object should not be disturbed or locked");
  return contentOf(newBody(undefined, stream), undefined);
};

// convert converts a value as the union BodyInit of Web IDL does, which may call the value's
// toString. It returns a function that extracts {body, type}; type is undefined if the content
// has none. The constructors convert all their arguments before they extract the content.
const convert = (value) => {
  if (isObject(value)) {
    if (blobs.isBlob(value)) return () => extractBlob(value);
    if (bytesOf(value) !== undefined) return () => contentOf(newBody(blobs.copyBytes(bytesOf(value))), undefined);
    if (platform.load("formdata").internal.isForm(value)) return () => extractForm(value);
    if (platform.load("url").isParams(value)) return () => extractParams(value);
    if (streams().isReadableStream(value)) return () => extractStream(value);
  }
  const text = toUSVString(value);
  return () => extractText(text);
};

const extractText = (text) => contentOf(newBody(blobs.encodeText(text)), "text/plain;charset=UTF-8");

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

// readAll returns a promise of {bytes} of a body, which is used afterwards. The bytes must not be
// changed, and a script must not get them: a promise reads then of its value, which a script may
// have defined for all Uint8Arrays.
const readAll = (body) => {
  if (body === null) return resolved({ __proto__: null, bytes: blobs.encodeText("") });
  if (isUnusable(body)) return rejected(new TypeError("Body is unusable: Body has already been read"));
  body.used = true;
  if (body.stream !== undefined) return streams().readAllBytes(body.stream);
  const { bytes } = body;
  body.bytes = undefined;
  return resolved({ __proto__: null, bytes });
};

// ---- the members of the mixin -------------------------------------------------------

// typeFrom returns the MIME type of a Content-Type header, which may be null, or undefined.
const typeFrom = (header) => (header === null ? undefined : platform.load("mimetype").extract(header));

const notForm = () => new TypeError('Content-Type was not one of "multipart/form-data" or "application/x-www-form-urlencoded".');

// addMethods adds the members of the mixin to an interface. stateOf returns {body, type} of
// an object, where type() is its Content-Type or null, and throws for an object of another type.
const addMethods = (constructor, stateOf) => {
  const withBody = (object, use) => {
    let state;
    try {
      state = stateOf(object);
    } catch (error) {
      return rejected(error);
    }
    return then(readAll(state.body), ({ bytes }) => use(bytes, state));
  };
  const members = {
    get body() { return streamOf(stateOf(this).body); },
    get bodyUsed() { return isUsed(stateOf(this).body); },
    arrayBuffer() { return withBody(this, (bytes) => bufferOf(blobs.copyBytes(bytes))); },
    blob() {
      return withBody(this, (bytes, state) => {
        const type = typeFrom(state.type());
        return blobs.newBlob(bytes, type === undefined ? "" : toLowerCase(platform.load("mimetype").serialize(type)));
      });
    },
    bytes() { return withBody(this, (bytes) => blobs.copyBytes(bytes)); },
    formData() {
      return withBody(this, (bytes, state) => {
        const type = typeFrom(state.type());
        const forms = platform.load("formdata").internal;
        if (type !== undefined && type.essence === "multipart/form-data") {
          const boundary = platform.load("mimetype").paramOf(type, "boundary");
          if (boundary === undefined || boundary === "") throw new TypeError("Failed to parse body as FormData.");
          return forms.parseMultipart(bytes, boundary);
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

return { newBody, convert, extractText, isUsed, isUnusable, streamOf, clone, take, readAll, addMethods };
