// Typed arrays and views, and a matrix product.
const size = 24, A = new Float64Array(size * size), B = new Float32Array(size * size), C = new Float64Array(size * size), bytes = new Uint8Array(512), view = new DataView(bytes.buffer);
let step = 0;
const list = [];
function multiply(n, a, b, c) { for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) { let s = 0; for (let k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j]; c[i * n + j] = s; } }
function clamp(a, v) { for (let i = 0; i < a.length; i++) a[i] = v * i; return a; }
// ---
step++;
for (let i = 0; i < A.length; i++) { A[i] = Math.sin(i + step) ; B[i] = i % 7 / 3; }
multiply(size, A, B, C); multiply(size, C, B, A);
const small = [new Uint8ClampedArray(64), new Int8Array(64), new Uint16Array(64), new Int32Array(64), new Uint32Array(64)].map(a => clamp(a, step * 1.7 - 3));
const big = new BigInt64Array(8).map((_, i) => BigInt(i * step));
for (let i = 0; i < 120; i++) { view.setFloat32(i * 4 % 508, i / step, i % 2 === 0); view.setInt16(i * 2, i * 300); }
list.push(small[step % 5]);
if (list.length > 10) list.shift();
let h = 0; for (let r = 0; r < 8; r++) for (let i = 0; i < bytes.length; i++) h = h * 31 + bytes[i] | 0;
`${C[5]} ${A[77]} ${small.map(a => a.join("")).join("/").length} ${h} ${list.length} ${Math.max(...small[4])} ${A.subarray(3, 6).reduce((x, y) => x + y)}`;
