// Strings of all forms: flat, joined, parts of others, numbers as text, internalized.
let text = "", counts = {}, step = 0;
const parts = [], names = new Map();
function hash(s) { let h = 7; for (let i = 0; i < s.length; i++) h = h * 31 + s.charCodeAt(i) | 0; return h; }
function word(i) { return "w" + (i % 97) + (i & 1 ? "é" : "x") + String.fromCharCode(97 + i % 26); }
function pad(s, n) { while (s.length < n) s = s + "-" + s.length; return s; }
// ---
step++;
for (let i = 0; i < 6000; i++) {
  const w = word(i);
  counts[w] = (counts[w] ?? 0) + 1;
  if (i % 50 === 0) names.set(w, pad(w, 40).slice(3, 30));
  if (i % 500 === 0) { parts.push(w + "/" + i); text += w; }
}
let h = 0;
for (let i = 0; i < 300; i++) h = h + hash(parts[i % parts.length] + i) | 0;
if (parts.length > 60) parts.splice(0, 12);
if (text.length > 2000) text = text.substring(1000);
`${h} ${text.length} ${Object.keys(counts).length} ${names.size} ${parts.at(-1)} ${[...names.values()].join("").length} ${"abc" < word(step)} ${text.lastIndexOf("w")}`;
