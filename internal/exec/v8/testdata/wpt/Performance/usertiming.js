// The clock, marks and measures.

const fresh = (fn) => () => {
  performance.clearMarks();
  performance.clearMeasures();
  return fn();
};

test("now is not negative and does not go back", () => {
  const first = performance.now();
  assert_true(first >= 0);
  assert_true(performance.now() >= first);
});
test("timeOrigin and now give the time", () => assert_true(Math.abs(performance.timeOrigin + performance.now() - Date.now()) < 2000));
test("toJSON has the time origin", () => assert_equals(performance.toJSON().timeOrigin, performance.timeOrigin));
test("a mark has the present time", fresh(() => {
  const before = performance.now();
  const mark = performance.mark("a");
  assert_true(mark instanceof PerformanceMark);
  assert_true(mark instanceof PerformanceEntry);
  assert_true(mark.startTime >= before && mark.startTime <= performance.now());
  assert_object_equals([mark.name, mark.entryType, mark.duration], ["a", "mark", 0]);
  assert_equals(mark.detail, null);
}));
test("a mark with a start and a detail", fresh(() => {
  const detail = { a: [1] };
  const mark = performance.mark("a", { startTime: 5, detail });
  assert_equals(mark.startTime, 5);
  assert_array_equals(mark.detail.a, [1]);
  assert_not_equals(mark.detail, detail);
  assert_equals(mark.detail, mark.detail);
}));
for (const detail of [0, "", false, "text"]) test(`the detail ${JSON.stringify(detail)} is kept`, fresh(() => assert_equals(performance.mark("a", { detail }).detail, detail)));
test("a mark refuses bad arguments", fresh(() => {
  assert_throws_js(TypeError, () => performance.mark());
  assert_throws_js(TypeError, () => performance.mark("a", { startTime: -1 }));
  assert_throws_js(TypeError, () => performance.mark("a", { startTime: NaN }));
  assert_throws_dom("DataCloneError", () => performance.mark("a", { detail() {} }));
  assert_equals(performance.getEntries().filter((e) => e.entryType === "mark").length, 0);
}));
test("PerformanceMark can be constructed, and is then no entry", fresh(() => {
  assert_equals(new PerformanceMark("a", { startTime: 3 }).startTime, 3);
  assert_equals(performance.getEntriesByType("mark").length, 0);
}));
test("PerformanceEntry and PerformanceMeasure cannot be constructed", () => {
  assert_throws_js(TypeError, () => new PerformanceEntry());
  assert_throws_js(TypeError, () => new PerformanceMeasure());
});
test("a measure from the start", fresh(() => {
  const measure = performance.measure("m");
  assert_true(measure instanceof PerformanceMeasure);
  assert_equals(measure.startTime, 0);
  assert_true(Math.abs(measure.duration - performance.now()) < 1000);
  assert_equals(measure.entryType, "measure");
  assert_equals(measure.detail, null);
}));
for (const [name, args, want] of [
  ["two marks", ["a", "b"], [10, 15]],
  ["options with two marks", [{ start: "a", end: "b" }], [10, 15]],
  ["options with two times", [{ start: 1, end: 4 }], [1, 3]],
  ["a start and a duration", [{ start: 2, duration: 5 }], [2, 5]],
  ["a mark and a duration", [{ start: "a", duration: 1 }], [10, 1]],
  ["an end and a duration", [{ end: 9, duration: 4 }], [5, 4]],
  ["an end only", [{ end: 9 }], [0, 9]],
  ["an end mark without a start", [undefined, "b"], [0, 25]],
  ["a negative duration", [{ start: 5, end: 2 }], [5, -3]],
  ["empty options and an end mark", [{}, "b"], [0, 25]],
]) {
  test(`a measure of ${name}`, fresh(() => {
    performance.mark("a", { startTime: 10 });
    performance.mark("b", { startTime: 25 });
    const measure = performance.measure("m", ...args);
    assert_array_equals([measure.startTime, measure.duration], want);
  }));
}
test("the mark that was created last counts", fresh(() => {
  performance.mark("a", { startTime: 7 });
  performance.mark("a", { startTime: 3 });
  assert_equals(performance.measure("m", { start: "a", end: 10 }).startTime, 3);
}));
test("a measure copies its detail", fresh(() => {
  const detail = { x: 1 };
  const measure = performance.measure("m", { start: 0, detail });
  assert_equals(measure.detail.x, 1);
  assert_not_equals(measure.detail, detail);
}));
test("an unknown mark", fresh(() => {
  assert_throws_dom("SyntaxError", () => performance.measure("m", "none"));
  assert_throws_dom("SyntaxError", () => performance.measure("m", { start: 0, end: "none" }));
}));
test("options that contradict each other", fresh(() => {
  assert_throws_js(TypeError, () => performance.measure("m", { start: 0, end: 1, duration: 1 }));
  assert_throws_js(TypeError, () => performance.measure("m", { start: 0 }, "a"));
  assert_throws_js(TypeError, () => performance.measure("m", { duration: 1 }));
  assert_throws_js(TypeError, () => performance.measure("m", { detail: 1 }));
  assert_throws_js(TypeError, () => performance.measure("m", { start: -1 }));
  assert_throws_js(TypeError, () => performance.measure());
}));
test("entries are sorted by their start", fresh(() => {
  performance.mark("c", { startTime: 3 });
  performance.mark("a", { startTime: 1 });
  performance.measure("b", { start: 2, end: 3 });
  performance.mark("a2", { startTime: 1 });
  const names = performance.getEntries().filter((e) => ["mark", "measure"].includes(e.entryType)).map((e) => e.name);
  assert_array_equals(names, ["a", "a2", "b", "c"]);
}));
test("getEntriesByName and getEntriesByType", fresh(() => {
  const mark = performance.mark("x");
  const measure = performance.measure("x");
  performance.mark("y");
  assert_equals(performance.getEntriesByName("x").length, 2);
  assert_array_equals(performance.getEntriesByName("x", "mark"), [mark]);
  assert_array_equals(performance.getEntriesByName("x", "none"), []);
  assert_array_equals(performance.getEntriesByType("measure"), [measure]);
  assert_throws_js(TypeError, () => performance.getEntriesByName());
  assert_throws_js(TypeError, () => performance.getEntriesByType());
}));
test("clearMarks and clearMeasures", fresh(() => {
  for (const name of ["a", "b", "a"]) performance.mark(name);
  for (const name of ["a", "b"]) performance.measure(name);
  assert_equals(performance.clearMarks("a"), undefined);
  assert_array_equals(performance.getEntriesByType("mark").map((e) => e.name), ["b"]);
  assert_equals(performance.getEntriesByType("measure").length, 2);
  performance.clearMeasures();
  assert_equals(performance.getEntriesByType("measure").length, 0);
  performance.clearMarks();
  assert_equals(performance.getEntriesByType("mark").length, 0);
}));
test("getEntries returns a new array each time", fresh(() => assert_not_equals(performance.getEntries(), performance.getEntries())));
test("toJSON of an entry", fresh(() => {
  const { name, entryType, startTime, duration } = performance.mark("a", { startTime: 4 }).toJSON();
  assert_array_equals([name, entryType, startTime, duration], ["a", "mark", 4, 0]);
}));
for (const name of ["name", "entryType", "startTime", "duration"]) test(`${name} is an attribute`, () => assert_idl_attribute(PerformanceEntry.prototype, name));
for (const [name, length] of [["mark", 1], ["measure", 1], ["clearMarks", 0], ["clearMeasures", 0], ["getEntries", 0], ["getEntriesByName", 1], ["getEntriesByType", 1]]) {
  test(`${name} is a method`, () => assert_idl_method(Performance.prototype, name, length));
}
promise_test("time passes between marks", fresh(async () => {
  performance.mark("a");
  await wait(20);
  performance.mark("b");
  assert_true(performance.measure("m", "a", "b").duration >= 19);
}));
test("measure ignores options without its members", () => assert_equals(performance.measure("other options", { other: 1 }).startTime, 0));
test("measure reads inherited members", () => {
  const { startTime, duration } = performance.measure("inherited", Object.create({ start: 1, end: 4 }));
  assert_array_equals([startTime, duration], [1, 3]);
});
