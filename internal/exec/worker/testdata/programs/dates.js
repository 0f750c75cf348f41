// Built-in objects: Math, Date, Intl-free formatting, Promise chains, timers.
const log = [];
let step = 0, seen = 0;
const wait = ms => new Promise(r => setTimeout(r, ms));
async function chain(n) { let v = 0; for (let i = 0; i < n; i++) v += await (i % 2 ? i : Promise.resolve(i / 2)); return v; }
// ---
step++;
let s = 0;
for (let i = 0; i < 3000; i++) { s += Math.floor(Math.cbrt(i) * 100) + Math.max(i, step) + Math.hypot(i, 1) % 1 + Math.trunc(-i / 3) + Math.clz32(i) + Math.round(i / 7) + Math.abs(-i) + Math.sign(step - i); }
for (let i = 0; i < 300; i++) s += new Date(2020, i % 12, i % 28).getDay() + (i * 1.1).toFixed(2).length + parseInt("0x" + i, 16) + Number("1e" + i % 5);
const t = await chain(600);
await wait(5).then(() => seen++);
log.push([s, t, Math.random(), Date.now() % 1000, Math.random() * step | 0]);
if (log.length > 8) log.shift();
`${s} ${t} ${seen} ${log.join(";")}`;
