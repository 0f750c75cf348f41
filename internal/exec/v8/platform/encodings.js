// The encodings of text besides UTF-8, for TextDecoder.
//
// A state is {pending, mode, started}: the bytes that wait for the rest of a character, what earlier
// bytes of ISO-2022-JP say about later ones, and whether there was any text.

const { compute, Uint8Array } = platform;
const toLowerCase = platform.method("String.prototype", "toLowerCase");
const slice = platform.method("String.prototype", "slice");
const indexOf = platform.method("String.prototype", "indexOf");
const charCodeAt = platform.method("String.prototype", "charCodeAt");
const setBytes = platform.method("TypedArray.prototype", "set");
const lengthOf = platform.getter("TypedArray.prototype", "length");
const bufferOf = platform.getter("TypedArray.prototype", "buffer");

const isSpace = (code) => code === 9 || code === 10 || code === 12 || code === 13 || code === 32;

// nameOf returns the name of the encoding with a label, or undefined.
const nameOf = (label) => {
  let start = 0;
  let end = label.length;
  while (start < end && isSpace(charCodeAt(label, start))) start++;
  while (end > start && isSpace(charCodeAt(label, end - 1))) end--;
  for (let i = start; i < end; i++) {
    const code = charCodeAt(label, i);
    if (code < 33 || code > 126) return undefined;
  }
  const name = compute("encodingName", toLowerCase(slice(label, start, end)));
  return name === "" ? undefined : name;
};

const newState = () => ({ __proto__: null, pending: new Uint8Array(0), mode: "", started: false });

// decode returns the text that bytes add, and whether some of the bytes have no meaning, as
// {text, damaged}. The bytes must not be of a script.
const decode = (name, state, bytes, last, keepBOM) => {
  const before = lengthOf(state.pending);
  const input = new Uint8Array(before + lengthOf(bytes));
  setBytes(input, state.pending);
  setBytes(input, bytes, before);
  const hasModes = name === "iso-2022-jp";
  const result = hasModes ? compute("decodeISO2022JP", state.mode, last ? "last" : "", input) : compute("decodeWithTable", name, last ? "last" : "", input);
  const end = indexOf(result, "\n");
  const damaged = result[end - 1] === "!";
  let text = slice(result, end + 1);
  const head = slice(result, 0, damaged ? end - 1 : end);
  if (hasModes) {
    state.mode = head;
  } else {
    const read = +head;
    const rest = new Uint8Array(lengthOf(input) - read);
    setBytes(rest, new Uint8Array(bufferOf(input), read));
    state.pending = rest;
  }
  if (!state.started && text !== "") {
    state.started = true;
    if (!keepBOM && (name === "utf-16le" || name === "utf-16be") && text[0] === "\ufeff") text = slice(text, 1);
  }
  return { __proto__: null, text, damaged };
};

return { nameOf, newState, decode };
