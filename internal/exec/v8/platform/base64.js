// atob and btoa.

const { TypeError, codedError, domError, setMeta } = platform;
const { newTextBuilder, appendCodePoint, finishText } = platform.load("textbuilder");
const charCodeAt = platform.method("String.prototype", "charCodeAt");

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const sextetOf = (code) => {
  if (code >= 65 && code <= 90) return code - 65;
  if (code >= 97 && code <= 122) return code - 71;
  if (code >= 48 && code <= 57) return code + 4;
  return code === 43 ? 62 : code === 47 ? 63 : -1;
};
const requireInput = (args, fn) => {
  if (args.length === 0) throw codedError(TypeError, "ERR_MISSING_ARGS", 'The "data" argument must be specified', fn);
  return `${args[0]}`;
};

const { atob, btoa } = {
  btoa() {
    const text = requireInput(arguments, btoa);
    let out = "";
    for (let i = 0; i < text.length; i += 3) {
      let bits = 0;
      for (let j = 0; j < 3; j++) {
        const code = i + j < text.length ? charCodeAt(text, i + j) : 0;
        if (code > 255) throw domError("InvalidCharacterError", "Invalid character", btoa);
        bits = (bits << 8) | code;
      }
      out += alphabet[bits >> 18] + alphabet[(bits >> 12) & 63] +
        (i + 1 < text.length ? alphabet[(bits >> 6) & 63] : "=") + (i + 2 < text.length ? alphabet[bits & 63] : "=");
    }
    return out;
  },
  atob() {
    const text = requireInput(arguments, atob);
    const fail = (message) => domError("InvalidCharacterError", message, atob);
    const out = newTextBuilder();
    let bits = 0;
    let count = 0; // digits
    let padding = 0;
    for (let i = 0; i < text.length; i++) {
      const code = charCodeAt(text, i);
      if (code === 32 || code === 9 || code === 10 || code === 12 || code === 13) continue;
      if (code === 61) {
        padding++;
        continue;
      }
      const sextet = sextetOf(code);
      if (sextet < 0 || padding > 0) throw fail("Invalid character");
      bits = ((bits << 6) | sextet) & 0xffffff;
      if (++count % 4 === 0) {
        appendCodePoint(out, bits >> 16);
        appendCodePoint(out, (bits >> 8) & 255);
        appendCodePoint(out, bits & 255);
      }
    }
    const rest = count % 4;
    // Padding may be missing. Padding that is there must be right.
    if (padding > 2 || (padding > 0 && rest !== 1 && rest + padding !== 4)) throw fail("Invalid character");
    if (rest === 1) throw fail("The string to be decoded is not correctly encoded.");
    if (rest === 2) appendCodePoint(out, (bits >> 4) & 255);
    if (rest === 3) {
      appendCodePoint(out, (bits >> 10) & 255);
      appendCodePoint(out, (bits >> 2) & 255);
    }
    return finishText(out);
  },
};

return { atob: setMeta(atob, "atob", 1), btoa: setMeta(btoa, "btoa", 1) };
