package frozen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/cli"
	"daybook/internal/tools/toolserver"
)

// TestFreeze writes testdata/directory.tar.zst. It runs only with -freeze.
//
// The directory lacks events that take too long or need a crash between two appends:
// webhook.dead_lettered and webhook.redelivered (15 attempts take more than an hour), and
// session.turn_skipped.
//
// Volume 1 is removed, volume 2 is sealed, volume 3 has lost an event whose damage was
// accepted, and volume 4 is active. Its last runs are open, as a crash leaves them.
func TestFreeze(t *testing.T) {
	if !*freeze {
		t.Skip("writes the archive with -freeze only")
	}
	root := t.TempDir()
	w := &writer{T: t, dir: directoryIn(root)}
	w.dir.tokens = tokens{operator: w.createToken("default", "operator"), acme: w.createToken("acme", "ada")}
	w.tools = newToolServer(t, "today", "large", "destroy")
	w.opts = embed.Options{
		DataDir: w.dir.data, Access: embed.AccessOptions{TokenFile: w.dir.tokenFile}, Webhooks: embed.WebhookOptions{AllowPrivate: true}, Storage: embed.StorageOptions{SealEvery: "never"}, Proof: embed.ProofOptions{ScrubEvents: -1}, Slots: embed.SlotOptions{Total: 2, Extra: -1},
		Runs: embed.RunOptions{OutputMaxBytes: 16 << 10}, Version: "frozen",
		Tools: embed.ToolOptions{Servers: []toolserver.Config{{Name: "weather", Transport: toolserver.HTTP, URL: w.tools.url}}},
	}

	w.open()
	w.removedVolume()
	w.runs()
	w.tags()
	w.namedSessions()
	w.hostCalls()
	w.logicalSessions()
	w.conversations()
	w.agentSessions()
	w.webhooks()
	w.secondTenant()
	handedBack := w.submit(operator, `{"code":"console.log('before'); await new Promise(done => setTimeout(done, 1500)); console.log('after'); 'twice'","session":"handed back"}`)
	w.awaitOutput(handedBack)
	w.close()

	w.opts.Content.Erasable = true
	w.open()
	w.ended(operator, handedBack)
	w.erasableSessions()
	w.seal(2)
	w.run(operator, `{"code":"console.log('in volume', 3); 3","session":"counted"}`)
	lost := w.run(operator, `{"code":"console.log('damaged' + ' soon'); 4"}`)
	w.run(operator, `{"code":"console.log('after the damage'); 5"}`)
	w.close()
	w.damage("LEDGER-0003", "damaged soon")

	w.opts.Storage.AcceptDamage = true
	w.opts.Contexts.Idle = time.Second          // contexts that were used before expire
	w.tools = newToolServer(t, "today", "hold") // a session with other tools is rebound
	w.opts.Tools.Servers[0].URL = w.tools.url
	w.open()
	w.opts.Storage.AcceptDamage = false
	w.ended(operator, lost.ID)
	w.afterDamage()
	w.openRuns()

	crashed := filepath.Join(t.TempDir(), "copy")
	if err := copyFiles(root, crashed); err != nil {
		t.Fatal(err)
	}
	w.requireOpen()
	w.tools.release()
	w.close()

	secrets, err := json.Marshal(w.dir.tokens)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(crashed, secretsName), secrets, 0o600); err != nil {
		t.Fatal(err)
	}
	archive, files, err := pack(crashed)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files, %d bytes packed", files, len(archive))
	if len(archive) > maxArchive {
		t.Errorf("the archive has %d bytes, at most %d are allowed", len(archive), maxArchive)
	}
	if err := os.WriteFile(testdata(archiveFile), archive, 0o644); err != nil {
		t.Fatal(err)
	}
}

// writer creates the events of the archive.
type writer struct {
	*testing.T
	dir     directory
	opts    embed.Options
	book    *embed.Daybook
	tools   *toolServer
	heaps   []string // of one lineage
	openIDs []string // the open runs
}

func (w *writer) createToken(tenant, principal string) string {
	w.Helper()
	var stdout, stderr bytes.Buffer
	args := []string{"token", "create", "--file", w.dir.tokenFile, "--tenant", tenant, "--principal", principal, "--scope", "read", "--scope", "run", "--scope", "sign", "--scope", "admin"}
	if status := cli.Main(args, strings.NewReader(""), &stdout, &stderr); status != 0 {
		w.Fatalf("create a token: %s", &stderr)
	}
	return strings.TrimSpace(stdout.String())
}

func (w *writer) open() {
	w.Helper()
	w.book = start(w.T, w.opts)
}

func (w *writer) close() {
	w.Helper()
	closeBook(w.T, w.book)
}

// do sends a request that must succeed.
func (w *writer) do(of tenant, method, url, body string, into any, header ...string) {
	w.Helper()
	w.dir.tokens.must(w.T, w.book, of, method, url, body, into, header...)
}

// executionResult holds the members of an execution that the writer uses.
type executionResult struct {
	ID     string `json:"execution_id"`
	Status string `json:"status"`
	Heap   string `json:"heap"`
}

func (w *writer) submit(of tenant, body string, header ...string) string {
	w.Helper()
	var r executionResult
	w.do(of, http.MethodPost, "/api/exec", body, &r, header...)
	return r.ID
}

// ended waits for the end of a run.
func (w *writer) ended(of tenant, id string) executionResult {
	w.Helper()
	for ctx := within(w.T); ctx.Err() == nil; {
		var r executionResult
		w.do(of, http.MethodGet, "/api/executions/"+id+"?wait=60", "", &r)
		if r.Status != string(events.StatusRunning) {
			return r
		}
	}
	w.Fatalf("%s does not end", id)
	return executionResult{}
}

func (w *writer) run(of tenant, body string, header ...string) executionResult {
	w.Helper()
	return w.ended(of, w.submit(of, body, header...))
}

func code(source string, more map[string]any) string {
	body := map[string]any{"code": source}
	for name, value := range more {
		body[name] = value
	}
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

type fields = map[string]any

func (w *writer) awaitOutput(id string) {
	w.Helper()
	awaitEvent(w.T, w.book, func(e events.Event) bool { return e.About() == id && e.Type == events.TypeExecutionOutput })
}

// removedVolume fills a volume, exports and removes it.
func (w *writer) removedVolume() {
	w.run(operator, `{"code":"console.log('removed with its volume'); for (;;);","execution_timeout_secs":1}`)
	w.heaps = append(w.heaps, w.run(operator, `{"code":"globalThis.n = 1; console.log('kept', n); n","tags":{"keep":"yes"}}`).Heap)
	w.seal(1)
	var list struct {
		Volumes []struct{ First, Last uint64 }
	}
	w.do(operator, http.MethodGet, "/api/ledger/volumes", "", &list)
	w.close() // a server with tokens exports the events of one tenant only
	dir := filepath.Join(w.TempDir(), "volume")
	if _, err := embed.Export(within(w.T), embed.ExportOptions{DataDir: w.dir.data, Dir: dir, From: list.Volumes[0].First, To: list.Volumes[0].Last}); err != nil {
		w.Fatal(err)
	}
	w.open()
	sha, err := embed.ExportHash(dir)
	if err != nil {
		w.Fatal(err)
	}
	w.do(operator, http.MethodPost, "/api/ledger/volumes/1/remove", `{"export_sha256":"`+sha+`"}`, nil)
}

func (w *writer) seal(number int) {
	w.Helper()
	var v struct{ Volume int }
	w.do(operator, http.MethodPost, "/api/ledger/volumes/seal", "", &v)
	if v.Volume != number {
		w.Fatalf("sealed volume %d, want %d", v.Volume, number)
	}
}

// runs executes runs with every status and every kind of source, output and result.
func (w *writer) runs() {
	w.heaps = append(w.heaps, w.run(operator, code("globalThis.n = (globalThis.n ?? 0) + 1; console.log('n is', n); n", fields{"heap": w.heaps[0], "tags": map[string]string{"keep": "yes", "round": "1"}})).Heap)
	w.heaps = append(w.heaps, w.run(operator, code("n * 100", fields{"heap": w.heaps[0]})).Heap) // a second branch
	for _, body := range []string{
		code("throw new Error('as it should')", nil),
		code("let x = ;", nil),
		code("console.log('endless'); for (;;);", fields{"execution_timeout_secs": 1, "session": "endless"}),
		code("const a = []; for (;;) a.push(new Array(1000).fill(a.length))", fields{"heap_memory_max_mb": 8}),
		code("interface Point { x: number; y?: string }\nconst p = { x: 40 } satisfies Point\ntype Id<T> = T\n;(p as Id<Point>).x! + 2", fields{"file_name": "point.ts"}),
		code("console.log('out %s', 'formatted'); console.error('err'); console.warn('warn'); console.info({ a: [1, 2, new Map([['k', 1]])] }); console.table([{ a: 1, b: 2 }]); console.debug('first\\nsecond'); for (;;);", fields{"execution_timeout_secs": 1}),
		code("for (let i = 0; ; i++) console.log(i, 'x'.repeat(90))", fields{"execution_timeout_secs": 1, "session": "truncated"}),
		code("/* a large source "+strings.Repeat("of words and of lines, ", 4000)+"*/ 'large result '.repeat(8000)", fields{"session": "large"}),
		code("'umlauts: äöü, 漢字, 🚀, \\u0000, \\ud800'", fields{"file_name": "zeichen.js"}),
		code("'from a heap that is not recorded'", fields{"heap": strings.Repeat("ab", 32)}),
		code("[Math.random(), Date.now() > 0]", nil),
		code("console.log('no line end'.slice(0, 5)); JSON.stringify({ deep: { nested: [null, true] } })", fields{"tags": map[string]string{"kind": "json", "keep": "yes"}}),
		code("await new Promise(done => setTimeout(done, 20)); console.log('later'); for (;;);", fields{"execution_timeout_secs": 1}),
	} {
		w.run(operator, body)
	}
	for range 2 {
		w.run(operator, code("'once'", fields{"session": "once"}), "Idempotency-Key", "the-same-key")
	}
	cancelled := w.submit(operator, code("console.log('running'); for (;;);", fields{"session": "cancelled"}))
	w.awaitOutput(cancelled)
	w.do(operator, http.MethodPost, "/api/executions/"+cancelled+"/cancel", "", nil)
	// One is cancelled while it waits for a slot.
	var busy []string
	for range w.opts.Slots.Total {
		busy = append(busy, w.submit(operator, code("console.log('busy'); for (;;);", nil)))
	}
	for _, id := range busy {
		w.awaitOutput(id)
	}
	waiting := w.submit(operator, code("'never run'", nil))
	for _, id := range append([]string{waiting}, busy...) {
		w.do(operator, http.MethodPost, "/api/executions/"+id+"/cancel", "", nil)
		w.ended(operator, id)
	}
	if _, err := w.book.Run(within(w.T), embed.Script{Code: "'through the Go package'", Session: "embedded", FileName: "embedded.js", Tags: map[string]string{"by": "go"}}); err != nil {
		w.Fatal(err)
	}
}

func (w *writer) tags() {
	at := "/api/heaps/" + w.heaps[1] + "/tags"
	w.do(operator, http.MethodPut, at, `{"tags":{"approved":"yes","keep":"no","note":"ä b"}}`, nil)
	w.do(operator, http.MethodDelete, at+"?keys=note", "", nil)
	w.do(operator, http.MethodPut, "/api/heaps/"+strings.Repeat("cd", 32)+"/tags", `{"tags":{"foreign":"heap"}}`, nil)
	w.do(operator, http.MethodPut, "/api/heaps/"+strings.Repeat("ef", 32)+"/tags", `{"tags":{"removed":"soon"}}`, nil)
	w.do(operator, http.MethodDelete, "/api/heaps/"+strings.Repeat("ef", 32)+"/tags", "", nil)
}

func (w *writer) namedSessions() {
	first := w.run(operator, code("globalThis.count = (globalThis.count ?? 0) + 0; console.log('count', count); count", fields{"session": "counted"})).Heap
	w.do(operator, http.MethodPost, "/api/sessions/counted/reset", `{"heap":"`+first+`"}`, nil, "Idempotency-Key", "reset-once")
	w.do(operator, http.MethodPost, "/api/sessions/counted/reset", `{}`, nil)
	w.run(operator, code("1", fields{"session": "name with spaces/and slashes ä"}))
}

func (w *writer) hostCalls() {
	for _, source := range []string{
		"const a = await mcp.weather.today({ city: 'Oslo' }); a.degrees",
		"await mcp.weather.today({ city: '' })",
		"const list = await Promise.all(['Rom', 'Bern', 'Wien'].map(city => mcp.weather.today({ city }))); const missing = await mcp.weather.nothing().catch(e => e.message); const large = await mcp.weather.large({}); console.log([list.length, missing, large.length].join()); for (;;);",
	} {
		w.run(operator, code(source, fields{"session": "calls", "execution_timeout_secs": 1}))
	}
}

// opening is the answer to the opening of a logical session.
type opening struct {
	ID string `json:"session_id"`
}

func (w *writer) logicalSessions() {
	var s opening
	w.do(operator, http.MethodPost, "/api/logical-sessions", `{"intent":"plan a trip","seeds":["builtin.console"]}`, &s)
	turn := func(source string) string {
		return w.submit(operator, code(source, fields{"logical_session": s.ID}))
	}
	// The second and third turn are queued while the first runs.
	ids := []string{turn("globalThis.cities = ['Oslo']; for (let i = 0; i < 1e8; i++); cities.length"), turn("cities.push('Rom'); cities.length"), turn("throw new Error('a failed turn')")}
	var heaps []string
	for _, id := range ids {
		heaps = append(heaps, w.ended(operator, id).Heap)
	}
	w.do(operator, http.MethodPost, "/api/logical-sessions", `{"intent":"plan a trip","seeds":["builtin","mcp.weather"],"registry_aliases":{"forecast":"mcp.weather.today"}}`, &s)
	w.ended(operator, turn("throw (await mcp.weather.today({ city: cities[0] })).city"))
	w.do(operator, http.MethodPost, "/api/sessions/"+s.ID+"/reset", `{"heap":"`+heaps[0]+`"}`, nil)
	w.ended(operator, turn("cities.join()"))
	w.do(operator, http.MethodPost, "/api/sessions/"+s.ID+"/reset", `{}`, nil)
	w.ended(operator, turn("typeof cities"))
	w.do(operator, http.MethodPost, "/api/logical-sessions", `{"intent":"never used","seeds":["builtin"]}`, &s)
}

// conversations fills contexts over REST and MCP.
func (w *writer) conversations() {
	at := "/api/context?session=counted"
	w.do(operator, http.MethodPatch, at, `{"user_preferences":{"language":"nb","max_results":5},"custom":{"project":"daybook","list":[1,2]}}`, nil)
	w.do(operator, http.MethodPatch, at, `{"custom":{"project":null,"more":"yes"}}`, nil)
	w.do(operator, http.MethodPatch, "/api/context?session=cleared", `{"custom":{"a":1}}`, nil)
	w.do(operator, http.MethodDelete, "/api/context?session=cleared", "", nil)

	web := httptest.NewServer(w.book.Handler())
	defer web.Close()
	ss := w.connectMCP(web.URL, "agent session")
	call := func(name string, args fields) map[string]any {
		w.Helper()
		res, err := ss.CallTool(within(w.T), &sdk.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			w.Fatalf("%s: %v", name, err)
		}
		var value map[string]any
		_ = json.Unmarshal([]byte(res.Content[0].(*sdk.TextContent).Text), &value)
		return value
	}
	ref := call("open_session", fields{"intent": "analyse", "seeds": []string{"builtin.console", "mcp.weather.today"}})["logical_session_ref"]
	run := call("run_js", fields{"code": "globalThis.data = [1, 2, 3]; data.length", "logical_session_ref": ref, "wait_secs": 60})
	call("run_js", fields{"code": "data.length + 1", "logical_session_ref": ref, "wait_secs": 60, "tags": map[string]string{"by": "agent"}})
	plain := call("run_js", fields{"code": "'without a session: ' + 1", "wait_secs": 60})
	call("run_js", fields{"code": "throw new TypeError('tried')", "wait_secs": 60})
	call("set_context", fields{"custom": map[string]any{"goal": "freeze"}, "user_preferences": map[string]any{"output_format": "json"}})
	call("set_context", fields{"custom": map[string]any{"step": 2}, "logical_session_ref": ref})
	call("get_execution", fields{"execution_id": run["execution_id"]})
	call("get_execution_output", fields{"execution_id": run["execution_id"]})
	call("get_execution", fields{"execution_id": "nonsense"})
	call("list_executions", fields{"limit": 3})
	call("discover_tools", fields{"intent": "the weather"})
	call("list_session_snapshots", nil)
	call("get_heap_tags", fields{"heap": w.heaps[1]})
	call("set_heap_tags", fields{"heap": w.heaps[2], "tags": map[string]string{"by": "agent"}})
	call("query_heaps_by_tags", fields{"tags": map[string]string{"by": "agent"}})
	call("reset_session", fields{"session": ref})
	for _, uri := range []string{"execution://" + fmt.Sprint(plain["execution_id"]), "heap://" + w.heaps[1], "session://agent%20session/context"} {
		if _, err := ss.ReadResource(within(w.T), &sdk.ReadResourceParams{URI: uri}); err != nil {
			w.Fatalf("%s: %v", uri, err)
		}
	}
	call("get_context", nil)
	if err := ss.Close(); err != nil {
		w.Fatal(err)
	}
	other := w.connectMCP(web.URL, "")
	if _, err := other.CallTool(within(w.T), &sdk.CallToolParams{Name: "run_js", Arguments: fields{"code": "'on a connection of its own'", "wait_secs": 60}}); err != nil {
		w.Fatal(err)
	}
	if _, err := other.CallTool(within(w.T), &sdk.CallToolParams{Name: "context_clear", Arguments: fields{}}); err != nil {
		w.Fatal(err)
	}
	if err := other.Close(); err != nil {
		w.Fatal(err)
	}
}

func (w *writer) connectMCP(url, session string) *sdk.ClientSession {
	w.Helper()
	web := &http.Client{Transport: headers{"Authorization": "Bearer " + w.dir.tokens[operator], "X-Mcp-Session-Id": session}}
	ss, err := sdk.NewClient(&sdk.Implementation{Name: "frozen agent", Version: "1"}, nil).
		Connect(within(w.T), &sdk.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: web}, nil)
	if err != nil {
		w.Fatal(err)
	}
	return ss
}

// headers adds headers to each request.
type headers map[string]string

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (w *writer) agentSessions() {
	p := w.connectACP()
	defer p.leave()
	p.call("initialize", fields{"protocolVersion": 1, "clientCapabilities": fields{}, "clientInfo": fields{"name": "frozen editor", "version": "1"}}, nil)
	tools := []fields{{"type": "http", "name": "weather", "url": w.tools.url, "headers": []any{}}}
	create := func(cwd string) string {
		var r struct{ SessionID string }
		p.call("session/new", fields{"cwd": cwd, "mcpServers": tools}, &r)
		return r.SessionID
	}
	prompt := func(session, text string) {
		p.call("session/prompt", fields{"sessionId": session, "prompt": []any{fields{"type": "text", "text": text}}}, nil)
	}
	id := create("/project")
	prompt(id, "globalThis.kept = 41; console.log('prompted'); kept")
	prompt(id, "kept + 1")
	prompt(id, "await mcp.weather.destroy({})")
	prompt(id, "throw new Error('of a prompt')")
	prompt(id, "/history")
	prompt(id, "/reset")
	prompt(id, "typeof kept")
	p.call("session/set_mode", fields{"sessionId": id, "modeId": "readonly"}, nil)
	prompt(id, "throw await mcp.weather.destroy({}).catch(e => e.message)")
	p.call("session/set_config_option", fields{"sessionId": id, "configId": "timeout", "value": "5"}, nil)
	p.call("session/close", fields{"sessionId": id}, nil)
	p.call("session/load", fields{"sessionId": id, "cwd": "/project", "mcpServers": []any{}}, nil)
	var fork struct{ SessionID string }
	p.call("session/fork", fields{"sessionId": id, "cwd": "/project/fork", "mcpServers": []any{}}, &fork)
	prompt(fork.SessionID, "/history")
	deleted := create("/deleted")
	prompt(deleted, "'in a deleted session'")
	p.call("session/delete", fields{"sessionId": deleted}, nil)
}

// webhooks registers one that delivers, one that is deleted and one that is disabled.
func (w *writer) webhooks() {
	delivered, refused := make(chan struct{}, 100), make(chan struct{}, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/gone" {
			rw.WriteHeader(http.StatusGone)
			refused <- struct{}{}
			return
		}
		rw.WriteHeader(http.StatusNoContent)
		delivered <- struct{}{}
	}))
	defer receiver.Close()
	var hook struct{ ID string }
	register := func(of tenant, body fields) string {
		w.Helper()
		raw, err := json.Marshal(body)
		if err != nil {
			w.Fatal(err)
		}
		w.do(of, http.MethodPost, "/api/webhooks", string(raw), &hook)
		return hook.ID
	}
	register(operator, fields{"url": receiver.URL + "/kept", "session": "for the webhook", "types": []string{string(events.TypeExecutionCompleted)}})
	gone := register(operator, fields{"url": receiver.URL + "/gone", "session": "for the webhook"})
	w.run(operator, code("'delivered'", fields{"session": "for the webhook"}))
	<-delivered
	disabled := func(n int) {
		awaitEvent(w.T, w.book, func(e events.Event) bool {
			if e.Type == events.TypeWebhookDisabled && e.About() == gone {
				n--
			}
			return n == 0
		})
	}
	<-refused
	disabled(1)
	w.do(operator, http.MethodPost, "/api/webhooks/"+gone+"/retry", `{}`, nil)
	<-refused
	disabled(2)
	deleted := register(operator, fields{"url": receiver.URL + "/deleted", "types": []string{string(events.TypeExecutionFailed)}})
	w.run(operator, code("throw new Error('delivered too')", nil))
	<-delivered
	w.do(operator, http.MethodDelete, "/api/webhooks/"+deleted, "", nil)
}

// secondTenant creates objects of most kinds for another tenant, under the same names.
func (w *writer) secondTenant() {
	heap := w.run(acme, code("globalThis.n = 7; console.log('of acme'); n", fields{"session": "counted", "tags": map[string]string{"keep": "yes"}}), "Idempotency-Key", "the-same-key").Heap
	w.run(acme, code("for (;;);", fields{"session": "counted", "heap": heap, "execution_timeout_secs": 1}))
	w.run(acme, code("throw new Error('of acme')", fields{"session": "acme alone"}))
	w.do(acme, http.MethodPut, "/api/heaps/"+heap+"/tags", `{"tags":{"owner":"acme"}}`, nil)
	var s opening
	w.do(acme, http.MethodPost, "/api/logical-sessions", `{"intent":"plan a trip","seeds":["builtin"]}`, &s)
	w.run(acme, code("'turn of acme'", fields{"logical_session": s.ID}))
	w.do(acme, http.MethodPatch, "/api/context?session=counted", `{"custom":{"of":"acme"}}`, nil)
	w.do(acme, http.MethodPost, "/api/webhooks", `{"url":"https://hooks.invalid/acme","session":"for no run"}`, nil)
}

// erasableSessions creates two sessions with encrypted content and shreds one.
func (w *writer) erasableSessions() {
	for _, session := range []string{"private", "erased"} {
		r := w.run(operator, code("globalThis.secret = 'of "+session+"'; console.log('line', secret); secret", fields{"session": session, "tags": map[string]string{"about": session}}))
		if session == "erased" {
			w.run(operator, code("throw new Error(secret)", fields{"session": session, "heap": r.Heap}))
		}
		if session == "private" { // its text is large, since cipher text is not compressed
			w.run(operator, code("/* "+strings.Repeat("long ", 13_110)+"*/ throw 'large'", fields{"session": session}))
		}
	}
	w.do(operator, http.MethodDelete, "/api/sessions/erased/content", "", nil)
	w.run(operator, code("'after the erasure'", fields{"session": "erased"}))
}

// damage changes a byte of the only event in a volume that contains a text.
func (w *writer) damage(stream, text string) {
	blocks, err := filepath.Glob(filepath.Join(w.dir.data, "jetstream", "jetstream", "$G", "streams", stream, "msgs", "*.blk"))
	if err != nil {
		w.Fatal(err)
	}
	for _, path := range blocks {
		raw, err := os.ReadFile(path)
		if err != nil {
			w.Fatal(err)
		}
		if at := bytes.Index(raw, []byte(text)); at >= 0 {
			raw[at] ^= 1
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				w.Fatal(err)
			}
			return
		}
	}
	w.Fatalf("%q is in no block of %s", text, stream)
}

// afterDamage uses the active volume: a context expires, a session is rebound.
func (w *writer) afterDamage() {
	w.do(operator, http.MethodPatch, "/api/context?session=counted", `{"custom":{"after":"it expired"}}`, nil)
	var s opening
	w.do(operator, http.MethodPost, "/api/logical-sessions", `{"intent":"plan a trip","seeds":["mcp.weather","builtin"]}`, &s)
	w.run(operator, code("typeof cities", fields{"logical_session": s.ID}))
	w.run(operator, code("n", fields{"heap": w.heaps[0], "session": "counted"}))
	w.run(acme, code("'of volume 4'", fields{"session": "counted"}))
}

// openRuns leaves two started runs and four waiting runs without an end. It returns
// once all events but checkpoints are signed.
func (w *writer) openRuns() {
	answered := w.submit(operator, code("const a = await mcp.weather.today({ city: 'Riga' }); console.log('answered', a.degrees); await new Promise(done => setTimeout(done, 3000)); a.city", fields{"session": "open"}))
	w.awaitOutput(answered)
	unanswered := w.submit(operator, code("console.log('calls'); await mcp.weather.hold({}); 'released'", fields{"session": "open"}))
	<-w.tools.holding
	awaitEvent(w.T, w.book, func(e events.Event) bool { return e.About() == unanswered && e.Type == events.TypeHostCalled })
	w.awaitOutput(unanswered)
	var s opening
	w.do(operator, http.MethodPost, "/api/logical-sessions", `{"intent":"open turns","seeds":["builtin"]}`, &s)
	w.openIDs = []string{
		answered, unanswered,
		w.submit(operator, code("console.log('waited'); 6 * 7", fields{"session": "open", "tags": map[string]string{"state": "open"}})),
		w.submit(operator, code("globalThis.turn = 1; turn", fields{"logical_session": s.ID})),
		w.submit(operator, code("typeof turn", fields{"logical_session": s.ID})),
		w.submit(operator, code("'cancelled before it starts'", fields{"session": "open"})),
	}
	list := ledgerOf(w.T, w.book)
	last := list[len(list)-1].Seq
	w.do(operator, http.MethodPost, "/api/ledger/checkpoint", "", nil, "Daybook-Min-Sequence", fmt.Sprint(last))
}

// requireOpen checks that no open run ended before the files were copied.
func (w *writer) requireOpen() {
	w.Helper()
	for _, id := range w.openIDs {
		var r executionResult
		if w.do(operator, http.MethodGet, "/api/executions/"+id, "", &r); r.Status != string(events.StatusRunning) {
			w.Fatalf("%s is %s: it ended before the files were copied; run the test again", id, r.Status)
		}
	}
}

// toolServer is the MCP server that the scripts call.
type toolServer struct {
	url     string
	holding chan struct{}
	release func()
}

// newToolServer starts a server with some of the tools.
func newToolServer(t *testing.T, tools ...string) *toolServer {
	t.Helper()
	held := make(chan struct{})
	ts := &toolServer{holding: make(chan struct{}, 10), release: sync.OnceFunc(func() { close(held) })}
	s := sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1"}, nil)
	type in struct {
		City string `json:"city,omitempty"`
	}
	add := func(name string, a *sdk.ToolAnnotations, answer func(city string) (any, error)) {
		if !slices.Contains(tools, name) {
			return
		}
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: "Tests " + name + ".", Annotations: a}, func(_ context.Context, _ *sdk.CallToolRequest, i in) (*sdk.CallToolResult, any, error) {
			value, err := answer(i.City)
			return nil, value, err
		})
	}
	yes := true
	add("today", &sdk.ToolAnnotations{ReadOnlyHint: true}, func(city string) (any, error) {
		if city == "" {
			return nil, errors.New("no city")
		}
		return map[string]any{"city": city, "degrees": 7}, nil
	})
	add("large", &sdk.ToolAnnotations{ReadOnlyHint: true}, func(string) (any, error) {
		return map[string]any{"length": 70_000, "text": strings.Repeat("rain ", 14_000)}, nil
	})
	add("destroy", &sdk.ToolAnnotations{DestructiveHint: &yes}, func(string) (any, error) { return map[string]any{"destroyed": true}, nil })
	add("hold", nil, func(string) (any, error) {
		ts.holding <- struct{}{}
		<-held
		return map[string]any{"released": true}, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() {
		ts.release()
		web.CloseClientConnections()
		web.Close()
	})
	ts.url = web.URL
	return ts
}

// editor is a client of the Agent Client Protocol that allows each call of a tool.
type editor struct {
	t    *testing.T
	in   io.WriteCloser
	done chan struct{}

	mu      sync.Mutex
	next    int
	waiting map[string]chan json.RawMessage
}

func (w *writer) connectACP() *editor {
	fromClient, toAgent := io.Pipe()
	fromAgent, toClient := io.Pipe()
	p := &editor{t: w.T, in: toAgent, done: make(chan struct{}), waiting: map[string]chan json.RawMessage{}}
	go func() {
		defer close(p.done)
		_ = w.book.ServeACP(context.Background(), fromClient, toClient)
		fromClient.Close()
		toClient.Close()
	}()
	go p.read(fromAgent)
	return p
}

func (p *editor) leave() {
	p.in.Close()
	<-p.done
}

func (p *editor) read(out io.Reader) {
	for dec := json.NewDecoder(out); ; {
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(raw, &m) != nil || m.ID == nil {
			continue
		}
		if m.Method != "" {
			go p.send(fields{"jsonrpc": "2.0", "id": m.ID, "result": fields{"outcome": fields{"outcome": "selected", "optionId": "allow"}}})
			continue
		}
		p.mu.Lock()
		answer := p.waiting[string(m.ID)]
		p.mu.Unlock()
		answer <- raw
	}
}

func (p *editor) send(m any) {
	raw, err := json.Marshal(m)
	if err != nil {
		p.t.Error(err)
		return
	}
	if _, err := p.in.Write(append(raw, '\n')); err != nil {
		p.t.Error(err)
	}
}

func (p *editor) call(method string, params fields, result any) {
	p.t.Helper()
	answered := make(chan json.RawMessage, 1)
	p.mu.Lock()
	p.next++
	id := p.next
	p.waiting[fmt.Sprint(id)] = answered
	p.mu.Unlock()
	p.send(fields{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	select {
	case raw := <-answered:
		var m struct{ Result, Error json.RawMessage }
		if err := json.Unmarshal(raw, &m); err != nil || m.Error != nil {
			p.t.Fatalf("%s: %s", method, raw)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				p.t.Fatal(err)
			}
		}
	case <-within(p.t).Done():
		p.t.Fatalf("%s is not answered", method)
	}
}
