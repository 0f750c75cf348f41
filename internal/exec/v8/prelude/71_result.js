// The result of a run: the group result writes those that are not a primitive value.

const results = lazily(evaluateResult);

const resultOf = (value) => {
  if (typeof value === "string") return value;
  if (value === undefined) return null;
  return typeof value === "number" && NumberIsFinite(value) && !(value === 0 && 1 / value < 0) ? `${value}` : results().resultText(value);
};

const safeInspect = (value) => {
  try {
    return inspectWith(value, undefined);
  } catch {
    // Code that the user controls (a custom inspection hook, a name getter) threw.
    return `[${typeof value} whose inspection threw an error]`;
  }
};
