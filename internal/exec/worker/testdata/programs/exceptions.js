// Errors that are thrown, caught, kept and rethrown in hot code.
class Mine extends Error { constructor(m, n) { super(m); this.n = n; } }
function risky(i) { if (i % 7 === 0) throw new Mine("seven " + i, i); if (i % 11 === 0) null.x; if (i % 13 === 0) undefinedName; return i; }
function guarded(i) { try { return risky(i); } catch (e) { return e instanceof Mine ? e.n : -1; } finally { calls++; } }
let calls = 0, step = 0;
const errors = [];
// ---
step++;
let s = 0;
for (let i = 1; i < 1500; i++) s += guarded(i);
for (let i = 0; i < 8000; i++) { try { if (i === 7777) throw step; s += i & 1; } catch (e) { s += e; } }
try { risky(7 * step); } catch (e) { errors.push(e); }
function deep(n) { return n === 0 ? risky(14) : deep(n - 1) + 1; }
let message = "";
for (let i = 0; i < 200; i++) { try { deep(10); } catch (e) { message = e.message; } }
if (errors.length > 5) errors.shift();
let range; try { (function f() { f(); })(); } catch (e) { range = e.constructor.name; }
`${s} ${calls} ${errors.map(e => e.message + e.stack.split("\n").length)} ${message} ${range}`;
