// The syntax of URL patterns: tokens, the parts of a component, and their regular expressions.

const { TypeError, newList, matches } = platform;

const slice = platform.method("String.prototype", "slice");
const charCodeAt = platform.method("String.prototype", "charCodeAt");
const codePointAt = platform.method("String.prototype", "codePointAt");
const indexOf = platform.method("String.prototype", "indexOf");
const RegExp = platform.original("globalThis", "RegExp");

const nameStart = /^[$_\p{ID_Start}]$/u;
const namePart = /^[$\u200c\u200d\p{ID_Continue}]$/u;
const isASCII = (text, at) => charCodeAt(text, at) < 128;
const isNumeric = (name) => name !== "" && charCodeAt(name, 0) >= 48 && charCodeAt(name, 0) <= 57;

// characterAt returns the code point at an index, as text.
const characterAt = (text, at) => slice(text, at, at + (codePointAt(text, at) > 0xffff ? 2 : 1));

// ---- tokens -----------------------------------------------------------------------

const simpleTokens = { __proto__: null, "*": "asterisk", "+": "modifier", "?": "modifier", "{": "open", "}": "close" };

// endOfGroup returns the index after the parenthesis that closes the regular expression at an
// index, or -1.
const endOfGroup = (input, start) => {
  let depth = 1;
  for (let at = start; at < input.length; at++) {
    const c = input[at];
    if (!isASCII(input, at) || (at === start && c === "?")) return -1;
    if (c === "\\") {
      if (++at === input.length || !isASCII(input, at)) return -1;
    } else if (c === ")") {
      if (--depth === 0) return at === start ? -1 : at + 1;
    } else if (c === "(") {
      depth++;
      if (input[at + 1] !== "?") return -1;
    }
  }
  return -1;
};

// tokenize returns tokens with their type, value and index. A lenient one has invalid tokens for
// what is no pattern.
const tokenize = (input, isLenient) => {
  const tokens = newList();
  let at = 0;
  const add = (type, next, value) => {
    tokens[tokens.length] = { __proto__: null, type, index: at, value };
    at = next;
  };
  const refuse = (next) => {
    if (!isLenient) throw new TypeError(`Invalid pattern: ${input} at ${at}`);
    add("invalid", next, slice(input, at, next));
  };
  while (at < input.length) {
    const c = characterAt(input, at);
    if (c in simpleTokens) add(simpleTokens[c], at + 1, c);
    else if (c === "\\") {
      if (at === input.length - 1) refuse(at + 1);
      else {
        const escaped = characterAt(input, at + 1);
        add("escaped", at + 1 + escaped.length, escaped);
      }
    } else if (c === ":") {
      let end = at + 1;
      while (end < input.length) {
        const letter = characterAt(input, end);
        if (!matches(end === at + 1 ? nameStart : namePart, letter)) break;
        end += letter.length;
      }
      if (end === at + 1) refuse(end);
      else add("name", end, slice(input, at + 1, end));
    } else if (c === "(") {
      const end = endOfGroup(input, at + 1);
      if (end === -1) refuse(at + 1);
      else add("regexp", end, slice(input, at + 1, end - 1));
    } else add("char", at + c.length, c);
  }
  add("end", at, "");
  return tokens;
};

// ---- parts ------------------------------------------------------------------------

const escapeWith = (text, special) => {
  let out = "";
  for (let i = 0; i < text.length; i++) out += indexOf(special, text[i]) === -1 ? text[i] : `\\${text[i]}`;
  return out;
};
const escapeRegExp = (text) => escapeWith(text, ".+*?^${}()[]|/\\");
const escapePattern = (text) => escapeWith(text, "+*?:{}()\\");
const segmentOf = (options) => (options.delimiter === "" ? ".+?" : `[^${escapeRegExp(options.delimiter)}]+?`);

// parseParts returns the parts of a component. encode canonicalizes fixed text.
const parseParts = (input, options, encode) => {
  const tokens = tokenize(input, false);
  const segment = segmentOf(options);
  const parts = newList();
  const names = { __proto__: null };
  let at = 0;
  let fixed = "";
  let nextName = 0;

  const take = (type) => (tokens[at].type === type ? tokens[at++] : undefined);
  const require = (type) => {
    const token = take(type);
    if (token === undefined) throw new TypeError(`Invalid pattern: ${input} at ${tokens[at].index}`);
    return token;
  };
  const takeExpression = (name) => {
    const token = take("regexp");
    return token === undefined && name === undefined ? take("asterisk") : token;
  };
  const takeModifier = () => {
    const token = take("modifier") || take("asterisk");
    return token === undefined ? "" : token.value;
  };
  const takeText = () => {
    let text = "";
    for (let token = take("char") || take("escaped"); token !== undefined; token = take("char") || take("escaped")) text += token.value;
    return text;
  };
  const push = (part) => { parts[parts.length] = { __proto__: null, name: "", prefix: "", suffix: "", ...part }; };
  const endFixed = () => {
    if (fixed === "") return;
    const text = fixed;
    fixed = "";
    push({ __proto__: null, type: "fixed", value: encode(text), modifier: "" });
  };
  const add = (prefix, name, expression, suffix, modifier) => {
    if (name === undefined && expression === undefined && modifier === "") {
      fixed += prefix;
      return;
    }
    endFixed();
    if (name === undefined && expression === undefined) {
      if (prefix !== "") push({ __proto__: null, type: "fixed", value: encode(prefix), modifier });
      return;
    }
    let value = expression === undefined ? segment : expression.type === "asterisk" ? ".*" : expression.value;
    let type = "regexp";
    if (value === segment || value === ".*") {
      type = value === segment ? "segment" : "full";
      value = "";
    }
    const label = name !== undefined ? name.value : `${nextName++}`;
    if (label in names) throw new TypeError(`Invalid pattern: ${input} has two groups ${label}`);
    names[label] = true;
    push({ __proto__: null, type, value, modifier, name: label, prefix: encode(prefix), suffix: encode(suffix) });
  };

  for (;;) {
    const char = take("char");
    const name = take("name");
    const expression = takeExpression(name);
    if (name !== undefined || expression !== undefined) {
      let prefix = char === undefined ? "" : char.value;
      if (prefix !== "" && prefix !== options.prefix) {
        fixed += prefix;
        prefix = "";
      }
      endFixed();
      add(prefix, name, expression, "", takeModifier());
      continue;
    }
    const text = char || take("escaped");
    if (text !== undefined) {
      fixed += text.value;
      continue;
    }
    if (take("open") !== undefined) {
      const prefix = takeText();
      const inside = take("name");
      const inner = takeExpression(inside);
      const suffix = takeText();
      require("close");
      add(prefix, inside, inner, suffix, takeModifier());
      continue;
    }
    endFixed();
    require("end");
    return parts;
  }
};

// expressionOf returns the source of the regular expression, and the names of its groups.
const expressionOf = (parts, options) => {
  const names = newList();
  let source = "^";
  for (let i = 0; i < parts.length; i++) {
    const { type, value, modifier, name, prefix, suffix } = parts[i];
    if (type === "fixed") {
      source += modifier === "" ? escapeRegExp(value) : `(?:${escapeRegExp(value)})${modifier}`;
      continue;
    }
    names[names.length] = name;
    const inside = type === "segment" ? segmentOf(options) : type === "full" ? ".*" : value;
    const before = escapeRegExp(prefix);
    const after = escapeRegExp(suffix);
    const isOnce = modifier === "" || modifier === "?";
    if (before === "" && after === "") source += isOnce ? `(${inside})${modifier}` : `((?:${inside})${modifier})`;
    else if (isOnce) source += `(?:${before}(${inside})${after})${modifier}`;
    else source += `(?:${before}((?:${inside})(?:${after}${before}(?:${inside}))*)${after})${modifier === "*" ? "?" : ""}`;
  }
  return { __proto__: null, source: `${source}$`, names };
};

const startsName = (text) => text !== "" && matches(namePart, characterAt(text, 0));

// patternOf returns the text of the parts, which is the value of the attribute.
const patternOf = (parts, options) => {
  let out = "";
  for (let i = 0; i < parts.length; i++) {
    const { type, value, modifier, name, prefix, suffix } = parts[i];
    if (type === "fixed") {
      out += modifier === "" ? escapePattern(value) : `{${escapePattern(value)}}${modifier}`;
      continue;
    }
    const before = i > 0 ? parts[i - 1] : undefined;
    const after = parts[i + 1];
    const isNamed = !isNumeric(name);
    let isGroup = suffix !== "" || (prefix !== "" && prefix !== options.prefix);
    if (!isGroup && isNamed && type === "segment" && modifier === "" && after !== undefined && after.prefix === "" && after.suffix === "") {
      isGroup = after.type === "fixed" ? startsName(after.value) : isNumeric(after.name);
    }
    if (!isGroup && prefix === "" && before !== undefined && before.type === "fixed" && options.prefix !== "" &&
        before.value[before.value.length - 1] === options.prefix) isGroup = true;
    if (isGroup) out += "{";
    out += escapePattern(prefix);
    if (isNamed) out += `:${name}`;
    if (type === "regexp") out += `(${value})`;
    else if (type === "segment" && !isNamed) out += `(${segmentOf(options)})`;
    else if (type === "full") {
      const isPlain = !isNamed && (before === undefined || before.type === "fixed" || before.modifier !== "" || isGroup || prefix !== "");
      out += isPlain ? "*" : "(.*)";
    }
    if (type === "segment" && isNamed && startsName(suffix)) out += "\\";
    out += escapePattern(suffix);
    if (isGroup) out += "}";
    out += modifier;
  }
  return out;
};

// compile returns a component: its pattern, its regular expression, the names of the groups.
const compile = (input, options, encode, ignoreCase) => {
  const parts = parseParts(input, options, encode);
  const { source, names } = expressionOf(parts, options);
  let expression;
  try {
    expression = new RegExp(source, ignoreCase ? "vi" : "v");
  } catch {
    throw new TypeError(`Invalid pattern: ${input} has a regular expression that is invalid`);
  }
  let hasRegExpGroups = false;
  for (let i = 0; i < parts.length; i++) if (parts[i].type === "regexp") hasRegExpGroups = true;
  return { __proto__: null, pattern: patternOf(parts, options), expression, names, hasRegExpGroups };
};

return { tokenize, compile };
