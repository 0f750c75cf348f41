// Numbers of all representations, kept in variables, arrays and objects.
let total = 0, half = 0.5, big = 1n, step = 0;
const kept = [], doubles = [], objects = [];
function mix(i, f) { return (i * 31 ^ i >>> 3) + f * 0.25; }
function scale(x) { return x * 2; }
function minus(x) { return x === 0 ? -x : -(x | 0); }
// ---
step++;
for (let i = 0; i < 20000; i++) {
  total = (total + mix(i, half)) % 1e9;
  half += 0.5;
}
for (let i = 0; i < 5000; i++) scale(i + 0.5);
kept.push(scale(1.5), scale(0.25), minus(0), minus(7), total, 2 ** 31 - step, 2 ** 30 + step, Math.fround(total), Math.imul(step, 7));
doubles.push(scale(step + 0.5), half);
objects.push({ a: scale(1.5), b: half, c: step / 2 });
big = big * 3n + BigInt(step);
if (kept.length > 90) kept.splice(0, 9);
`${total} ${half} ${big} ${kept.join()} ${doubles.length} ${JSON.stringify(objects.at(-1))} ${Object.is(kept[2], -0)}`;
