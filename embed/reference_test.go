package embed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/tools/txtar"

	"daybook/embed"
	"daybook/events"
)

// TestReference replays, against the complete product, the examples of the documents that
// specify Daybook's tools. Their values may differ. testdata/reference has a file for each mode
// of a document. The sections of a file are in the order of the document. The name of a section
// is
//
//	heading of the document / step
//
// with one of these steps:
//
//	connect [NAME]      open an MCP connection with a session name, or none
//	tools [among others]  the names of all tools, or of some
//	parameters TOOL     the arguments: name, type, required or optional, default;
//	                    arguments after + are not in the document
//	call                a tool call, as in the document
//	begin               a tool call, without waiting for the answer
//	returns             the shape of the answer to the call, see shapes
//	refused             words of the error of a call that must be refused
//	curl                a command line, sent over HTTP
//	request             a request to the REST interface
//	response STATUS     the status and shape of its answer
//	await WHAT $run     wait until the event WHAT of an execution is recorded and can be read
//	over TRANSPORT...   the following steps of this heading are for these transports
//
// Every file is played over every MCP transport; REST is always HTTP.
func TestReference(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/reference/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range paths {
		for _, transport := range []string{"http", "sse", "stdio"} {
			name := strings.TrimSuffix(filepath.Base(path), ".txtar")
			t.Run(name+"/"+transport, func(t *testing.T) {
				t.Parallel()
				archive, err := txtar.ParseFile(path)
				if err != nil {
					t.Fatal(err)
				}
				opts := embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Slots: embed.SlotOptions{Total: 2}, Runs: embed.RunOptions{Stateless: strings.HasPrefix(name, "stateless")}}
				r := &replay{t: t, book: start(t, opts), transport: transport, names: shapes{}}
				for _, section := range archive.Files {
					r.step(section.Name, bytes.TrimSpace(section.Data))
				}
				r.disconnect()
			})
		}
	}
}

type replay struct {
	t         *testing.T
	book      *embed.Daybook
	transport string
	names     shapes
	client    *sdk.ClientSession

	// The transports of the present heading; nil is all.
	heading string
	over    []string

	section string
	last    []byte // the answer to the last call or request
	refusal string // or the reason for the refusal of the call
	status  int    // of the last request
	pending chan *sdk.CallToolResult
}

func (r *replay) fatalf(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s: "+format, append([]any{r.section}, args...)...)
}

func (r *replay) step(section string, body []byte) {
	r.t.Helper()
	heading, rest, ok := strings.Cut(section, " / ")
	r.section = section
	if !ok {
		r.fatalf("want HEADING / WHAT")
	}
	if heading != r.heading {
		r.heading, r.over = heading, nil
	}
	verb, args, _ := strings.Cut(rest, " ")
	if verb == "over" {
		r.over = strings.Fields(args)
		return
	}
	if r.over != nil && !slices.Contains(r.over, r.transport) {
		return
	}
	text := []byte(r.names.expand(string(body)))
	switch verb {
	case "connect":
		r.connect(args)
	case "tools":
		got, want := r.tools(), strings.Fields(string(body))
		if args == "among others" {
			got = slices.DeleteFunc(got, func(name string) bool { return !slices.Contains(want, name) })
		}
		if !slices.Equal(got, want) {
			r.fatalf("the tools are %q, want %q", got, want)
		}
	case "parameters":
		r.parameters(args, string(body))
	case "call":
		r.received(r.call(within(r.t), text))
	case "begin":
		pending := make(chan *sdk.CallToolResult, 1)
		r.pending = pending
		ctx := within(r.t)
		go func() { pending <- r.call(ctx, text) }()
	case "returns":
		r.returns(body)
	case "refused":
		for word := range strings.Lines(string(body)) {
			if word = strings.TrimSpace(word); !strings.Contains(r.refusal, word) {
				r.fatalf("want a refusal that says %q, got %q %s", word, r.refusal, r.last)
			}
		}
	case "curl":
		r.curl(string(text))
	case "request":
		r.request(string(text))
	case "response":
		if strconv.Itoa(r.status) != args {
			r.fatalf("status %d: %s", r.status, r.last)
		}
		r.check(body)
	case "await":
		what, name, _ := strings.Cut(args, " ")
		r.await(what, name)
	default:
		r.fatalf("unknown step")
	}
}

// connect opens an MCP connection in the revision that the documents show.
func (r *replay) connect(session string) {
	r.t.Helper()
	r.disconnect()
	var transport sdk.Transport
	web := &http.Client{Transport: sessionNamed{session}}
	switch r.transport {
	case "http":
		transport = &sdk.StreamableClientTransport{Endpoint: r.book.URL() + "/mcp", HTTPClient: web}
	case "sse":
		transport = &sdk.SSEClientTransport{Endpoint: r.book.URL() + "/sse", HTTPClient: web}
	default:
		transport = r.pipe(session)
	}
	var err error
	client := sdk.NewClient(&sdk.Implementation{Name: "reference", Version: "0"}, nil)
	r.client, err = client.Connect(within(r.t), transport, &sdk.ClientSessionOptions{ProtocolVersion: "2024-11-05"})
	if err != nil {
		r.fatalf("%v", err)
	}
}

// pipe attaches as "daybook mcp" does to a running server.
func (r *replay) pipe(session string) sdk.Transport {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- embed.Attach(ctx, embed.Client{DataDir: r.book.DataDir(), SessionID: session}, in, out)
		in.Close()
		out.Close()
	}()
	r.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			r.t.Errorf("stdio: %v", err)
		}
	})
	return &sdk.IOTransport{Reader: fromServer, Writer: toServer}
}

func (r *replay) disconnect() {
	r.t.Helper()
	if r.client == nil {
		return
	}
	if err := r.client.Close(); err != nil {
		r.fatalf("disconnect: %v", err)
	}
	r.client = nil
}

// sessionNamed sends a session name with every request.
type sessionNamed struct{ session string }

func (n sessionNamed) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	if n.session != "" {
		req.Header.Set("X-MCP-Session-Id", n.session)
	}
	return http.DefaultTransport.RoundTrip(req)
}

func (r *replay) tools() (names []string) {
	r.t.Helper()
	list, err := r.client.ListTools(within(r.t), nil)
	if err != nil {
		r.fatalf("%v", err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// parameters compares the schema of a tool with a table of its arguments.
func (r *replay) parameters(name, table string) {
	r.t.Helper()
	list, err := r.client.ListTools(within(r.t), nil)
	if err != nil {
		r.fatalf("%v", err)
	}
	i := slices.IndexFunc(list.Tools, func(tool *sdk.Tool) bool { return tool.Name == name })
	if i < 0 {
		r.fatalf("there is no such tool")
	}
	raw, err := json.Marshal(list.Tools[i].InputSchema)
	if err != nil {
		r.fatalf("%v", err)
	}
	var in struct {
		Properties map[string]struct {
			Type    string
			Default any
		}
		Required []string
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		r.fatalf("%v", err)
	}
	got := map[string]string{}
	for property, p := range in.Properties {
		need := "optional"
		if slices.Contains(in.Required, property) {
			need = "required"
		}
		got[property] = strings.Join([]string{p.Type, need}, " ")
		if p.Default != nil {
			got[property] += fmt.Sprintf(" %v", p.Default)
		}
	}
	for line := range strings.Lines(table) {
		property, want, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "+ "), " ")
		if strings.HasPrefix(line, "+") && strings.Contains(want, "required") {
			r.fatalf("%s is not in the document, so it must be optional", property)
		}
		if want = strings.Join(strings.Fields(want), " "); want != "" && got[property] != want {
			r.fatalf("%s is %q, want %q", property, got[property], want)
		}
		delete(got, property)
	}
	if len(got) != 0 {
		r.fatalf("%s takes other arguments too: %v", name, got)
	}
}

// call calls a tool as in a document: {"tool": ..., "arguments": ...}.
func (r *replay) call(ctx context.Context, text []byte) *sdk.CallToolResult {
	var c struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		r.t.Errorf("%s: %v", r.section, err)
		return nil
	}
	res, err := r.client.CallTool(ctx, &sdk.CallToolParams{Name: c.Tool, Arguments: c.Arguments})
	if err != nil {
		r.t.Errorf("%s: %v", r.section, err)
	}
	return res
}

// received checks the form of the answer to a call: one text, and structured content with the
// same value.
func (r *replay) received(res *sdk.CallToolResult) {
	r.t.Helper()
	if res == nil || len(res.Content) != 1 {
		r.fatalf("no answer, or more than one: %v", res)
	}
	text := res.Content[0].(*sdk.TextContent).Text
	r.last, r.refusal = []byte(text), ""
	if res.IsError {
		r.last, r.refusal = nil, text
		return
	}
	// The structured content was decoded and encoded: compare the values.
	var again any
	if err := json.Unmarshal(r.last, &again); err != nil {
		r.fatalf("not JSON: %s", text)
	}
	one, two := fmt.Sprint(again), fmt.Sprint(res.StructuredContent)
	if one != two {
		r.fatalf("the text says %s, structuredContent %s", one, two)
	}
}

func (r *replay) returns(shape []byte) {
	r.t.Helper()
	if r.pending != nil {
		r.received(<-r.pending)
		r.pending = nil
	}
	if r.refusal != "" {
		r.fatalf("refused: %s", r.refusal)
	}
	r.check(shape)
}

func (r *replay) check(shape []byte) {
	r.t.Helper()
	if err := r.names.check(shape, r.last); err != nil {
		r.fatalf("%v\nin %s", err, r.last)
	}
}

// request sends a request written as a method and path, headers, and a body.
func (r *replay) request(text string) {
	r.t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	header := http.Header{}
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ": ")
		header.Add(name, value)
	}
	res := r.do(method, r.book.URL()+path, header, body)
	r.status = res.StatusCode
}

// do sends a request and keeps the body of the answer as last.
func (r *replay) do(method, url string, header http.Header, body string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(within(r.t), method, url, strings.NewReader(body))
	if err != nil {
		r.fatalf("%v", err)
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.fatalf("%v", err)
	}
	defer res.Body.Close()
	if r.last, err = io.ReadAll(res.Body); err != nil {
		r.fatalf("%v", err)
	}
	return res
}

// curl sends the request of a curl command. The answer is the JSON-RPC result, or the answer of
// a tool in it. $connection becomes the id of its transport session.
func (r *replay) curl(command string) {
	r.t.Helper()
	words := shellWords(command)
	header := http.Header{"Accept": {"*/*"}, "User-Agent": {"curl/8.0.0"}}
	method, url, body := http.MethodGet, "", ""
	for i := 1; i < len(words); i++ {
		value := func() string { i++; return words[i] }
		switch words[i] {
		case "-s":
		case "-X":
			method = value()
		case "-H":
			name, v, _ := strings.Cut(value(), ":")
			header.Add(name, strings.TrimSpace(v))
		case "-d":
			body = value()
		default:
			url = strings.Replace(words[i], "http://localhost:8080", r.book.URL(), 1)
		}
	}
	res := r.do(method, url, header, body)
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		r.names["$connection"] = id
	}
	if res.StatusCode != http.StatusOK {
		r.fatalf("%s: %s", res.Status, r.last)
	}
	for line := range strings.Lines(string(r.last)) { // server-sent events
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			r.last = []byte(data)
		}
	}
	var m struct {
		Result json.RawMessage
	}
	if err := json.Unmarshal(r.last, &m); err != nil || m.Result == nil {
		r.fatalf("answered %s", r.last)
	}
	r.last, r.refusal = m.Result, ""
	var tool sdk.CallToolResult
	if json.Unmarshal(m.Result, &tool) == nil && len(tool.Content) > 0 {
		r.received(&tool)
	}
}

// shellWords splits a command like a shell, with quotes and continued lines.
func shellWords(command string) (words []string) {
	command = strings.ReplaceAll(command, "\\\n", " ")
	for command = strings.TrimSpace(command); command != ""; command = strings.TrimSpace(command) {
		word := ""
		for command != "" && !strings.ContainsAny(command[:1], " \n") {
			end := strings.IndexAny(command, " \n")
			if quote := command[:1]; quote == `"` || quote == "'" {
				inner, rest, _ := strings.Cut(command[1:], quote)
				word, command = word+inner, rest
				continue
			}
			if end < 0 {
				end = len(command)
			}
			word, command = word+command[:end], command[end:]
		}
		words = append(words, word)
	}
	return words
}

// marks maps the words of await to the events that they mean.
var marks = map[string]func(events.Event) (execution string, ok bool){
	"started": func(e events.Event) (string, bool) { return e.About(), e.Type == events.TypeExecutionStarted },
	"output":  func(e events.Event) (string, bool) { return e.About(), e.Type == events.TypeExecutionOutput },
	"ended":   func(e events.Event) (string, bool) { _, ended := e.Type.Status(); return e.About(), ended },
	"tagged": func(e events.Event) (string, bool) {
		d, ok := e.Data.(*events.HeapTagged)
		if !ok {
			return "", false
		}
		return d.ExecutionID, true
	},
	"logged": func(e events.Event) (string, bool) {
		d, ok := e.Data.(*events.SessionEntryRecorded)
		if !ok {
			return "", false
		}
		return d.ExecutionID, true
	},
}

// await waits for an event of an execution. A name without a value gets the execution of the
// first matching event.
func (r *replay) await(what, name string) {
	r.t.Helper()
	fits, ok := marks[what]
	if !ok {
		r.fatalf("nothing is called %s", what)
	}
	var at uint64
	err := r.book.Follow(within(r.t), 0, func(batch []events.Event, _ uint64) error {
		for _, e := range batch {
			id, ok := fits(e)
			if ok && r.names[name] == "" {
				r.names[name] = id
			}
			if ok && id == r.names[name] {
				at = e.Seq
				return io.EOF
			}
		}
		return nil
	})
	if err != io.EOF {
		r.fatalf("%v", err)
	}
	res := r.do(http.MethodGet, r.book.URL()+"/api/sessions", http.Header{"Daybook-Min-Sequence": {strconv.FormatUint(at, 10)}}, "")
	if res.StatusCode != http.StatusOK {
		r.fatalf("read the recorded events: %s", r.last)
	}
}

func TestShellWords(t *testing.T) {
	t.Parallel()
	got := shellWords("curl -s \\\n  -H \"A: b\" -d '{\"a\":\"b c\"}' x")
	if want := []string{"curl", "-s", "-H", "A: b", "-d", `{"a":"b c"}`, "x"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestReferenceHeadings requires that the files replay each section of the documents that has
// an example.
func TestReferenceHeadings(t *testing.T) {
	t.Parallel()
	for file, headings := range map[string][]string{
		"async.txtar": {"run_js", "get_execution", "get_execution_output", "cancel_execution", "list_executions", "Execution status enum", "REST API relationship"},
		"heaps.txtar": {
			"Resume a heap from a previous execution", "Tag a snapshot at execution time", "Tag a snapshot after the fact", "Query heaps by tags",
			"Delete specific tag keys from a heap", "Delete all tags from a heap", "Read the current tags on a heap",
			"Name a session via X-MCP-Session-Id", "List all sessions", "List log entries for the current session", "List all fields",
		},
		"stateless.txtar": {"MCP tool (stateless mode only)", "run_js (stateless)"},
	} {
		raw, err := os.ReadFile(filepath.Join("testdata/reference", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range headings {
			if !bytes.Contains(raw, []byte("\n-- "+h+" / ")) {
				t.Errorf("%s replays nothing of %q", file, h)
			}
		}
	}
}
