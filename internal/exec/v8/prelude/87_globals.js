// The text of a global, for clients that look into a heap without a run.

// inspectGlobal returns the text of a property, after ~ if the text leaves out a part of the
// value, otherwise after =. ctx has options in place of those of newContext. isQuiet stays
// set: no run follows, and the heap is not saved.
const inspectGlobal = (holder, key, ctx) => {
  isQuiet = true;
  ObjectSetPrototypeOf(ctx, inspecting().newContext());
  const text = inspecting().formatProperty(ctx, holder, 0, key, true);
  return (ctx.isPartial || ctx.left <= 0 ? "~" : "=") + text;
};
