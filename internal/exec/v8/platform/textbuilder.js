// Text that is built from code points.

const { newList, ReflectApply } = platform;
const fromCharCode = platform.original("String", "fromCharCode");

// Code units are converted to text some thousands at a time: one call for all would exceed
// the limit of arguments, and one call for each is slow.
const unitsPerCall = 4096;

const newTextBuilder = () => ({ __proto__: null, text: "", units: newList() });

const flushText = (builder) => {
  builder.text += ReflectApply(fromCharCode, undefined, builder.units);
  builder.units = newList();
};

const appendCodePoint = (builder, code) => {
  const { units } = builder;
  if (code < 0x10000) {
    units[units.length] = code;
  } else {
    units[units.length] = 0xd800 + ((code - 0x10000) >> 10);
    units[units.length] = 0xdc00 + ((code - 0x10000) & 0x3ff);
  }
  if (units.length >= unitsPerCall) flushText(builder);
};

const finishText = (builder) => {
  flushText(builder);
  return builder.text;
};

return { newTextBuilder, appendCodePoint, finishText };
