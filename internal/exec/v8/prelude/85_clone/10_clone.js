// structuredClone: the structured serialization of the HTML standard, in one pass from
// value to copy.
//
// Internal slots determine the kind of a value. Own enumerable properties are read, so
// getters run, as the standard requires. No other user code runs.


// The engine's objects: user code may have replaced those that are properties.
const engineValue = (path, key) => {
  const found = recording().findOriginal(path, key);
  return found === undefined ? undefined : found.value;
};

const cloneMessage = (() => {
  const { objectAt } = recording();
  const NativeRegExp = engineValue("globalThis", "RegExp");
  const views = ObjectCreate(null);
  const viewNames = [
    "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
    "BigInt64Array", "BigUint64Array", "Float16Array", "Float32Array", "Float64Array", "DataView",
  ];
  for (let i = 0; i < viewNames.length; i++) views[viewNames[i]] = engineValue("globalThis", viewNames[i]);
  const bytesPerElement = (View) => (View === views.DataView ? 1 : View.BYTES_PER_ELEMENT);
  const elementBytes = ObjectCreate(null);
  for (const name in views) if (views[name] !== undefined) elementBytes[name] = bytesPerElement(views[name]);

  const errors = ObjectCreate(null);
  const errorNames = ["Error", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError"];
  for (let i = 0; i < errorNames.length; i++) errors[errorNames[i]] = engineValue("globalThis", errorNames[i]).prototype;

  // Objects with internal state but no kind of their own. A plain object can have such a
  // prototype only if user code sets it deliberately.
  const iterators = newList();
  iterators[0] = objectAt("ArrayIterator.prototype");
  iterators[1] = objectAt("StringIterator.prototype");
  iterators[2] = objectAt("RegExpStringIterator.prototype");
  const neverRegistered = ObjectCreate(null); // a token
  const isRegistry = (value) => {
    if (ObjectGetPrototypeOf(value) === ObjectPrototype) return false; // nearly always
    try {
      registryUnregister(value, neverRegistered);
      return true;
    } catch {
      return false;
    }
  };

  const refuse = (value) => {
    let text;
    if (typeof value === "symbol") text = SymbolPrototypeToString(value);
    else if (typeof value === "function" && host.kindOf(value) !== "proxy") text = FunctionPrototypeToString(value);
    else if (host.kindOf(value) === "proxy") text = "#<Object>";
    else text = `#<${host.constructorName(value)}>`;
    return domError("DataCloneError", `${text} could not be cloned.`, structuredClone);
  };

  const copyBuffer = (buffer) => {
    if (isDetached(buffer)) throw domError("DataCloneError", "An ArrayBuffer is detached and could not be cloned.", structuredClone);
    const length = ArrayBufferPrototypeGetByteLength(buffer);
    const copy = bufferIsResizable(buffer)
      ? new NativeArrayBuffer(length, { __proto__: null, maxByteLength: bufferMaxByteLength(buffer) })
      : new NativeArrayBuffer(length);
    TypedArrayPrototypeSet(new NativeUint8Array(copy), new NativeUint8Array(buffer));
    return copy;
  };

  const regExpFlags = (value) => {
    let flags = "";
    for (let i = 0; i < regExpFlagGetters.length; i++) {
      if (regExpFlagGetters[i].get(value)) flags += regExpFlagGetters[i].letter;
    }
    return flags;
  };

  const setField = (object, key, value) => {
    ObjectDefineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  };

  const copyView = (value, name, seen) => {
    const isDataView = name === "DataView";
    const buffer = isDataView ? DataViewPrototypeGetBuffer(value) : TypedArrayPrototypeGetBuffer(value);
    const copy = clone(buffer, seen); // refuses a detached buffer before its views are read
    const offset = isDataView ? DataViewPrototypeGetByteOffset(value) : TypedArrayPrototypeGetByteOffset(value);
    const size = isDataView ? DataViewPrototypeGetByteLength(value) : TypedArrayPrototypeGetByteLength(value);
    return ReflectConstruct(views[name], [copy, offset, size / elementBytes[name]]);
  };

  const copyError = (value, seen) => {
    let { name } = value;
    name = name === undefined ? "Error" : `${name}`;
    const copy = new NativeError();
    ObjectSetPrototypeOf(copy, errors[name] === undefined ? errors.Error : errors[name]);
    MapPrototypeSet(seen, value, copy);
    const message = ObjectGetOwnPropertyDescriptor(value, "message");
    if (message !== undefined && hasOwn(message, "value")) defineHidden(copy, "message", `${message.value}`);
    const { stack } = value;
    defineHidden(copy, "stack", typeof stack === "string" ? stack : undefined);
    const cause = ObjectGetOwnPropertyDescriptor(value, "cause");
    if (cause !== undefined && hasOwn(cause, "value")) defineHidden(copy, "cause", clone(cause.value, seen));
    return copy;
  };

  // Entries are listed before the first one is cloned, because cloning may run getters that
  // change the collection.
  const copyMap = (value, copy, seen) => {
    const entries = newList();
    const iterator = MapPrototypeEntries(value);
    for (let step = MapIteratorPrototypeNext(iterator); !step.done; step = MapIteratorPrototypeNext(iterator)) {
      entries[entries.length] = step.value;
    }
    for (let i = 0; i < entries.length; i++) {
      const key = clone(entries[i][0], seen);
      MapPrototypeSet(copy, key, clone(entries[i][1], seen));
    }
  };

  const copySet = (value, copy, seen) => {
    const members = newList();
    const iterator = SetPrototypeValues(value);
    for (let step = SetIteratorPrototypeNext(iterator); !step.done; step = SetIteratorPrototypeNext(iterator)) {
      members[members.length] = step.value;
    }
    for (let i = 0; i < members.length; i++) SetPrototypeAdd(copy, clone(members[i], seen));
  };

  const copyFields = (value, copy, seen) => {
    const keys = ObjectKeys(value);
    for (let i = 0; i < keys.length; i++) {
      // A getter that ran before may have removed the property.
      if (hasOwn(value, keys[i])) setField(copy, keys[i], clone(value[keys[i]], seen));
    }
  };

  const clone = (value, seen) => {
    const type = typeof value;
    if (type === "symbol" || type === "function") throw refuse(value);
    if (type !== "object" || value === null) return value;
    const known = MapPrototypeGet(seen, value);
    if (known !== undefined) return known;

    let copy;
    const kind = host.kindOf(value);
    switch (kind) {
      case "boxedNumber": copy = NativeObject(NumberPrototypeValueOf(value)); break;
      case "boxedString": copy = NativeObject(StringPrototypeValueOf(value)); break;
      case "boxedBoolean": copy = NativeObject(BooleanPrototypeValueOf(value)); break;
      case "boxedBigInt": copy = NativeObject(BigIntPrototypeValueOf(value)); break;
      case "date": copy = new NativeDate(DatePrototypeGetTime(value)); break;
      case "regexp": copy = new NativeRegExp(RegExpPrototypeGetSource(value), regExpFlags(value)); break;
      case "arrayBuffer": copy = copyBuffer(value); break;
      case "typedArray": copy = copyView(value, TypedArrayPrototypeGetName(value), seen); break;
      case "dataView": copy = copyView(value, "DataView", seen); break;
      case "error": return copyError(value, seen);
      case "map":
      case "set":
        copy = kind === "map" ? new NativeMap() : new NativeSet();
        MapPrototypeSet(seen, value, copy);
        if (kind === "map") copyMap(value, copy, seen);
        else copySet(value, copy, seen);
        return copy;
      case "array":
      case "object":
        if (kind === "object" && cloneables.length > 0) {
          const own = findCloneable(value);
          if (own !== undefined) {
            if (own.clone === undefined) throw refuse(value);
            copy = own.clone();
            break;
          }
        }
        if (kind === "object" && (listIncludes(iterators, ObjectGetPrototypeOf(value)) || isRegistry(value))) throw refuse(value);
        copy = kind === "array" ? [] : {};
        if (kind === "array") copy.length = value.length;
        MapPrototypeSet(seen, value, copy);
        copyFields(value, copy, seen);
        return copy;
      default:
        throw refuse(value);
    }
    MapPrototypeSet(seen, value, copy);
    return copy;
  };

  // transferList reads the sequence of an options object with the iteration protocol.
  const transferList = (options, check) => {
    const list = newList();
    if (options === undefined || options === null) return list;
    const given = options.transfer;
    if (given === undefined || given === null) return list;
    const method = given[SymbolIterator];
    if (typeof method !== "function") throw invalidArgument("transfer", "an iterable", given, structuredClone);
    const iterator = ReflectApply(method, given, []);
    const { next } = iterator;
    for (let step = ReflectApply(next, iterator, []); !step.done; step = ReflectApply(next, iterator, [])) {
      const buffer = step.value;
      check(buffer);
      const own = isObject(buffer) ? findCloneable(buffer) : undefined;
      if (own !== undefined && own.transfer !== undefined) {
        if (listIncludes(list, buffer)) throw domError("DataCloneError", "Transfer list contains duplicate MessagePort", structuredClone);
        list[list.length] = buffer;
        continue;
      }
      if (host.kindOf(buffer) !== "arrayBuffer") {
        throw codedError(NativeTypeError, "ERR_INVALID_TRANSFER_OBJECT", "Found invalid object in transferList", structuredClone);
      }
      if (listIncludes(list, buffer)) throw domError("DataCloneError", "Transfer list contains duplicate ArrayBuffer", structuredClone);
      if (isDetached(buffer)) throw domError("DataCloneError", "An ArrayBuffer is detached and could not be cloned.", structuredClone);
      list[list.length] = buffer;
    }
    return list;
  };

  return (value, options, check) => {
    const transfers = transferList(options, check);
    const seen = new NativeMap();
    const transferred = newList();
    const commits = newList();
    // A transferred buffer is copied first and detached last. If a value in between cannot be
    // cloned, the caller's buffers are unchanged.
    for (let i = 0; i < transfers.length; i++) {
      const own = findCloneable(transfers[i]);
      if (own === undefined) {
        transferred[i] = copyBuffer(transfers[i]);
      } else {
        const { object, commit } = own.transfer();
        transferred[i] = object;
        commits[commits.length] = commit;
      }
      MapPrototypeSet(seen, transfers[i], transferred[i]);
    }
    const copy = clone(value, seen);
    for (let i = 0; i < transfers.length; i++) {
      const from = transfers[i];
      if (host.kindOf(from) !== "arrayBuffer") continue;
      const to = transferred[i];
      // A getter that ran in between may have written to it.
      if (!isDetached(from) && ArrayBufferPrototypeGetByteLength(from) === ArrayBufferPrototypeGetByteLength(to)) {
        TypedArrayPrototypeSet(new NativeUint8Array(to), new NativeUint8Array(from));
      }
      ArrayBufferPrototypeTransfer(from);
    }
    for (let i = 0; i < commits.length; i++) commits[i]();
    return { __proto__: null, value: copy, transferred };
  };
})();

return { __proto__: null, cloneMessage };
