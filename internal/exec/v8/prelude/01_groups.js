// Groups of the prelude that a run evaluates when it first needs them.
//
// A group is a directory: its files are the body of a function, evaluateNAME, and the last one
// returns what other files use. The end of a run forgets it, so that a saved heap has one
// function for the group, and not its hundreds. It follows that a group
//
//   - has no state that outlives a run: variables of such state are outside;
//   - gives user code no object that leads to its functions, because a heap would then keep all
//     of them;
//   - may be evaluated after user code: also the evaluation uses only captured intrinsics, and not
//     uncurryThis.
//
// The base of contexts whose heap is not saved has all groups: their runs need not compile them.

const groups = newList(); // functions as lazily returns them
const groupExports = newList();

// lazily returns a function that returns the exports of a group.
const lazily = (evaluate) => {
  const at = groups.length;
  groupExports[at] = undefined;
  groups[at] = () => (groupExports[at] === undefined ? (groupExports[at] = evaluate()) : groupExports[at]);
  return groups[at];
};

const evaluateGroups = () => {
  for (let i = 0; i < groups.length; i++) groups[i]();
};

const forgetGroups = () => {
  if (!heapIsSaved) return;
  for (let i = 0; i < groupExports.length; i++) groupExports[i] = undefined;
};
