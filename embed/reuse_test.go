package embed_test

import (
	"net/http"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/internal/modules/registrytest"
)

// With reuse, a run is executed again if its result depended on the admitted packages or on the
// WebAssembly modules of the operator, because both may have changed since.
func TestReuseReadsModulesAgain(t *testing.T) {
	t.Parallel()
	source := registrytest.New()
	defer source.Close()
	for _, version := range []string{"1.0.0", "2.0.0"} {
		source.Add("release", version, nil, map[string]string{"index.js": "exports.version = '" + version + "'"})
	}
	opts := embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Runs: embed.RunOptions{Registry: source.URL, WASMModules: map[string]string{"math": wasmFile(t, addModule)}}}
	var ss *sdk.ClientSession
	connect := func(book *embed.Daybook) {
		t.Helper()
		var err error
		ss, err = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(within(t), &sdk.StreamableClientTransport{Endpoint: book.URL() + "/mcp", HTTPClient: &http.Client{Transport: namedTransport("reuse")}}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	book := start(t, opts)
	connect(book)
	var last string
	step := func(code, heap, want string, isReused bool) {
		t.Helper()
		arguments := map[string]any{"code": code, "wait_secs": 60, "reuse": true}
		if heap != "" {
			arguments["heap"] = heap
		}
		a, refused := runOverMCP(t, ss, arguments)
		if refused != "" || a.Result != want {
			t.Errorf("%s: %q %s %s, want %q", code, a.Result, a.Error, refused, want)
		}
		if got := a.ID == last; got != isReused {
			t.Errorf("%s: reused: %t", code, got)
		}
		last = a.ID
	}
	admit := func(specifier string) {
		t.Helper()
		if status, body := postTo(t, book, "/api/modules", `{"specifier":"`+specifier+`"}`); status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
	}
	const code = "(await import('release')).version"
	const caught = "await import('release').then(m => m.version, e => e.code)"
	step(caught, "", "ERR_MODULE_NOT_FOUND", false)
	admit("release@1")
	step(caught, "", "1.0.0", false)
	step(code, "", "1.0.0", false)
	admit("release@2")
	step(code, "", "2.0.0", false)
	const plain = "(await import('node:path')).sep"
	step(plain, "", "/", false)
	step(plain, "", "/", true)

	const sum = "typeof math === 'object' ? math.add(40, 2) : 0"
	step("6 * 7", "none", "42", false)
	step(sum, "none", "42", false)
	step(sum, "", "0", false)
	step(sum, "", "0", true)
	restart := func(modules map[string]string) {
		t.Helper()
		ss.Close()
		closeBook(t, book)
		opts.Runs.WASMModules = modules
		book = start(t, opts)
		connect(book)
	}
	step(sum, "none", "42", false)
	restart(map[string]string{"math": wasmFile(t, subModule)})
	step(sum, "none", "38", false)
	restart(nil)
	step(sum, "none", "0", false)
	step(sum, "none", "0", true)
	restart(map[string]string{"math": wasmFile(t, addModule)})
	step(sum, "none", "42", false)
	ss.Close()
}
