// Objects whose shapes change: dictionaries, deleted and added properties, changed prototypes, frozen ones.
const records = [], base = { greet() { return "g" + this.id; } }, table = Object.create(null);
let step = 0;
function make(i) { const o = Object.create(base); o.id = i; if (i % 3 === 0) o.extra = i / 2; if (i % 5 === 0) delete o.id, o.id = "s" + i; return o; }
function read(o) { return (o.id + "").length + (o.extra ?? 1) + o.greet().length; }
// ---
step++;
let n = 0;
for (let i = 0; i < 4000; i++) { n += read(make(i)); table["p" + i % 64] = i; if (i % 9 === 0) delete table["p" + i % 32]; }
records.push(make(step), { ...make(15), tag: step }, Object.freeze({ a: step, b: [step] }), Object.assign({}, { x: 0.5 * step }));
base["m" + step % 4] = () => step;
for (let i = 0; i < 4000; i++) n += base["m" + i % 4]?.() ?? 0;
if (step % 3 === 0) Object.setPrototypeOf(records[0], { greet: () => "other" });
if (records.length > 24) records.splice(0, 4);
for (const r of records) for (const k in r) n += k.length;
`${n} ${Object.keys(table).length} ${records.map(r => Object.entries(r).join(":"))} ${records[0].greet?.()}`;
