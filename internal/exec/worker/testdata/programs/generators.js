// Generators and asynchronous functions, suspended across runs.
function* naturals(from) { let n = from; for (;;) { const got = yield n++; if (got) n += got; } }
function* take(it, n) { for (const v of it) { if (n-- <= 0) return; yield v; } }
async function collect(it) { const all = []; for await (const v of it) all.push(v); return all; }
async function* slow(n) { for (let i = 0; i < n; i++) { await null; yield i * 1.5; } }
const suspended = naturals(0), list = [];
let step = 0;
// ---
step++;
let sum = 0;
for (let i = 0; i < 4000; i++) sum += suspended.next(i % 100 === 0 ? 2 : 0).value;
for (const v of take(naturals(step), 4000)) sum += v;
const got = await collect(slow(800));
list.push(got.reduce((a, b) => a + b), sum);
if (list.length > 20) list.splice(0, 2);
const [a, b, ...rest] = take(naturals(5), 6);
`${sum} ${list.join()} ${got.length} ${a + b} ${rest}`;
