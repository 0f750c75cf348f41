// What the rest of the prelude uses of the group inspect, which writes values as text, and what
// user code can keep of it: such objects must not lead to the group.

const inspecting = lazily(evaluateInspect);

const inspectCustom = SymbolFor("nodejs.util.inspect.custom");

const plainStyle = { stylize(text) { return text; } }.stylize;

const inspectWith = (value, options) => inspecting().inspectWith(value, options);

// publicInspect is the third argument of custom inspection functions.
const publicInspect = { inspect(value, options) {
  if (typeof options === "boolean") {
    const depth = arguments[2];
    return inspectWith(value, depth === undefined ? { __proto__: null, showHidden: options } : { __proto__: null, showHidden: options, depth });
  }
  return inspectWith(value, options);
} }.inspect;
ObjectDefineProperty(publicInspect, "custom", { __proto__: null, value: inspectCustom, enumerable: true });

// formatArguments is util.format.
const formatArguments = (args, options) => inspecting().formatArguments(args, options);

// classNameOf returns the name of the class of an object.
const classNameOf = (value) => inspecting().constructorName(value, inspecting().newContext(), 0);
