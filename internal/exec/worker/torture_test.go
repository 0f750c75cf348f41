package worker_test

import (
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/exec/worker"
)

var starts = flag.Int("starts", tier.Choose(len(snippets), 100), "how many workers TestTortureWorkers starts")

// snippets has scripts that make V8, the C library and the transpiler do rare things, late and in
// threads of their own. The system call filter might refuse a call that these need.
var snippets = []struct {
	name, code, want string
	plain            bool // needs WebAssembly
}{
	{"arithmetic", "6 * 7", "42", false},
	{"TypeScript", "enum E { A = 1, B }; namespace N { export const x: number = E.B }; N.x satisfies number", "2", false},
	{"hot code", "let f = n => n < 2 ? n : f(n - 1) + f(n - 2); let s = 0; for (let i = 0; i < 2e6; i++) s = (s + i * 3) | 0; f(20) + ':' + s", "6765:-72312512", false},
	{"garbage", "let a = []; for (let i = 0; i < 2e5; i++) { a.push({i, t: 't' + i}); if (a.length > 5e4) a = [] } a.length", "49997", false},
	{"large memory", "let n = 0; for (let i = 0; i < 8; i++) n += new Uint8Array(6 << 20).fill(1).length; let s = 'x'.repeat(4e6) + 'y'; n + s.indexOf('y')", "54331648", false},
	{"internationalization", "[new Intl.NumberFormat('de').format(1234.5), new Date(0).toLocaleString('en-GB', {timeZone: 'Asia/Tokyo'}), ['b', 'ä', 'a'].sort(new Intl.Collator('de').compare).join('')].join('|')", "1.234,5|01/01/1970, 09:00:00|aäb", false},
	{"regular expressions", "let n = 0; for (let i = 0; i < 200; i++) if (new RegExp('a' + i + '(?<x>b|c)*d', 'u').test('a' + i + 'bcbcd')) n++; 'x'.repeat(1e5).replace(/x/g, 'yz').length + n", "200200", false},
	{"code from text", "let n = 0; for (let i = 0; i < 300; i++) n += new Function('x', 'return x * ' + i)(2) + eval('1 + ' + i); n", "134850", false},
	{"stack overflow", "let d = 0; const down = () => { d++; down() }; try { down() } catch (e) { e.name + (d > 1000) }", "RangeErrortrue", false},
	{"timers", "let n = 0; const t = setInterval(() => n++, 1); await new Promise(r => setTimeout(r, 15)); clearInterval(t); n > 3", "true", false},
	{"promises", "let n = 0; await Promise.all(Array.from({length: 2e4}, async (_, i) => { await null; n += i })); n", "199990000", false},
	{"big numbers", "(3n ** 20000n).toString().length", "9543", false},
	{"JSON", "JSON.parse(JSON.stringify(Array.from({length: 2e4}, (_, i) => ({i, s: 'ü' + i})))).length", "20000", false},
	{"output", "for (let i = 0; i < 2000; i++) console.log({i, deep: {a: [i]}}); 'said'", "said", false},
	{"an error", "try { null.x } catch (e) { e.stack.includes('main.ts') || e.stack.includes('cell.ts') }", "true", false},
	{"collections", "let m = new Map; for (let i = 0; i < 1e5; i++) m.set('k' + i, i); let w = new WeakRef({}); m.size", "100000", false},
	{"sort", "Array.from({length: 2e5}, (_, i) => (i * 7919) % 200003).sort((a, b) => a - b)[1000]", "1000", false},

	{"WebAssembly", wasmAdd + "let m = new WebAssembly.Module(bytes), s = 0; for (let i = 0; i < 20; i++) { const x = new WebAssembly.Instance(m).exports.add; for (let j = 0; j < 1e4; j++) s = x(s, j) } s", "999900000", true},
	{"WebAssembly compiled in threads", wasmAdd + "let s = 0; for (let i = 0; i < 10; i++) s += (await WebAssembly.instantiate(bytes)).instance.exports.add(i, 1); s", "55", true},
	{"WebAssembly memory", "const m = new WebAssembly.Memory({initial: 1, maximum: 200}); m.grow(100); new Uint8Array(m.buffer).fill(7); m.buffer.byteLength", "6619136", true},
	{"shared memory", "const b = new Int32Array(new SharedArrayBuffer(64)); Atomics.add(b, 0, 5); Atomics.load(b, 0)", "5", true},
	{"very hot code", "let s = 0; for (let i = 0; i < 2e7; i++) s = (s + Math.imul(i, 3)) | 0; s", "1628683392", true},
}

// wasmAdd is a WebAssembly module that exports add(i32, i32).
const wasmAdd = "const bytes = new Uint8Array([0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,10,9,1,7,0,32,0,32,1,106,11]);"

// Honest scripts run in one process each. None is killed, and no process or descriptor is left.
// "make torture-workers" starts 10,000. The test is not parallel, because it counts the processes and
// descriptors of this process.
func TestTortureWorkers(t *testing.T) {
	const lanes = 2
	open := openFiles(t)
	pools := map[bool]*worker.Pool{
		true:  worker.New(worker.Options{Idle: -1}),
		false: worker.New(worker.Options{Idle: -1, Stateless: true}),
	}
	var next, stateful, failed atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range lanes {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= *starts || failed.Load() > 20 {
					return
				}
				s := snippets[i%len(snippets)]
				task := patient(s.code)
				task.HeapLimitBytes = 64 << 20
				// Every other time the heap is saved if the snippet permits it.
				if task.Stateful = !s.plain && i/len(snippets)%2 == 0; task.Stateful {
					stateful.Add(1)
				}
				o, err := pools[task.Stateful].Run(t.Context(), task, discard)
				if err != nil || o.Result == nil || *o.Result != s.want {
					failed.Add(1)
					got := "nothing"
					if o.Result != nil {
						got = *o.Result
					}
					t.Errorf("start %d, stateful %t, %s: %s, want %s: %s %s %v", i, task.Stateful, s.name, got, s.want, o.Reason, o.Error, err)
				}
			}
		})
	}
	wg.Wait()
	for _, pool := range pools {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}
	if children := childProcesses(t); len(children) > 0 {
		t.Errorf("processes are left: %v", children)
	}
	if after := openFiles(t); len(after) > len(open) {
		t.Errorf("descriptors before %q, after %q", open, after)
	}
	t.Logf("%d starts, %d of them stateful, %d failed, %s each", *starts, stateful.Load(), failed.Load(), (time.Since(began) / time.Duration(max(1, *starts))).Round(10*time.Microsecond))
}

// Ten thousand runs in reused workers leave no more processes and descriptors than a few runs.
func TestManyRunsLeaveNothing(t *testing.T) {
	runs := max(tier.Choose(60, 200), *starts)
	open := openFiles(t)
	pool := worker.New(worker.Options{Idle: 2, MaxRuns: tier.Choose(15, 50)})
	var wg sync.WaitGroup
	var next atomic.Int64
	for lane := range 2 {
		wg.Go(func() {
			for next.Add(1) <= int64(runs) {
				task := patient("globalThis.n = 1; console.log(n); setTimeout(() => {}, 1); n")
				task.Tenant = fmt.Sprint("tenant", lane)
				if o, err := pool.Run(t.Context(), task, discard); err != nil || o.Status != events.StatusCompleted {
					t.Errorf("%+v, %v", o, err)
					return
				}
				if n := len(childProcesses(t)); n > 8 { // two at work, two idle, two fresh, two on their way out
					t.Errorf("%d processes at once", n)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if children := childProcesses(t); len(children) > 0 {
		t.Errorf("processes are left: %v", children)
	}
	if after := openFiles(t); len(after) > len(open) {
		t.Errorf("descriptors before %q, after %q", open, after)
	}
}
