// Properties whose values are made when a script first reads them. Until then they are accessors.

// defineLazily defines the property name of object. Its value is what load(name) returns.
const defineLazily = (object, name, load) => {
  const accessors = {
    get lazy() {
      const value = load(name);
      // User code may have replaced the accessor, or frozen the object.
      const descriptor = ObjectGetOwnPropertyDescriptor(object, name);
      if (descriptor !== undefined && descriptor.get === get && descriptor.configurable) defineHidden(object, name, value);
      return value;
    },
    set lazy(value) {
      const target = isObject(this) ? this : object; // an assignment to a bare name has no receiver
      ObjectDefineProperty(target, name, { __proto__: null, value, writable: true, enumerable: target !== object, configurable: true });
    },
  };
  const { get, set } = ObjectGetOwnPropertyDescriptor(accessors, "lazy");
  ObjectDefineProperty(object, name, { __proto__: null, get, set, enumerable: false, configurable: true });
};

// isLoaded reports whether a property is what the accessor of a lazy property defined.
const isLoaded = (object, key, descriptor) => {
  if (typeof key !== "string" || !hasOwn(descriptor, "value") || !descriptor.writable || !descriptor.configurable || descriptor.enumerable) return false;
  if (object === global) return key in partOfGlobal && partOfGlobal[key] in loadedParts && descriptor.value === loadedParts[partOfGlobal[key]][key];
  return object === intlObject && intlShims !== undefined && key in intlShims && descriptor.value === intlShims[key];
};
