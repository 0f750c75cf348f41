// The text of single tokens: quoted strings, property names and numbers, and the width
// of a text on a terminal.

// A run that creates a regular expression collects garbage, and compares all regular expressions,
// before its heap is saved. Those of inspection are therefore created when they are needed, and the
// first characters of a run need none: loops take longer than patterns only for many characters.

// matcher returns a function that reports whether a text matches the pattern.
const matcher = (create) => {
  let pattern;
  return (text) => RegExpPrototypeExec(pattern === undefined ? (pattern = create()) : pattern, text) !== null;
};

const mostInLoops = 2048; // characters
let inLoops = 0;
let escapes; // what single quotes cannot hold as it is: controls, the quote, the backslash and lone surrogates
let plainIdentifier;

const createPatterns = () => {
  escapes = /[\x00-\x1f\x27\x5c\x7f-\x9f]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
  plainIdentifier = /^[a-zA-Z_][a-zA-Z_0-9]*$/;
};
if (!heapIsSaved) createPatterns();

const needsEscape = (text) => {
  if (escapes === undefined && (inLoops += text.length) > mostInLoops) createPatterns();
  return escapes === undefined ? escapeText(text, 39) !== text : matches(escapes, text);
};

const isPlainIdentifier = (text) => {
  if (plainIdentifier !== undefined) return matches(plainIdentifier, text);
  inLoops += text.length;
  for (let i = 0; i < text.length; i++) {
    const code = StringPrototypeCharCodeAt(text, i);
    const isLetter = (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || code === 95;
    if (!isLetter && (i === 0 || code < 48 || code > 57)) return false;
  }
  if (inLoops > mostInLoops) createPatterns();
  return text !== "";
};

const shortEscapes = { __proto__: null, 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 92: "\\\\" };

// escapeText escapes unprintable characters and the quote character quoteCode.
const escapeText = (text, quoteCode) => {
  let out = "";
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    const code = StringPrototypeCharCodeAt(text, i);
    let escape;
    if (code === quoteCode) {
      escape = `\\${text[i]}`;
    } else if (code === 92 || code < 32 || (code >= 127 && code <= 159)) {
      escape = shortEscapes[code];
      if (escape === undefined) {
        const digits = NumberPrototypeToString(code, 16);
        escape = `\\x${code < 16 ? "0" : ""}${upperHex(digits)}`;
      }
    } else if (code >= 0xd800 && code <= 0xdfff) {
      if (code <= 0xdbff && i + 1 < text.length) {
        const next = StringPrototypeCharCodeAt(text, i + 1);
        if (next >= 0xdc00 && next <= 0xdfff) {
          i++;
          continue;
        }
      }
      escape = `\\u${NumberPrototypeToString(code, 16)}`;
    } else {
      continue;
    }
    out += StringPrototypeSlice(text, start, i) + escape;
    start = i + 1;
  }
  return start === 0 ? text : out + StringPrototypeSlice(text, start);
};

const upperHex = (digits) => {
  let out = "";
  for (let i = 0; i < digits.length; i++) {
    const code = StringPrototypeCharCodeAt(digits, i);
    out += code >= 97 ? StringFromCharCode(code - 32) : digits[i];
  }
  return out;
};

// quote uses the quotes that need the fewest escapes: single, then double, then backticks;
// single quotes with escapes if the text contains all three.
const quote = (text) => {
  if (!needsEscape(text)) return `'${text}'`;
  let mark = "'";
  if (StringPrototypeIncludes(text, "'")) {
    if (!StringPrototypeIncludes(text, '"')) mark = '"';
    else if (!StringPrototypeIncludes(text, "`") && !StringPrototypeIncludes(text, "${")) mark = "`";
  }
  return `${mark}${escapeText(text, mark === "'" ? 39 : -1)}${mark}`;
};

const formatNumber = (value) => (value === 0 && 1 / value < 0 ? "-0" : `${value}`);

// grouped inserts an underscore after each three digits if the option asks for it, counted
// from the decimal point in both directions.
const grouped = (ctx, text) => {
  if (!ctx.numericSeparator || !matches(/^-?[0-9]+(?:\.[0-9]+)?$/, text)) return text;
  const point = StringPrototypeIndexOf(text, ".");
  const whole = point === -1 ? text : StringPrototypeSlice(text, 0, point);
  const first = whole[0] === "-" ? 1 : 0;
  let out = "";
  let end = whole.length;
  for (; end - first > 3; end -= 3) out = `_${StringPrototypeSlice(whole, end - 3, end)}${out}`;
  out = StringPrototypeSlice(whole, 0, end) + out;
  if (point === -1) return out;
  let at = point + 1;
  for (out += "."; text.length - at > 3; at += 3) out += `${StringPrototypeSlice(text, at, at + 3)}_`;
  return out + StringPrototypeSlice(text, at);
};

const formatSymbol = (symbol) => SymbolPrototypeToString(symbol);

const formatString = (ctx, text) => {
  let trailer = "";
  if (text.length > ctx.maxStringLength) {
    const rest = text.length - ctx.maxStringLength;
    text = StringPrototypeSlice(text, 0, ctx.maxStringLength);
    trailer = `... ${rest} more character${rest > 1 ? "s" : ""}`;
  }
  // A long text of several lines is shown line by line, joined by +.
  if (ctx.compact !== true && text.length > 16 && text.length > ctx.breakLength - ctx.indentationLvl - 4) {
    const glue = ` +\n${StringPrototypeRepeat(" ", ctx.indentationLvl + 2)}`;
    let out = "";
    let start = 0;
    for (;;) {
      const end = StringPrototypeIndexOf(text, "\n", start);
      if (end === -1 || end === text.length - 1) break;
      out += ctx.stylize(quote(StringPrototypeSlice(text, start, end + 1)), "string") + glue;
      start = end + 1;
    }
    return out + ctx.stylize(quote(StringPrototypeSlice(text, start)), "string") + trailer;
  }
  return ctx.stylize(quote(text), "string") + trailer;
};

const formatPrimitive = (ctx, value) => {
  switch (typeof value) {
    case "string": return formatString(ctx, value);
    case "number": return ctx.stylize(grouped(ctx, formatNumber(value)), "number");
    case "bigint": return ctx.stylize(`${grouped(ctx, `${value}`)}n`, "bigint");
    case "boolean": return ctx.stylize(`${value}`, "boolean");
    case "undefined": return ctx.stylize("undefined", "undefined");
    default: return ctx.stylize(formatSymbol(value), "symbol");
  }
};

// propertyName returns the left side of "name: value".
const propertyName = (ctx, key, enumerable) => {
  if (typeof key === "symbol") return `[${ctx.stylize(escapeText(SymbolPrototypeToString(key), 39), "symbol")}]`;
  if (key === "__proto__") return "['__proto__']";
  if (!enumerable) return `[${escapeText(key, 39)}]`;
  if (isPlainIdentifier(key)) return ctx.stylize(key, "name");
  return ctx.stylize(quote(key), "string");
};

const zeroWidth = matcher(() => /^[\p{Mn}\p{Me}\p{Cf}]$/u);
const emojiWide = matcher(() => /^\p{Emoji_Presentation}$/u);

const isWide = (code) =>
  code >= 0x1100 &&
  (code <= 0x115f || // Hangul Jamo
    code === 0x2329 || code === 0x232a ||
    (code >= 0x2e80 && code <= 0x3247 && code !== 0x303f) ||
    (code >= 0x3250 && code <= 0x4dbf) ||
    (code >= 0x4e00 && code <= 0xa4c6) ||
    (code >= 0xa960 && code <= 0xa97c) ||
    (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe10 && code <= 0xfe19) ||
    (code >= 0xfe30 && code <= 0xfe6b) ||
    (code >= 0xff01 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) ||
    (code >= 0x16fe0 && code <= 0x1b2ff) ||
    (code >= 0x1f200 && code <= 0x1f251) ||
    (code >= 0x20000 && code <= 0x3fffd) ||
    emojiWide(codePointText(code)));

const codePointText = (code) =>
  code < 0x10000 ? StringFromCharCode(code) : StringFromCharCode(0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));

// displayWidth returns the number of terminal columns that a text takes.
const displayWidth = (text) => {
  let width = 0;
  for (let i = 0; i < text.length; i++) {
    const code = StringPrototypeCharCodeAt(text, i);
    if (code >= 127) return width + wideWidth(StringPrototypeNormalize(StringPrototypeSlice(text, i), "NFC"));
    if (code >= 32) width++;
  }
  return width;
};

const wideWidth = (text) => {
  let width = 0;
  for (let i = 0; i < text.length; i++) {
    const code = StringPrototypeCodePointAt(text, i);
    if (code > 0xffff) i++;
    if (code < 32 || (code >= 127 && code < 160)) continue;
    if (isWide(code)) width += 2;
    else if (code < 0x300 ? code !== 0xad : !zeroWidth(codePointText(code))) width++;
  }
  return width;
};
