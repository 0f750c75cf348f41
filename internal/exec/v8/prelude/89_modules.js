// Modules that scripts import.
//
// The worker passes bundles: modules in the form of a function body, with what each of their
// imports names. A heap keeps the modules of all its runs, and evaluates each module when it
// is first needed. A later run that imports an evaluated module gets the same namespace
// object. All of this is plain JavaScript, so it survives a snapshot.

const NativeSyntaxError = SyntaxError;

const moduleTexts = new NativeMap(); // id -> the module of a bundle, until it is evaluated
const loadedModules = new NativeMap(); // id -> { isESM, module, namespace }
const importable = new NativeMap(); // specifier in a script -> id, of the newest run that has it
const importProblems = new NativeMap(); // specifier in a script -> why it names nothing
const namespaces = new NativeWeakMap(); // namespace object -> true

const isNamespace = (value) => WeakMapPrototypeGet(namespaces, value) === true;

const addBundle = (bundle) => {
  for (let i = 0; i < bundle.modules.length; i++) {
    const module = bundle.modules[i];
    if (hasOwn(module, "file")) addFile(moduleName(module.id), module.file, hasOwn(module, "mappings") ? module.mappings : "");
    if (MapPrototypeHas(loadedModules, module.id)) continue;
    MapPrototypeSet(moduleTexts, module.id, module);
  }
  const entries = ObjectKeys(bundle.entries);
  for (let i = 0; i < entries.length; i++) {
    MapPrototypeSet(importable, entries[i], bundle.entries[entries[i]]);
    MapPrototypeDelete(importProblems, entries[i]);
  }
  if (!hasOwn(bundle, "problems")) return;
  const problems = ObjectKeys(bundle.problems);
  for (let i = 0; i < problems.length; i++) {
    MapPrototypeSet(importProblems, problems[i], bundle.problems[problems[i]]);
    MapPrototypeDelete(importable, problems[i]);
  }
};

// moduleName returns the name of a module in stack traces. The id of a file of a run has the
// hash of all files in it; the name has eight digits of it, like the name of a script.
const moduleName = (id) => {
  const hash = StringPrototypeIndexOf(id, "#");
  return hash === -1 ? id : StringPrototypeSlice(id, 0, hash + 9);
};

const moduleError = (message, fn) => {
  const error = new NativeError(message);
  ObjectDefineProperty(error, "code", { __proto__: null, value: "ERR_MODULE_NOT_FOUND", writable: true, enumerable: true, configurable: true });
  return hideFrames(error, fn);
};

// builtinOf returns the exports of a module of the platform: an object with default and the
// names.
const builtinOf = (id, fn) => {
  const found = loadNodeModule(id);
  if (found === undefined) throw moduleError(`Cannot find module '${id}': this platform has no such module`, fn);
  return found;
};

// idOf returns the id of the module that a specifier in a script names.
const idOf = (specifier, fn) => {
  const id = MapPrototypeGet(importable, specifier);
  if (id !== undefined) return id;
  const problem = MapPrototypeGet(importProblems, specifier);
  if (problem !== undefined) throw moduleError(`Cannot find module '${specifier}': ${problem}`, fn);
  throw moduleError(`Cannot find module '${specifier}': only modules whose names are constants in the script, in import statements or import("NAME"), are loaded`, fn);
};

// provides reports whether an evaluated module has an export. Each module of CommonJS has default.
const provides = ({ isESM, module: { exports } }, name) => (name === "default" && !isESM) || (isObject(exports) && hasOwn(exports, name));

// needsDefault reports whether an evaluated module of CommonJS says that it was converted from
// ESM, and exports no default. What imports its default gets its exports.
const needsDefault = ({ isESM, module: { exports, loaded } }) => !isESM && loaded && isObject(exports) && !!exports.__esModule && !hasOwn(exports, "default");

// withDefault returns an object that has the properties of exports, and exports as default.
const withDefault = (exports) => {
  const all = ObjectCreate(exports);
  const names = ObjectKeys(exports);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    ObjectDefineProperty(all, name, { __proto__: null, get: () => exports[name], enumerable: true, configurable: true });
  }
  return ObjectDefineProperty(all, "default", { __proto__: null, get: () => exports, enumerable: true, configurable: true });
};

const missingExport = (specifier, name) => new NativeSyntaxError(`The requested module '${specifier}' does not provide an export named '${name}'`);

const newRequire = (id, text) => {
  const require = (specifier) => {
    specifier = NativeString(specifier);
    const target = hasOwn(text, "imports") && hasOwn(text.imports, specifier) ? text.imports[specifier] : undefined;
    if (target !== undefined) {
      const loaded = loadModule(StringPrototypeStartsWith(target, "entry:") ? idOf(StringPrototypeSlice(target, 6), require) : target, require);
      // The exports of a module that imports this one while it is evaluated are not complete.
      if (hasOwn(text, "names") && hasOwn(text.names, specifier) && loaded.module.loaded) {
        const names = text.names[specifier];
        for (let i = 0; i < names.length; i++) {
          if (!provides(loaded, names[i])) throw hideFrames(missingExport(specifier, names[i]), require);
        }
      }
      if (needsDefault(loaded) && hasOwn(text, "names") && hasOwn(text.names, specifier) && listIncludes(text.names[specifier], "default")) {
        return withDefault(loaded.module.exports);
      }
      return StringPrototypeStartsWith(target, "node:") ? loaded.module.exports.default : loaded.module.exports;
    }
    if (hasOwn(text, "problems") && hasOwn(text.problems, specifier)) throw moduleError(`Cannot find module '${specifier}': ${text.problems[specifier]}`, require);
    throw moduleError(`Cannot find module '${specifier}' in ${moduleName(id)}: only modules whose names are constants in the code are loaded`, require);
  };
  return require;
};

// loadModule returns a module that was evaluated, or is being evaluated and imports itself
// through others. If a module throws, the next import evaluates it again.
const loadModule = (id, fn) => {
  if (StringPrototypeStartsWith(id, "node:")) {
    return { __proto__: null, isESM: true, module: { __proto__: null, exports: builtinOf(id, fn), loaded: true }, namespace: undefined };
  }
  const known = MapPrototypeGet(loadedModules, id);
  if (known !== undefined) return known;
  const text = MapPrototypeGet(moduleTexts, id);
  if (text === undefined) throw moduleError(`Cannot find module '${id}'`, fn);
  const module = { exports: {}, id, loaded: false };
  const loaded = { __proto__: null, isESM: hasOwn(text, "esm"), module, namespace: undefined };
  MapPrototypeSet(loadedModules, id, loaded);
  try {
    if (hasOwn(text, "json")) {
      module.exports = JSONParse(text.code);
    } else {
      const body = host.compile(moduleName(id), `(function (exports, require, module) {\n${text.code}\n})`);
      ReflectApply(body, loaded.isESM ? undefined : module.exports, [module.exports, newRequire(id, text), module]);
    }
    module.loaded = true;
  } catch (error) {
    MapPrototypeDelete(loadedModules, id);
    throw error;
  }
  // The functions of the module keep its source. What require needs is kept by its closure.
  delete text.code;
  MapPrototypeDelete(moduleTexts, id);
  return loaded;
};

// namespaceOf returns the namespace object of a module: of a CommonJS module it has
// module.exports as default, and the properties of module.exports.
const namespaceOf = (loaded) => {
  if (loaded.namespace !== undefined) return loaded.namespace;
  const namespace = ObjectCreate(null);
  const { module, isESM } = loaded;
  const define = (name, get) => {
    ObjectDefineProperty(namespace, name, { __proto__: null, get, enumerable: true, configurable: false });
  };
  const { exports } = module;
  const names = toList(isObject(exports) ? ObjectKeys(exports) : []);
  const marked = isObject(exports) && "__esModule" in exports && !!exports.__esModule;
  if (!isESM && !(marked && listIncludes(names, "default"))) {
    define("default", () => exports);
  }
  ArrayPrototypeSort(names);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    if (!hasOwn(namespace, name)) define(name, () => exports[name]);
  }
  setTag(namespace, "Module");
  ObjectFreeze(namespace);
  WeakMapPrototypeSet(namespaces, namespace, true);
  loaded.namespace = namespace;
  return namespace;
};

const builtinNamespaces = new NativeMap(); // id -> namespace

const importNamespace = (specifier, fn) => {
  const id = idOf(specifier, fn);
  if (!StringPrototypeStartsWith(id, "node:")) return namespaceOf(loadModule(id, fn));
  let namespace = MapPrototypeGet(builtinNamespaces, id);
  if (namespace === undefined) {
    namespace = namespaceOf(loadModule(id, fn));
    MapPrototypeSet(builtinNamespaces, id, namespace);
  }
  return namespace;
};

// importModule is import(specifier). Awaiting a primitive reads no object's constructor.
const importModule = async (specifier) => {
  await undefined;
  return importNamespace(specifier, importModule);
};

// loadModules adds the bundles of a run and evaluates what its import statements name, in
// their order. It returns the values of the names that they bind.
const loadModules = (plan) => {
  for (let i = 0; i < plan.bundles.length; i++) addBundle(plan.bundles[i]);
  const values = newList();
  for (let i = 0; i < plan.imports.length; i++) {
    const { specifier, names } = plan.imports[i];
    const namespace = importNamespace(specifier, loadModules);
    for (let n = 0; n < names.length; n++) {
      const name = names[n];
      if (name !== "*" && !hasOwn(namespace, name)) {
        throw hideFrames(missingExport(specifier, name), loadModules);
      }
      values[values.length] = name === "*" ? namespace : namespace[name];
    }
  }
  return values;
};
