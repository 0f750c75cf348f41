// The arrangement of formatted parts: on one line, one per line, or in columns.

// The two layouts of a value: that of objects, and that of arrays.
const layoutObject = 0;
const layoutArray = 1; // more than six entries may be set in columns

// fitsOneLine reports whether the parts, their separators and the text before them on the
// line stay within breakLength.
const fitsOneLine = (ctx, parts, start, base) => {
  let total = parts.length + start;
  if (total + parts.length > ctx.breakLength) return false;
  for (let i = 0; i < parts.length; i++) {
    total += parts[i].length;
    if (total > ctx.breakLength) return false;
  }
  return base === "" || !StringPrototypeIncludes(base, "\n");
};

const joinParts = (ctx, parts, base, open, close, layout, depth, source) => {
  const head = base === "" ? "" : `${base} `;
  if (ctx.compact === true) {
    if (fitsOneLine(ctx, parts, 0, base)) {
      return `${open}${base === "" ? "" : ` ${base}`} ${listJoin(parts, ", ")} ${close}`;
    }
    const indent = `\n${StringPrototypeRepeat(" ", ctx.indentationLvl)}`;
    const lead = base === "" && open.length === 1 ? " " : `${base === "" ? "" : ` ${base}`}\n${indent}  `;
    return `${open}${lead}${listJoin(parts, `,${indent}  `)} ${close}`;
  }
  if (ctx.compact >= 1) {
    const before = parts.length;
    if (layout === layoutArray && before > 6) parts = groupInColumns(ctx, parts, source);
    // Only the innermost levels may share a line, and only if they are not in columns.
    if (ctx.currentDepth - depth < ctx.compact && before === parts.length) {
      const start = parts.length + ctx.indentationLvl + open.length + base.length + 10;
      if (fitsOneLine(ctx, parts, start, base)) {
        const line = listJoin(parts, ", ");
        if (!StringPrototypeIncludes(line, "\n")) return `${head}${open} ${line} ${close}`;
      }
    }
  }
  const indent = `\n${StringPrototypeRepeat(" ", ctx.indentationLvl)}`;
  return `${head}${open}${indent}  ${listJoin(parts, `,${indent}  `)}${indent}${close}`;
};

// isNumericElement reads an own data element without running a getter.
const isNumericElement = (source, index) => {
  const descriptor = ObjectGetOwnPropertyDescriptor(source, index);
  if (descriptor === undefined || !hasOwn(descriptor, "value")) return false;
  const type = typeof descriptor.value;
  return type === "number" || type === "bigint";
};

// groupInColumns arranges short entries in aligned columns: about 2.5 times as many
// columns as rows (a character is that much taller than wide), at most 15. Numbers are
// aligned right, other values left.
const groupInColumns = (ctx, parts, source) => {
  const separator = 2;
  // The last line, "... n more items", stays outside the columns.
  const count = ctx.maxArrayLength < parts.length ? parts.length - 1 : parts.length;
  const widths = newList();
  let total = 0;
  let longest = 0;
  for (let i = 0; i < count; i++) {
    const width = displayWidth(parts[i]);
    widths[i] = width;
    total += width + separator;
    if (width > longest) longest = width;
  }
  const cell = longest + separator;
  if (cell * 3 + ctx.indentationLvl >= ctx.breakLength) return parts;
  if (total / cell <= 5 && longest > 6) return parts;

  const bias = MathSqrt(cell - total / parts.length);
  const biased = MathMax(cell - 3 - bias, 1);
  const columns = MathMin(
    MathRound(MathSqrt(2.5 * biased * count) / biased),
    MathFloor((ctx.breakLength - ctx.indentationLvl) / cell),
    ctx.compact * 4,
    15,
  );
  if (columns <= 1) return parts;

  const columnWidths = newList();
  for (let column = 0; column < columns; column++) {
    let width = 0;
    for (let i = column; i < count; i += columns) if (widths[i] > width) width = widths[i];
    columnWidths[column] = width + separator;
  }
  let alignRight = true;
  if (source !== undefined) {
    for (let i = 0; i < parts.length && alignRight; i++) alignRight = isNumericElement(source, i);
  }
  const rows = newList();
  for (let i = 0; i < count; i += columns) {
    const end = MathMin(i + columns, count);
    let row = "";
    let at = i;
    for (; at < end - 1; at++) {
      // padStart counts UTF-16 units: add the columns that a wide character takes beyond them.
      const width = columnWidths[at - i] + parts[at].length - widths[at];
      row += alignRight ? StringPrototypePadStart(`${parts[at]}, `, width, " ") : StringPrototypePadEnd(`${parts[at]}, `, width, " ");
    }
    row += alignRight
      ? StringPrototypePadStart(parts[at], columnWidths[at - i] + parts[at].length - widths[at] - separator, " ")
      : parts[at];
    rows[rows.length] = row;
  }
  if (count < parts.length) rows[rows.length] = parts[count];
  return rows;
};
