// Arrays of all kinds of elements, and the functions that V8 inlines.
const kinds = [[], [1, 2, 3], [0.5, 1.5], ["a", {}], [1, , 3], new Array(20), Array.from({ length: 4 }, (_, i) => i / 2)];
const grown = [], maps = [];
let step = 0;
function grow(a, n) { for (let i = 0; i < n; i++) a.push(i & 1 ? i : i / 2); return a; }
// ---
step++;
let n = 0;
for (let i = 0; i < 400; i++) {
  const k = kinds[i % kinds.length];
  n += k.map(x => x ?? 0).filter(Boolean).length + k.indexOf(3) + [...k].length + k.concat([i]).length;
  n += k.reduce((s, x) => s + (Number(x) || 0), 0) | 0;
  k.forEach(x => { if (x === i) n++; });
  if (k.some(x => x === 3) && !k.every(x => x > 0)) n++;
}
grown.push(grow([], 300 + step), [1, 2, 3].map(x => x * 1.5), [1.5, 2.5].map(x => x * 2), Array(5).fill(0).map((_, i) => i * i));
for (let i = 0; i < 3000; i++) { const [a, b] = [i, n]; n = a > b ? a : b; const { x, ...rest } = { x: i, y: 2 }; n += rest.y; }
maps.push([3, 1, 2].sort((a, b) => a - b), grown.at(-1).slice(1), grown.at(-4).splice(2, 3));
if (grown.length > 20) grown.splice(0, 4);
if (maps.length > 15) maps.splice(0, 3);
kinds[step % 4].push(step % 3 ? step : step + 0.5);
if (kinds[0].length > 12) kinds[0].length = 0;
`${n} ${grown.map(g => g.length)} ${maps.map(m => m.join("|"))} ${kinds.map(k => k.length)} ${grown.at(-2)}`;
