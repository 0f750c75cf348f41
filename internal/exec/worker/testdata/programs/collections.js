// Maps, sets, weak maps, symbols, proxies and JSON.
const map = new Map(), set = new Set(), weak = new WeakMap(), keys = [], sym = Symbol("own");
let step = 0;
const proxy = new Proxy({ n: 0 }, { get: (t, k) => k === "n" ? t.n++ : Reflect.get(t, k) });
// ---
step++;
for (let i = 0; i < 5000; i++) { map.set(i % 300 + step, i / 4); set.add("k" + i % 50); if (i % 3 === 0) map.delete(i % 200); }
let s = 0;
for (const [k, v] of map) s += k * v;
for (let i = 0; i < 2000; i++) s += proxy.n;
const key = { [sym]: step, step };
keys.push(key); weak.set(key, { back: key });
if (keys.length > 9) keys.shift();
const copy = JSON.parse(JSON.stringify({ a: [...set], b: Object.fromEntries([...map].slice(0, 9)) }));
let has = 0; for (let i = 0; i < 4000; i++) if (weak.has(keys[i % keys.length]) && sym in keys[0]) has++;
`${s} ${map.size} ${set.size} ${has} ${copy.a.length} ${Object.keys(copy.b)} ${keys.map(k => weak.get(k).back.step)}`;
