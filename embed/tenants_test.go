package embed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/internal/web/access"
)

// guarded is a Daybook that requires tokens.
type guarded struct {
	t     *testing.T
	book  *embed.Daybook
	file  string
	admin string
}

func startGuarded(t *testing.T, opts embed.Options) *guarded {
	t.Helper()
	g := &guarded{t: t, file: filepath.Join(t.TempDir(), "tokens")}
	g.admin = g.token("ops", "operator", access.AllScopes)
	opts.Access.TokenFile, opts.HTTP.Addr = g.file, "127.0.0.1:0"
	g.book = start(t, opts)
	return g
}

// token creates a token. The server reads it within a second.
func (g *guarded) token(tenant, principal string, scopes access.Scopes) string {
	g.t.Helper()
	secret, _, err := access.CreateToken(g.file, access.Grant{Tenant: tenant, Principal: principal, Scopes: scopes}, time.Now())
	if err != nil {
		g.t.Fatal(err)
	}
	return secret
}

// await waits until the server accepts a token.
func (g *guarded) await(token string) {
	g.t.Helper()
	for ctx := within(g.t); ; {
		if status, _ := g.ask(token, http.MethodGet, "/api/version", ""); status == http.StatusOK {
			return
		}
		select {
		case <-ctx.Done():
			g.t.Fatal("the server does not accept the token")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask sends a request and reads the answer. It reads streams up to the mark after the last
// recorded event.
func (g *guarded) ask(token, method, path, body string, header ...string) (int, string) {
	g.t.Helper()
	ctx, stop := context.WithCancel(within(g.t))
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, g.book.URL()+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	var all bytes.Buffer
	for chunk := make([]byte, 4096); ; {
		n, err := res.Body.Read(chunk)
		all.Write(chunk[:n])
		if err == io.EOF || bytes.Contains(all.Bytes(), []byte("event: caught-up\n")) {
			return res.StatusCode, all.String()
		}
		if err != nil {
			g.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
}

// names are the names and ids of the data of a tenant.
type names struct{ execution, heap, session, tag, secret, webhook, logical string }

// never are names that do not exist.
var never = names{
	execution: "01990000-0000-7000-8000-00000000dead", heap: strings.Repeat("de", 32), session: "never was", tag: "never=was",
	webhook: "01990000-0000-7000-8000-00000000beef", logical: strings.Repeat("0dead", 12) + "0dea",
}

// owns creates data of every kind for a tenant.
func (g *guarded) owns(token, word string) names {
	g.t.Helper()
	n := names{session: word + " session", tag: word + "=" + word, secret: word + "-canary"}
	body, err := json.Marshal(map[string]any{
		"code": fmt.Sprintf("const v = %q; console.log(v); v", n.secret), "session": n.session, "tags": map[string]string{word: word},
	})
	if err != nil {
		g.t.Fatal(err)
	}
	var run struct {
		ID     string `json:"execution_id"`
		Heap   string `json:"heap"`
		Status string `json:"status"`
	}
	g.decode(token, http.MethodPost, "/api/exec", string(body), &run, "Idempotency-Key", "shared-key")
	n.execution = run.ID
	g.decode(token, http.MethodGet, "/api/executions/"+run.ID+"?wait=60", "", &run)
	n.heap = run.Heap
	if run.Status != "completed" || n.heap == "" {
		g.t.Fatalf("%+v", run)
	}
	var hook struct {
		ID string `json:"id"`
	}
	if status, answer := g.ask(token, http.MethodPost, "/api/webhooks", `{"url":"https://hooks.invalid/`+word+`"}`); status >= 300 || json.Unmarshal([]byte(answer), &hook) != nil || hook.ID == "" {
		g.t.Fatalf("register a webhook: %d %s", status, answer)
	}
	n.webhook = hook.ID
	var opened struct {
		ID string `json:"session_id"`
	}
	g.decode(token, http.MethodPost, "/api/logical-sessions", `{"intent":"`+word+` intent","seeds":["builtin"]}`, &opened)
	n.logical = opened.ID
	for _, of := range []string{"session=" + word + "+session", "logical_session=" + n.logical} {
		g.decode(token, http.MethodPatch, "/api/context?"+of, `{"custom":{"word":"`+n.secret+`"}}`, new(struct{}))
	}
	return n
}

func (g *guarded) decode(token, method, path, body string, out any, header ...string) {
	g.t.Helper()
	status, answer := g.ask(token, method, path, body, header...)
	if status >= 300 {
		g.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	if err := json.Unmarshal([]byte(answer), out); err != nil {
		g.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
	}
}

// Words that may be in any answer.
var (
	uuidForm   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	momentForm = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	placeForm  = regexp.MustCompile(`("(sequence|seq|applied|daybook/sequence)": ?"?|\bid: |event )[0-9A-Z_]+`)
	traceForm  = regexp.MustCompile(`ref [0-9a-f]{12}`)
	// Each answer may have another id of a context.
	contextForm = regexp.MustCompile(`"session_id":"[0-9a-f]{64}"`)
	gaugeForm   = regexp.MustCompile(`(heap_used_mb|heap_pressure_pct|session_count)(\\?"): ?\d+`)
)

// anonymous replaces the values that differ between any two answers, and the requested names.
func anonymous(text string, asked names) string {
	for _, name := range []string{asked.execution, asked.heap, asked.session, strings.ReplaceAll(asked.session, " ", "%20"), asked.tag, asked.webhook, asked.logical} {
		text = strings.ReplaceAll(text, name, "NAME")
	}
	key, value, _ := strings.Cut(asked.tag, "=")
	text = strings.ReplaceAll(text, fmt.Sprintf("%q:%q", key, value), "NAME")
	text = gaugeForm.ReplaceAllString(text, "$1$2: N")
	text = contextForm.ReplaceAllString(text, "CONTEXT")
	text = uuidForm.ReplaceAllString(text, "UUID")
	text = momentForm.ReplaceAllString(text, "TIME")
	text = placeForm.ReplaceAllString(text, "$1 N")
	return traceForm.ReplaceAllString(text, "REF")
}

// in returns the first of the names that an answer to another tenant contains, or an empty text.
func (n names) in(text string) string {
	for _, word := range []string{n.execution, n.session, n.secret, strings.Split(n.tag, "=")[0]} {
		if strings.Contains(text, word) {
			return word
		}
	}
	return ""
}

type operation struct {
	Parameters []struct{ Name, In string }
	Body       *struct {
		Content map[string]any
	} `json:"requestBody"`
}

// pathFor fills the parameters of a path with names. An unknown parameter fails the test and
// must be added here.
func pathFor(t *testing.T, path string, n names) string {
	t.Helper()
	return regexp.MustCompile(`\{\w+\}`).ReplaceAllStringFunc(path, func(param string) string {
		switch {
		case strings.HasPrefix(path, "/api/webhooks/"):
			return n.webhook
		case strings.HasPrefix(path, "/api/logical-sessions/"):
			return n.logical
		case param == "{id}" && strings.HasPrefix(path, "/api/executions/"):
			return n.execution
		case param == "{name}" && strings.HasPrefix(path, "/api/executions/"):
			return "note"
		case param == "{text}":
			return "result"
		case param == "{heap}":
			return n.heap
		case param == "{kind}" && strings.HasPrefix(path, "/api/ledger/blobs/"):
			return "heaps"
		case param == "{hash}":
			return n.heap
		case param == "{volume}":
			return "1" // volumes belong to the operator and not to a tenant
		case param == "{name}" && strings.HasPrefix(path, "/api/sessions/"):
			return strings.ReplaceAll(n.session, " ", "%20")
		}
		t.Fatalf("%s: the test has no value for %s; add one", path, param)
		return ""
	})
}

// queryFor returns queries that name data of a tenant. A parameter that is neither among those
// that name data nor among the others fails the test.
func queryFor(t *testing.T, op operation, n names) []string {
	t.Helper()
	list := []string{""}
	for _, p := range op.Parameters {
		switch p.In + " " + p.Name {
		case "query execution":
			list = append(list, "?execution="+n.execution)
		case "query session":
			list = append(list, "?session="+strings.ReplaceAll(n.session, " ", "+"))
		case "query id": // of /api/resolve
			list = append(list, "?kind=heap&id="+n.heap, "?kind=execution&id="+n.execution, "?kind=heap&id=@last&session="+n.logical)
		case "query logical_session":
			list = append(list, "?logical_session="+n.logical)
		case "query tag":
			list = append(list, "?tag="+strings.ReplaceAll(n.tag, "=", "%3D"))
		case "query heap":
			list = append(list, "?heap="+n.heap)
		case "query history":
			list = append(list, "?history=1")
		case "query skip":
			list = append(list, "?skip=1")
		case "query retag":
			list = append(list, "?retag=true")
		case "query tenant": // a tenant cannot select another one
			list = append(list, "?tenant=acme")
		case "query subject":
			list = append(list, "?subject=replay.acme.stolen", "?subject=events.acme.stolen")
		case "query after", "query type", "query names", "query limit", "query cursor", "query status", "query wait", "query follow", "query keys", "query fields", "query file_name",
			"query heap_memory_max_mb", "query execution_timeout_secs", "query line_offset", "query line_limit", "query byte_offset", "query byte_limit",
			"query kind", "query number", "query text", "query require_heap", "query last", "query max_bytes", "query force", "query keep_heaps", "query seq", "query size", "query since", "query until", "query fresh",
			"query package", "query speed", "query max_pause", "query from", "query to", "query from_entry", "query to_entry",
			"header Daybook-Min-Sequence", "header Last-Event-ID", "header Idempotency-Key":
		default:
			if p.In != "path" {
				t.Fatalf("the test does not know the parameter %s (%s); add it", p.Name, p.In)
			}
		}
	}
	return list
}

// bodyFor returns a body that names data of a tenant.
func bodyFor(t *testing.T, method, path string, op operation, n names) string {
	t.Helper()
	if op.Body == nil {
		return ""
	}
	switch method + " " + path {
	case "POST /api/exec":
		return fmt.Sprintf(`{"code":"typeof v","heap":%q,"session":%q}`, n.heap, n.session)
	case "POST /api/executions/{id}/replay":
		return `{"timeline":true}`
	case "POST /api/executions/{id}/what-if":
		return `{"code":"1"}`
	case "POST /api/logical-sessions":
		return `{"intent":"stolen","seeds":["builtin"]}`
	case "POST /api/heaps/collect":
		return `{"dry_run":true}`
	case "POST /api/ledger/volumes/{volume}/remove":
		return fmt.Sprintf(`{"export_sha256":%q}`, n.heap)
	case "POST /api/ledger/signers":
		return fmt.Sprintf(`{"action":"introduce","key":%q}`, n.heap)
	case "POST /api/sessions/{name}/reset":
		return fmt.Sprintf(`{"heap":%q}`, n.heap)
	case "PATCH /api/context":
		return `{"custom":{"stolen":"yes"}}`
	case "PUT /api/heaps/{heap}/tags":
		return `{"stolen":"yes"}`
	case "POST /api/modules":
		return `{"specifier":"../none"}`
	case "POST /api/webhooks":
		return `{"url":"https://hooks.invalid/hook"}`
	case "POST /api/webhooks/{id}/retry":
		return `{}`
	}
	t.Fatalf("the test has no body for %s %s; add one", method, path)
	return ""
}

// TestTenantsCannotTell requests, at every route of the OpenAPI document, the data of another
// tenant. The answers must be equal to those for data that does not exist.
func TestTenantsCannotTell(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, embed.Options{})
	acme, other := g.token("acme", "ada", access.AllScopes), g.token("other", "bob", access.AllScopes)
	g.await(other)
	theirs := g.owns(acme, "acmeword")
	own := g.owns(other, "otherword")
	if theirs.execution == own.execution {
		t.Error("one idempotency key gave two tenants one execution")
	}
	var doc struct {
		Paths map[string]map[string]operation
	}
	g.decode(other, http.MethodGet, "/openapi.json", "", &doc)
	if len(doc.Paths) < 10 {
		t.Fatalf("the document has %d paths", len(doc.Paths))
	}
	// Reads come first: the writes below create data with the same names.
	type route struct {
		method, path string
		op           operation
	}
	var reads, writes []route
	for path, item := range doc.Paths {
		for method, op := range item {
			if method == "get" {
				reads = append(reads, route{http.MethodGet, path, op})
			} else {
				writes = append(writes, route{strings.ToUpper(method), path, op})
			}
		}
	}
	// Contexts list runs, so the writes of contexts come before those of runs.
	slices.SortFunc(writes, func(a, b route) int { return strings.Compare(a.path+" "+a.method, b.path+" "+b.method) })
	asked := 0
	for _, r := range append(reads, writes...) {
		foreignQueries, neverQueries := queryFor(t, r.op, theirs), queryFor(t, r.op, never)
		for i := range foreignQueries {
			for _, accept := range []string{"application/json", "text/event-stream"} {
				name := fmt.Sprintf("%s %s %s as %s", r.method, r.path, foreignQueries[i], accept)
				status, text := g.ask(other, r.method, pathFor(t, r.path, theirs)+foreignQueries[i], bodyFor(t, r.method, r.path, r.op, theirs), "Accept", accept)
				want, unknown := g.ask(other, r.method, pathFor(t, r.path, never)+neverQueries[i], bodyFor(t, r.method, r.path, r.op, never), "Accept", accept)
				asked++
				if status != want || (strings.Contains(r.path, "{") || i > 0) && anonymous(text, theirs) != anonymous(unknown, never) {
					t.Errorf("%s:\n%d %s\nfor data of another tenant,\n%d %s\nfor data that does not exist", name, status, text, want, unknown)
				}
				if word := theirs.in(text); word != "" && !strings.Contains(r.path, "{") && i == 0 && r.method == http.MethodGet {
					t.Errorf("%s contains %q of another tenant: %s", name, word, text)
				}
			}
		}
	}
	if asked < 50 {
		t.Errorf("only %d requests were made", asked)
	}
	// The requests did not change the data of the tenant.
	var after struct {
		Status string
		Result string
	}
	g.decode(acme, http.MethodGet, "/api/executions/"+theirs.execution, "", &after)
	var tags struct{ Tags map[string]string }
	g.decode(acme, http.MethodGet, "/api/heaps/"+theirs.heap+"/tags", "", &tags)
	if after.Status != "completed" || after.Result != theirs.secret || len(tags.Tags) != 1 || tags.Tags["acmeword"] != "acmeword" {
		t.Errorf("the data of the tenant: %+v, tags %v", after, tags.Tags)
	}
	// A run from a heap of another tenant started from a fresh isolate.
	var list struct {
		Executions []struct {
			ID string `json:"execution_id"`
		}
	}
	g.decode(other, http.MethodGet, "/api/executions", "", &list)
	for _, e := range list.Executions {
		var d struct {
			Result    *string
			InputHeap *string `json:"input_heap"`
		}
		g.decode(other, http.MethodGet, "/api/executions/"+e.ID+"?wait=60", "", &d)
		if e.ID != own.execution && (d.InputHeap != nil || d.Result == nil || *d.Result != "undefined") {
			t.Errorf("a run from another tenant's heap: %+v", d)
		}
	}
}

// argumentsFor returns arguments of a tool that name data of a tenant.
func argumentsFor(t *testing.T, tool *sdk.Tool, n names) map[string]any {
	t.Helper()
	raw, err := json.Marshal(tool.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any
		Required   []string
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	key, value, _ := strings.Cut(n.tag, "=")
	args := map[string]any{}
	for name := range schema.Properties {
		switch {
		case name == "execution_id":
			args[name] = n.execution
		case name == "heap":
			args[name] = n.heap
		case name == "session":
			args[name] = n.session
		case name == "logical_session_ref" && tool.Name != "run_js": // where it excludes heap
			args[name] = n.logical
		case name == "intent":
			args[name] = "stolen"
		case name == "seeds":
			args[name] = []string{"builtin"}
		case name == "code":
			args[name] = "typeof v"
		case name == "tags" && tool.Name == "query_heaps_by_tags":
			args[name] = map[string]string{key: value}
		case name == "tags" && tool.Name == "set_heap_tags":
			args[name] = map[string]string{"stolen": "yes"}
		case slices.Contains(schema.Required, name):
			t.Fatalf("%s: the test has no value for the argument %s; add one", tool.Name, name)
		}
	}
	return args
}

// bearerTransport sends a token with every request.
type bearerTransport string

func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func (g *guarded) connect(token, revision string) *sdk.ClientSession {
	g.t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	ss, err := c.Connect(within(g.t), &sdk.StreamableClientTransport{Endpoint: g.book.URL() + "/mcp", HTTPClient: &http.Client{Transport: bearerTransport(token)}},
		&sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = ss.Close() })
	return ss
}

// TestTenantsCannotTellOverMCP is TestTenantsCannotTell for every tool, every kind of resource
// and every method about tasks.
func TestTenantsCannotTellOverMCP(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, embed.Options{})
	acme, other := g.token("acme", "ada", access.AllScopes), g.token("other", "bob", access.AllScopes)
	g.await(other)
	theirs := g.owns(acme, "acmeword")
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		ss := g.connect(other, revision)
		same := func(what string, ask func(names) (any, error)) {
			t.Helper()
			show := func(n names) string {
				res, err := ask(n)
				if err != nil {
					return anonymous(err.Error(), n)
				}
				raw, err := json.Marshal(res)
				if err != nil {
					t.Fatal(err)
				}
				if word := theirs.in(string(raw)); word != "" && n == theirs && !strings.Contains(what, "the name") {
					if word != n.execution && word != n.session {
						t.Errorf("%s, %s contains %q of another tenant: %s", revision, what, word, raw)
					}
				}
				return anonymous(string(raw), n)
			}
			if foreign, unknown := show(theirs), show(never); foreign != unknown {
				t.Errorf("%s, %s:\n%s\nfor data of another tenant,\n%s\nfor data that does not exist", revision, what, foreign, unknown)
			}
		}
		tools, err := ss.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) < 8 {
			t.Fatalf("%d tools, %v", len(tools.Tools), err)
		}
		for _, tool := range tools.Tools {
			if tool.Name == "open_session" { // its answer has whether the session existed
				if _, err := ss.CallTool(t.Context(), &sdk.CallToolParams{Name: tool.Name, Arguments: argumentsFor(t, tool, never)}); err != nil {
					t.Fatal(err)
				}
			}
			same(tool.Name, func(n names) (any, error) {
				return ss.CallTool(t.Context(), &sdk.CallToolParams{Name: tool.Name, Arguments: argumentsFor(t, tool, n)})
			})
		}
		templates, err := ss.ListResourceTemplates(t.Context(), nil)
		if err != nil || len(templates.ResourceTemplates) < 4 {
			t.Fatalf("%d kinds of resources, %v", len(templates.ResourceTemplates), err)
		}
		for _, kind := range templates.ResourceTemplates {
			address := func(n names) string {
				uri := strings.NewReplacer("{id}", n.execution, "{hash}", n.heap, "{name}", strings.ReplaceAll(n.session, " ", "%20")).Replace(kind.URITemplate)
				if strings.Contains(uri, "{") {
					t.Fatalf("%s: the test has no value for a variable; add one", kind.URITemplate)
				}
				return uri
			}
			same("read "+kind.Name, func(n names) (any, error) {
				return ss.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: address(n)})
			})
			if revision < "2026" {
				same("watch "+kind.Name, func(n names) (any, error) {
					return nil, ss.Subscribe(t.Context(), &sdk.SubscribeParams{URI: address(n)})
				})
			}
		}
		g.sameTasks(other, revision, theirs)
	}
}

// sameTasks calls the methods about tasks, which the client of the SDK does not support.
func (g *guarded) sameTasks(token, revision string, theirs names) {
	g.t.Helper()
	meta, header := "", []string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", revision}
	methods := []string{"tasks/get", "tasks/result", "tasks/cancel"}
	if revision >= "2026" {
		methods = []string{"tasks/get", "tasks/update", "tasks/cancel"}
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}`
	} else {
		id := g.initialize(token, revision)
		header = append(header, "Mcp-Session-Id", id)
	}
	for _, method := range methods {
		ask := func(n names) string {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"taskId":%q%s}}`, method, n.execution, meta)
			status, answer := g.ask(token, http.MethodPost, "/mcp", body, append(header, "Mcp-Method", method, "Mcp-Name", n.execution)...)
			return fmt.Sprint(status, " ", anonymous(answer, n))
		}
		foreign, unknown := ask(theirs), ask(never)
		if foreign != unknown || !strings.Contains(foreign, "not found") {
			g.t.Errorf("%s, %s:\n%s\nfor data of another tenant,\n%s\nfor data that does not exist", revision, method, foreign, unknown)
		}
	}
}

// initialize opens a session and returns its id.
func (g *guarded) initialize(token, revision string) string {
	g.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, revision)
	req, err := http.NewRequestWithContext(within(g.t), http.MethodPost, g.book.URL()+"/mcp", strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := (&http.Client{Transport: bearerTransport(token)}).Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		g.t.Fatal(err)
	}
	id := res.Header.Get("Mcp-Session-Id")
	if id == "" {
		g.t.Fatalf("initialize: %s without a session", res.Status)
	}
	return id
}
