// The run that declared a top-level name. The engine reports only that a name is taken.

const declaredBy = new NativeMap(); // name -> script
let namesNoted = 0; // the engine lists names in the order of their declaration

const noteNames = (names) => {
  for (let i = namesNoted; i < names.length; i++) MapPrototypeSet(declaredBy, names[i], scriptName);
  namesNoted = names.length;
};

const nameTaken = /^SyntaxError: Identifier '(.+)' has already been declared(?=\n|$)/;

// explainSyntaxError adds advice if an earlier run took a name. Within one script the
// engine's message is enough.
const explainSyntaxError = (text) => {
  const match = RegExpPrototypeExec(nameTaken, text);
  if (match === null) return text;
  const name = match[1];
  const rest = StringPrototypeSlice(text, match[0].length); // frames
  const by = MapPrototypeGet(declaredBy, name);
  if (by !== undefined) {
    return `${match[0]}; an earlier run${by === "" ? "" : ` (${by})`} declared it: assign to it without a keyword, declare it once and with the same keyword as there, or use another name${rest}`;
  }
  if (!hasOwn(global, name)) return text;
  return `${match[0]}; it is a global that an earlier run declared with var or function, or a built-in one: assign to it without a keyword, or use another name${rest}`;
};
