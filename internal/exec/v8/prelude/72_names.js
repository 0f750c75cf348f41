// Which run declared a top-level name. The engine only says that a name is taken.

const declaredBy = new NativeMap(); // name -> script
let namesNoted = 0; // the engine lists names in the order of their declaration

const noteNames = (names) => {
  for (let i = namesNoted; i < names.length; i++) MapPrototypeSet(declaredBy, names[i], scriptName);
  namesNoted = names.length;
};

const nameTaken = /^SyntaxError: Identifier '(.+)' has already been declared(?=\n|$)/;

// explainSyntaxError says how to go on when a name is taken by an earlier run. Within
// one script the engine's words are enough.
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
