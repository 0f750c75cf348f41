// Classes with fields, private members, accessors, inheritance and statics.
class Point { #secret = 1; static made = 0; x; y; constructor(x, y) { this.x = x; this.y = y; Point.made++; } get norm() { return Math.sqrt(this.x * this.x + this.y * this.y); } add(o) { return new Point(this.x + o.x, this.y + o.y); } touch() { return ++this.#secret; } }
class Point3 extends Point { constructor(x, y, z) { super(x, y); this.z = z; } get norm() { return super.norm + this.z; } add(o) { return new Point3(this.x + o.x, this.y + o.y, this.z + (o.z ?? 0)); } }
class Stack extends Array { top() { return this.at(-1); } }
function Old(n) { this.n = n; if (n & 1) this.odd = true; }
Old.prototype.twice = function () { return this.n * 2; };
const kept = [], stack = new Stack();
let step = 0;
// ---
step++;
let p = new Point(0, 0), q = new Point3(0, 0.5, 1), n = 0;
for (let i = 0; i < 6000; i++) {
  p = p.add(new Point(i % 3, 1));
  if (i % 2) q = q.add(i % 4 === 1 ? p : q.add(new Point3(1, 1, 1)));
  n += p.norm > q.norm ? 1 : 0;
  p.touch();
  n += new Old(i).twice() % 7;
  if (q.x > 1e6) q = new Point3(0, 0.5, 1);
}
class Local { constructor() { this.at = step; } }
for (let i = 0; i < 100; i++) new Local();
kept.push(p, new Old(step), new Local());
stack.push(p.norm);
if (kept.length > 21) kept.splice(0, 3);
`${n} ${Point.made} ${p.x},${p.y} ${q.x},${q.y},${q.z} ${stack.top()} ${kept.length} ${kept.map(k => Object.keys(k).join("")).join()}`;
