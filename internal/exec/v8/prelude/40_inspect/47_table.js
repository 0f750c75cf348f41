// console.table: rows and columns drawn with box characters.

const tableIndex = "(index)";
const tableIteration = "(iteration index)";

const newColumn = (title, cells) => ({ __proto__: null, title, cells, width: 0 });

// tableText returns undefined for a value without rows, which console.table logs plainly.
const tableText = (data, properties, caller) => {
  if (data === null || typeof data !== "object") return undefined;
  if (properties !== undefined && !ArrayIsArray(properties)) {
    throw invalidArgument("properties", "an instance of Array", properties, caller);
  }
  const kind = host.kindOf(data);
  if (kind === "map" || kind === "set" || kind === "mapIterator" || kind === "setIterator") {
    return collectionTable(kind, data);
  }
  return propertyTable(data, properties);
};

// cellText keeps a cell on one line: of nested values it shows only the outline.
const cellText = (value) => {
  const wide = value !== null && typeof value === "object" && !ArrayIsArray(value) && ObjectKeys(value).length > 2;
  return inspectWith(value, { __proto__: null, depth: wide ? -1 : 0, maxArrayLength: 3, breakLength: Infinity });
};

const collectionTable = (kind, data) => {
  const columns = newList();
  const indexes = newList();
  const keys = newList();
  const values = newList();
  const add = (key, value, paired) => {
    indexes[indexes.length] = `${indexes.length}`;
    if (paired) keys[keys.length] = cellText(key);
    values[values.length] = cellText(value);
  };
  let paired = kind === "map";
  if (kind === "map") {
    const iterator = MapPrototypeEntries(data);
    for (let step = MapIteratorPrototypeNext(iterator); !step.done; step = MapIteratorPrototypeNext(iterator)) {
      add(step.value[0], step.value[1], true);
    }
  } else if (kind === "set") {
    const iterator = SetPrototypeValues(data);
    for (let step = SetIteratorPrototypeNext(iterator); !step.done; step = SetIteratorPrototypeNext(iterator)) {
      add(undefined, step.value, false);
    }
  } else {
    const preview = host.previewEntries(data);
    const entries = preview[0];
    paired = preview[1];
    for (let i = 0; i < entries.length; i += paired ? 2 : 1) {
      if (paired) add(entries[i], entries[i + 1], true);
      else add(undefined, entries[i], false);
    }
  }
  columns[0] = newColumn(tableIteration, indexes);
  if (paired) columns[1] = newColumn("Key", keys);
  columns[columns.length] = newColumn("Values", values);
  return drawTable(columns, indexes.length);
};

const propertyTable = (data, properties) => {
  const rows = toList(ObjectKeys(data));
  const columns = newList();
  const byName = new NativeMap();
  const plain = newList(); // cells of rows that are primitives
  let hasPlain = false;
  columns[0] = newColumn(tableIndex, rows);
  for (let row = 0; row < rows.length; row++) {
    const item = data[rows[row]];
    const primitive = item === null || (typeof item !== "object" && typeof item !== "function");
    if (primitive && properties === undefined) {
      hasPlain = true;
      plain[row] = cellText(item);
      continue;
    }
    const keys = properties === undefined ? ObjectKeys(item) : properties;
    for (let i = 0; i < keys.length; i++) {
      const name = typeof keys[i] === "symbol" ? keys[i] : `${keys[i]}`;
      let cells = MapPrototypeGet(byName, name);
      if (cells === undefined) {
        cells = newList();
        MapPrototypeSet(byName, name, cells);
      }
      cells[row] = primitive || !hasOwn(item, name) ? "" : cellText(item[name]);
    }
  }
  // Columns that are named like array indexes come first, in numeric order, like the keys
  // of any object. An object without a prototype produces that order.
  const order = ObjectCreate(null);
  const iterator = MapPrototypeEntries(byName);
  for (let step = MapIteratorPrototypeNext(iterator); !step.done; step = MapIteratorPrototypeNext(iterator)) {
    order[step.value[0]] = step.value[1];
  }
  const names = ObjectKeys(order);
  for (let i = 0; i < names.length; i++) columns[columns.length] = newColumn(names[i], order[names[i]]);
  if (hasPlain) columns[columns.length] = newColumn("Values", plain);
  return drawTable(columns, rows.length);
};

const visibleWidth = (text) => {
  if (!StringPrototypeIncludes(text, "\x1b[")) return displayWidth(text);
  let bare = "";
  let at = 0;
  for (;;) {
    const escape = StringPrototypeIndexOf(text, "\x1b[", at);
    if (escape === -1) return displayWidth(bare + StringPrototypeSlice(text, at));
    bare += StringPrototypeSlice(text, at, escape);
    at = escape + 2;
    while (at < text.length && !matches(/^[@-~]$/, text[at])) at++;
    at++;
  }
};

const drawTable = (columns, rowCount) => {
  const rule = (left, middle, right) => {
    let line = left;
    for (let c = 0; c < columns.length; c++) {
      line += (c === 0 ? "" : middle) + StringPrototypeRepeat("\u2500", columns[c].width + 2);
    }
    return line + right;
  };
  const line = (textAt) => {
    let out = "\u2502";
    for (let c = 0; c < columns.length; c++) {
      const text = textAt(columns[c]);
      out += ` ${text}${StringPrototypeRepeat(" ", columns[c].width - visibleWidth(text))} \u2502`;
    }
    return out;
  };
  const cellAt = (column, row) => (hasOwn(column.cells, row) ? column.cells[row] : "");
  for (let c = 0; c < columns.length; c++) {
    let width = visibleWidth(columns[c].title);
    for (let row = 0; row < rowCount; row++) width = MathMax(width, visibleWidth(cellAt(columns[c], row)));
    columns[c].width = width;
  }
  let out = `${rule("\u250c", "\u252c", "\u2510")}\n${line((column) => column.title)}\n${rule("\u251c", "\u253c", "\u2524")}\n`;
  for (let row = 0; row < rowCount; row++) out += `${line((column) => cellAt(column, row))}\n`;
  return out + rule("\u2514", "\u2534", "\u2518");
};
