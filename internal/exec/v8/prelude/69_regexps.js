// Objects of regular expressions that share their compiled form; see prepare.cc.

// unshareRegExps compiles all regular expressions of a list that have the same source and
// flags as another one, each for itself. Their properties keep their values, and no code of a
// script runs: the source, the flags and lastIndex of a regular expression are no accessors.
// The order of the list does not change the result.
const unshareRegExps = (list) => {
  const indexes = new NativeMap(); // source -> flags -> index of the first one, or -1
  const shared = newList();
  for (let i = 0; i < list.length; i++) {
    const source = RegExpPrototypeGetSource(list[i]);
    let flags = 0;
    for (let f = 0; f < regExpFlagGetters.length; f++) flags = flags * 2 + (regExpFlagGetters[f].get(list[i]) ? 1 : 0);
    let byFlags = MapPrototypeGet(indexes, source);
    if (byFlags === undefined) {
      byFlags = new NativeMap();
      MapPrototypeSet(indexes, source, byFlags);
    }
    const first = MapPrototypeGet(byFlags, flags);
    if (first !== undefined) shared[shared.length] = list[i];
    if (first >= 0) shared[shared.length] = list[first];
    MapPrototypeSet(byFlags, flags, first === undefined ? i : -1);
  }
  for (let i = 0; i < shared.length; i++) {
    const { lastIndex } = shared[i];
    host.clearCaches(); // or V8 takes the compiled form of the one before
    try {
      RegExpPrototypeCompile(shared[i], shared[i]);
      shared[i].lastIndex = lastIndex;
    } catch {
      // It is frozen: V8 compiled it and could not set its lastIndex to 0.
    }
  }
};
