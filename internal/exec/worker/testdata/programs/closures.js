// Closures that share and change variables, also of eval and with default parameters.
const makers = [];
let step = 0;
function counter(start) { let n = start; return { up(by = 1) { n += by; return n; }, get: () => n, half: () => n / 2 }; }
function compose(...fs) { return x => fs.reduce((v, f) => f(v), x); }
function evaluated(k) { let hidden = k; return eval("(y => hidden += y)"); }
const shared = counter(0), inner = evaluated(3);
// ---
step++;
const c = counter(step);
makers.push(c);
for (let i = 0; i < 20000; i++) { c.up(); shared.up(i & 3); inner(i % 5); }
const f = compose(x => x + step, x => x * 2, x => x - 1);
let sum = 0;
for (let i = 0; i < 5000; i++) sum += f(i);
if (makers.length > 12) makers.shift();
(function () { var sum2 = 0; for (let k = 0; k < 3000; k++) { sum2 += arguments.length + arguments[0]; } return sum2; })(step, 2);
`${makers.map(m => m.get()).join()} ${shared.get()} ${shared.half()} ${inner(0)} ${sum}`;
