package replay_test

import (
	"crypto/sha512"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/exec/worker"
	"daybook/internal/modules"
	"daybook/internal/modules/tarballtest"
	"daybook/ledger"
	"daybook/runner"
)

// generator writes random programs: timers, promises, randomness, dates, host calls, fetches,
// modules, WebAssembly, generators, classes, closures, collections, regular expressions and
// errors. The text of a program depends only on the seed.
type generator struct {
	r     *rand.Rand
	names int
	depth int
}

func (g *generator) name() string {
	g.names++
	return fmt.Sprintf("v%d", g.names)
}

// pick returns one of the texts.
func (g *generator) pick(texts ...string) string { return texts[g.r.IntN(len(texts))] }

// value returns an expression that depends on everything that a replay must repeat.
func (g *generator) value() string {
	switch g.r.IntN(12) {
	case 0:
		return "Math.random()"
	case 1:
		return "Date.now()"
	case 2:
		return "new Date().toISOString()"
	case 3:
		return "crypto.randomUUID()"
	case 4:
		return fmt.Sprintf("[...crypto.getRandomValues(new Uint8Array(%d))]", 1+g.r.IntN(5))
	case 5:
		return fmt.Sprintf("performance.now() + %d", g.r.IntN(100))
	case 6:
		return fmt.Sprintf(`"%s".replace(/[aeiou]/g, c => c.toUpperCase())`, g.pick("replay", "daybook", "heap", "ledger"))
	case 7:
		return fmt.Sprintf("new Map([[%d, %q], [Math.random(), null]])", g.r.IntN(9), g.pick("a", "b"))
	case 8:
		return fmt.Sprintf("%dn ** 5n", g.r.IntN(1000))
	case 9:
		return fmt.Sprintf("structuredClone({ a: [%d, { b: new Date(%d) }] })", g.r.IntN(9), g.r.IntN(1e9))
	case 10:
		return fmt.Sprintf("[3, 1, 2].map(x => x * %d).sort((a, b) => a - b)", g.r.IntN(9))
	default:
		return fmt.Sprintf("%d", g.r.IntN(1000))
	}
}

// statement returns a statement, which may hold others.
func (g *generator) statement() string {
	g.depth++
	defer func() { g.depth-- }()
	kind := g.r.IntN(19)
	if g.depth > 3 {
		kind = g.r.IntN(4)
	}
	switch kind {
	case 0:
		return fmt.Sprintf("console.log(%s, %s);", g.value(), g.value())
	case 1:
		return fmt.Sprintf("console.%s(%s);", g.pick("info", "warn", "error", "debug"), g.value())
	case 2:
		return fmt.Sprintf("kept.push(%s);", g.value())
	case 3:
		return fmt.Sprintf("globalThis.%s = %s;", g.name(), g.value())
	case 4:
		return fmt.Sprintf("setTimeout(async () => { %s }, %d);", g.statement(), g.r.IntN(20))
	case 5:
		n := g.name()
		return fmt.Sprintf("{ let %[1]s = 0; const h = setInterval(async () => { %[2]s if (++%[1]s >= %[3]d) clearInterval(h); }, %[4]d); }", n, g.statement(), 1+g.r.IntN(4), 1+g.r.IntN(9))
	case 6:
		return fmt.Sprintf("queueMicrotask(async () => { %s });", g.statement())
	case 7:
		return fmt.Sprintf("await new Promise(done => setTimeout(done, %d)); %s", g.r.IntN(15), g.statement())
	case 8:
		n := g.name()
		return fmt.Sprintf("class C_%[1]s { #x = %[2]s; static made = 0; constructor() { C_%[1]s.made++ } get x() { return this.#x } } kept.push(new C_%[1]s().x, C_%[1]s.made);", n, g.value())
	case 9:
		n := g.name()
		return fmt.Sprintf("globalThis.%[1]s = (function* () { for (let i = 0; ; i++) yield [i, %[2]s]; })(); %[1]s.next(); kept.push(%[1]s.next().value);", n, g.value())
	case 10:
		return fmt.Sprintf("try { throw new %s(`e ${%s}`); } catch (e) { console.log(e.name, e.message); }", g.pick("Error", "TypeError", "RangeError"), g.value())
	case 11:
		return fmt.Sprintf("console.log(await Promise.%s([%s, new Promise(done => setTimeout(done, %d, 7)), Promise.resolve(%s)]));", g.pick("all", "race", "allSettled", "any"), g.value(), g.r.IntN(9), g.value())
	case 12:
		return fmt.Sprintf("console.log(JSON.stringify(await mcp.shop.price({ n: %d })));", g.r.IntN(100))
	case 13:
		return fmt.Sprintf("await Promise.all([mcp.shop.price({ a: %d }), mcp.shop.buy({ b: %d }).catch(e => e.message)].map(async p => console.log(typeof await p, Date.now())));", g.r.IntN(9), g.r.IntN(9))
	case 14:
		return fmt.Sprintf("{ const r = await fetch(`https://example.com/${%s}`, { method: %q, headers: { a: `${Math.random()}` } }); console.log(r.status, [...r.headers], %s); }",
			g.value(), g.pick("GET", "POST"), g.pick("await r.text()", "(await r.json()).n + Date.now()", "new Uint8Array(await r.arrayBuffer()).length"))
	case 15:
		return fmt.Sprintf("{ const m = await import(%q); console.log(m.next(%s), m.default.made); kept.push(m.words.join()); }", g.pick("counter", "npm:counter@1", "npm:counter@^2"), g.value())
	case 16:
		return fmt.Sprintf("await import(%q).then(m => kept.push(Object.keys(m).length), e => console.log(e.message));", g.pick("fails", "missing", "words/list.json", "node:path", "./helper.ts"))
	case 17:
		n := g.name()
		return fmt.Sprintf("if (globalThis.WebAssembly) { const m_%[1]s = new WebAssembly.Module(wasm), { exports } = %[2]s; exports.next(); kept.push(exports.next(), %[3]s); const again = new WebAssembly.Instance(m_%[1]s); console.log(again.exports.next(), Object.keys(exports), exports); %[4]s }",
			n, g.pick("new WebAssembly.Instance(m_"+n+")", "(await WebAssembly.instantiate(wasm)).instance", "await WebAssembly.instantiate(m_"+n+")"), g.value(), g.statement())
	default:
		return fmt.Sprintf("for (const x of [1, 2]) { %s }", g.statement())
	}
}

// countModule is a WebAssembly module, in hexadecimal, that exports next, which counts its calls.
const countModule = "0061736d010000000105016000017f030201000606017f0141000b070801046e65787400000a0d010b00230041016a240023000b"

// files are the files of every generated run.
var files = map[string]string{"helper.ts": "import { words } from 'words'; export const help = (n: number): string => words[n % words.length] + Math.random()"}

// packages are the admitted packages, by NAME@VERSION.
var packages = map[string]map[string]string{
	"counter@1.0.0": {"index.js": "import { words } from 'words'; class Counter { static made = 0; n = Math.random(); constructor() { Counter.made++ } } let last = new Counter(); export const next = x => { last = new Counter(); return [x, last.n, Date.now()] }; export { words }; export default Counter"},
	"counter@2.0.0": {"index.js": "const { words } = require('words'); exports.words = words; exports.next = x => `${words.length} ${x}`; exports.made = Math.random(); setTimeout(() => console.log('a module waits'), 3)"},
	"words@1.0.0":   {"index.js": "exports.words = require('./list.json').words.map(w => w.replace(/[aeiou]/g, c => c + Math.random().toFixed(1)))", "list.json": `{"words":["tea","salt"]}`},
	"fails@1.0.0":   {"index.js": "throw new RangeError('not today ' + Math.random())"},
}

// admitPackages admits packages, whose dependency is words.
func (s *testServer) admitPackages() {
	s.t.Helper()
	d := &events.ModuleAdmitted{Specifier: "all", Registry: "https://example.com", Actor: events.Actor{Principal: "tester", Transport: "embed"}}
	for _, id := range slices.Sorted(maps.Keys(packages)) {
		name, version, _ := strings.Cut(id, "@")
		all := maps.Clone(packages[id])
		all["package.json"] = fmt.Sprintf(`{"name":%q,"version":%q}`, name, version)
		packed := tarballtest.Pack(all)
		ref, err := s.ledger.StoreTarball(s.t.Context(), events.DefaultTenant, packed)
		if err != nil {
			s.t.Fatal(err)
		}
		p := events.AdmittedPackage{Name: name, Version: version, Direct: true, SHA512: fmt.Sprintf("%x", sha512.Sum512(packed)), Tarball: ref, Files: len(all)}
		if name == "counter" {
			p.Dependencies = []events.ModuleDependency{{Name: "words", Package: "words@1.0.0"}}
		}
		d.Packages = append(d.Packages, p)
	}
	if _, err := s.ledger.AdmitModules(s.t.Context(), events.DefaultTenant, 0, d); err != nil {
		s.t.Fatal(err)
	}
}

// program returns a program.
func (g *generator) program() string {
	var b strings.Builder
	if g.r.IntN(4) == 0 {
		n := g.name()
		fmt.Fprintf(&b, "import %s, { words as w_%s } from %q;\nimport { help as h_%s } from './helper.ts';\nconsole.log(w_%s, h_%s(%d));\n", n, n, g.pick("counter", "npm:counter@1"), n, n, n, g.r.IntN(9))
	}
	b.WriteString("var kept = globalThis.kept ?? [];\n")
	fmt.Fprintf(&b, "var wasm = Uint8Array.from({ length: %d }, (_, i) => parseInt(%q.slice(2 * i, 2 * i + 2), 16));\n", len(countModule)/2, countModule)
	for range 2 + g.r.IntN(8) {
		b.WriteString(g.statement() + "\n")
	}
	switch g.r.IntN(12) {
	case 0:
		fmt.Fprintf(&b, "throw new Error(`last ${%s}`);\n", g.value())
	case 1:
		fmt.Fprintf(&b, "setTimeout(() => { throw new RangeError(`late ${%s}`) }, %d); undefined\n", g.value(), g.r.IntN(9))
	case 2:
		b.WriteString("Promise.reject(new Error('unhandled')); kept.length\n")
	case 3:
		b.WriteString("await new Promise(() => {});\n")
	case 4:
		b.WriteString("setTimeout(() => kept.push('left'), 1e6).unref(); kept\n")
	default:
		fmt.Fprintf(&b, "%s\n", g.pick("kept", "kept.length", "({ kept, at: Date.now() })", "undefined", "new Set(kept)"))
	}
	return b.String()
}

// Generated programs, every second of which continues from the heap of the one before, and every
// fourth of which has no heap and WebAssembly, are replayed identically in two other pools of
// workers.
func TestGeneratedPrograms(t *testing.T) {
	pool := newPool(t)
	lock := &modules.Lock{}
	s := newTestServerOn(t, pool, pool, func(o *runner.Options) { o.Modules = lock })
	lock.Admitted, lock.Texts = s.ledger, s.store
	s.tools.site = `{"status":200,"statusText":"OK","url":"https://example.com/a","redirected":false,"headers":[["x-count","1"]],"body":{"text":"{\"n\":7}"}}`
	s.admitPackages()
	others := []*worker.Pool{newPool(t), newPool(t)}
	const seed = 20261128
	var parent string
	ended := map[string]int{} // by the reason of the end
	withWASM := 0             // runs that may use WebAssembly
	for i := range tier.Choose(60, 1000) {
		g := &generator{r: rand.New(rand.NewPCG(seed, uint64(i)))}
		code := g.program()
		rec := s.run(code, func(sub *ledger.Submission) {
			sub.Files = files
			switch {
			case i%2 == 1:
				sub.Heap = parent
			case i%4 == 2:
				sub.Heap = ledger.HeapNone
			}
		})
		if strings.Contains(code, "WebAssembly") && !rec.Request.Stateful {
			withWASM++
		}
		ended[rec.Ending.Reason]++
		if parent = ""; rec.Ending.Heap != nil {
			parent = rec.Ending.Heap.SHA256
		}
		made := s.tools.made.Load()
		for n, other := range others {
			if report := s.replay(rec, other); report.Verdict != events.ReplayIdentical || report.Stopped {
				t.Errorf("program %d, replay %d: %s\n%s", i, n+1, describe(report), code)
			}
		}
		if s.tools.made.Load() != made {
			t.Errorf("program %d: a replay called a tool", i)
		}
	}
	t.Logf("reasons: %v", ended)
	if ended[""] < 5 || ended[runner.ReasonException] < 5 || ended[runner.ReasonNeverSettled] == 0 || ended[runner.ReasonSyntaxError] > 0 {
		t.Errorf("the programs ended for the reasons %v", ended)
	}
	if withWASM == 0 {
		t.Error("no program uses WebAssembly")
	}
}
