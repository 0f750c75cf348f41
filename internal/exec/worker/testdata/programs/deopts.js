// Code that is optimized for one kind of value and then gets others.
function add(a, b) { return a + b; }
function get(o) { return o.v; }
function store(a, i, v) { a[i] = v; return a.length; }
function sum(a) { let s = 0; for (let i = 0; i < a.length; i++) s += a[i]; return s; }
const results = [], shapes = [{ v: 1 }, { w: 0, v: 2 }, { v: 3.5 }];
let step = 0;
// ---
step++;
let r = 0;
for (let i = 0; i < 10000; i++) r = add(r, i) | 0;
for (let i = 0; i < 3000; i++) r = add(r, 0.5);
results.push(add("s", step), add(1n, 2n), add({ valueOf() { return step; } }, 1), r);
for (let i = 0; i < 8000; i++) r += get(shapes[i % (i < 4000 ? 1 : 3)]);
shapes.push(Object.defineProperty({}, "v", { get: () => step, configurable: true }), step % 2 ? { v: "t" } : { u: 1, t: 2, v: step });
r += Number(get(shapes.at(-2)));
const a = [];
for (let i = 0; i < 6000; i++) store(a, i, i);
store(a, 6001, 1); store(a, 3, 0.5); store(a, 4, "x");
results.push(sum(new Array(3000).fill(step)), sum([0.5, 1.5, step]), typeof sum([1, "2"]), sum(a).length);
let over = 2 ** 30 - 3000;
for (let i = 0; i < 6000; i++) over = over + 1;
if (results.length > 80) results.splice(0, 8);
if (shapes.length > 16) shapes.splice(3, 2);
`${r} ${results.join()} ${over} ${a.length} ${shapes.length}`;
