// Recursive functions: numbers, a parser, a tree.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function ack(m, n) { return m === 0 ? n + 1 : n === 0 ? ack(m - 1, 1) : ack(m - 1, ack(m, n - 1)); }
function parse(s) { let i = 0; const e = () => { let v = t(); while (s[i] === "+" || s[i] === "-") v = s[i++] === "+" ? v + t() : v - t(); return v; }, t = () => { let v = f(); while (s[i] === "*") { i++; v *= f(); } return v; }, f = () => { if (s[i] === "(") { i++; const v = e(); i++; return v; } let n = 0; while (s[i] >= "0" && s[i] <= "9") n = n * 10 + (s.charCodeAt(i++) - 48); return n; }; return e(); }
let root = null, step = 0, size = 0;
function insert(t, k) { if (!t) { size++; return { k, l: null, r: null }; } if (k < t.k) t.l = insert(t.l, k); else if (k > t.k) t.r = insert(t.r, k); return t; }
function depth(t) { return t ? 1 + Math.max(depth(t.l), depth(t.r)) : 0; }
// ---
step++;
for (let i = 0; i < 400; i++) root = insert(root, (i * 7919 + step * 104729) % 1000);
let v = 0; for (let i = 0; i < 150; i++) v += parse(`(1+${i})*2-3*(4+${step})`);
`${fib(17)} ${ack(2, 6)} ${v} ${size} ${depth(root)}`;
