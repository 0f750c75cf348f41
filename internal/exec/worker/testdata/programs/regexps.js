// Regular expressions with state, groups and replacers.
const sticky = /(\w)(\d+)/y, global = /(?<key>[a-z]+)=(?<value>\d+)/g, found = [];
let step = 0;
function parse(s) { const out = {}; for (const m of s.matchAll(global)) out[m.groups.key] = +m.groups.value; return out; }
function scan(s) { let n = 0; sticky.lastIndex = 0; for (let m; (m = sticky.exec(s)); ) n += m[2].length; return n; }
// ---
step++;
let n = 0;
for (let i = 0; i < 500; i++) {
  const o = parse(`a=${i}&bc=${i * step}&d=x`);
  n += o.a + (o.bc ?? 0) % 10 + scan("a1b22c333" + i);
  if (/^1\d*0$/.test(String(i))) n++;
  n += "x-y-z".replace(/-(\w)/g, (_, c) => c.toUpperCase() + i).length + "a,b;c".split(/[,;]/).length;
}
found.push(parse(`k=${step}&z=9`), new RegExp("s" + step, "gi"), /lit/.exec("a lit b"));
if (found.length > 15) found.splice(0, 3);
`${n} ${found.map(String).join()} ${sticky.lastIndex} ${global.lastIndex} ${JSON.stringify(found.at(-3))}`;
