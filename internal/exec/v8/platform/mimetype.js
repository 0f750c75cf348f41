// MIME types of the MIME Sniffing standard. A type is {essence, params}, where params is a list
// of {name, value} in the order of the text.

const { newList } = platform;
const { hasOnly, isToken } = platform.load("webidl");
const toLowerCase = platform.method("String.prototype", "toLowerCase");
const slice = platform.method("String.prototype", "slice");
const charCodeAt = platform.method("String.prototype", "charCodeAt");
const indexOf = platform.method("String.prototype", "indexOf");

const isQuotable = (code) => code === 9 || (code >= 32 && code <= 255 && code !== 127);
const quote = 34;
const comma = 44;
const semicolon = 59;
const equals = 61;
const backslash = 92;

const isSpace = (code) => code === 9 || code === 10 || code === 13 || code === 32;

const trimEnd = (text) => {
  let end = text.length;
  while (end > 0 && isSpace(charCodeAt(text, end - 1))) end--;
  return slice(text, 0, end);
};

const trim = (text) => {
  let start = 0;
  while (start < text.length && isSpace(charCodeAt(text, start))) start++;
  return trimEnd(slice(text, start));
};

// findAny returns where text has one of two characters at or after at, or the length of text.
const findAny = (text, at, first, second) => {
  for (; at < text.length; at++) {
    const code = charCodeAt(text, at);
    if (code === first || code === second) break;
  }
  return at;
};

// readQuoted reads the quoted string that begins at at. It returns {value, at}, where at is
// after the string, which may lack its end.
const readQuoted = (text, at) => {
  let value = "";
  at++;
  for (;;) {
    const end = findAny(text, at, quote, backslash);
    value += slice(text, at, end);
    if (end === text.length) return { __proto__: null, value, at: end };
    if (charCodeAt(text, end) === quote) return { __proto__: null, value, at: end + 1 };
    // A backslash at the end of the text means itself.
    value += end + 1 === text.length ? "\\" : text[end + 1];
    at = end + 2;
  }
};

const paramOf = (type, name) => {
  for (let i = 0; i < type.params.length; i++) if (type.params[i].name === name) return type.params[i].value;
  return undefined;
};

const addParam = (type, name, value) => { type.params[type.params.length] = { __proto__: null, name, value }; };

// parse returns the type that a text means, or undefined.
const parse = (given) => {
  const text = trim(given);
  const slash = indexOf(text, "/");
  if (slash === -1) return undefined;
  let at = findAny(text, slash, semicolon, semicolon);
  const type = slice(text, 0, slash);
  const subtype = trimEnd(slice(text, slash + 1, at));
  if (!isToken(type) || !isToken(subtype)) return undefined;
  const parsed = { __proto__: null, essence: toLowerCase(`${type}/${subtype}`), params: newList() };
  while (at < text.length) {
    at++; // the semicolon
    while (at < text.length && isSpace(charCodeAt(text, at))) at++;
    const nameEnd = findAny(text, at, semicolon, equals);
    const name = toLowerCase(slice(text, at, nameEnd));
    at = nameEnd;
    if (at === text.length) break;
    if (charCodeAt(text, at) === semicolon) continue;
    at++; // the equals sign
    if (at >= text.length) break;
    let value;
    if (charCodeAt(text, at) === quote) {
      const quoted = readQuoted(text, at);
      value = quoted.value;
      at = findAny(text, quoted.at, semicolon, semicolon);
    } else {
      const end = findAny(text, at, semicolon, semicolon);
      value = trimEnd(slice(text, at, end));
      at = end;
      if (value === "") continue;
    }
    if (isToken(name) && hasOnly(value, isQuotable) && paramOf(parsed, name) === undefined) addParam(parsed, name, value);
  }
  return parsed;
};

// splitList returns the values of a header that is a list. Commas in quoted strings separate
// nothing.
const splitList = (text) => {
  const values = newList();
  let start = 0;
  let at = 0;
  for (;;) {
    at = findAny(text, at, quote, comma);
    if (at < text.length && charCodeAt(text, at) === quote) {
      at = readQuoted(text, at).at;
      continue;
    }
    values[values.length] = slice(text, start, at);
    if (at === text.length) return values;
    start = ++at;
  }
};

// extract returns the type of a Content-Type header, whose values are joined with commas, or
// undefined. The last valid type counts. It takes over the charset of the ones before it of the
// same essence.
const extract = (header) => {
  const values = splitList(header);
  let found;
  let charset;
  for (let i = 0; i < values.length; i++) {
    const type = parse(values[i]);
    if (type === undefined || type.essence === "*/*") continue;
    if (found !== undefined && found.essence !== type.essence) charset = undefined;
    found = type;
    const own = paramOf(type, "charset");
    if (own !== undefined) charset = own;
    else if (charset !== undefined) addParam(type, "charset", charset);
  }
  return found;
};

const escape = (text) => platform.replaceText(platform.replaceText(text, "\\", "\\\\"), '"', '\\"');

const serialize = (type) => {
  let text = type.essence;
  for (let i = 0; i < type.params.length; i++) {
    const { name, value } = type.params[i];
    text += `;${name}=${isToken(value) ? value : `"${escape(value)}"`}`;
  }
  return text;
};

return { extract, serialize, paramOf };
