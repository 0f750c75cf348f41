package embed_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/projections"
)

// fetchPolicy allows GET, POST and HEAD below /open.
const fetchPolicy = `package mcp.fetch
default allow := false
allow if {
	input.method in {"GET", "POST", "HEAD"}
	startswith(input.url_parsed.path, "/open/")
	input.tenant == "default"
}
`

// website is a server for fetches of scripts.
type website struct {
	*httptest.Server
	hits     atomic.Int64
	released chan struct{} // closed to answer requests of /open/wait
}

func newWebsite(t *testing.T) *website {
	t.Helper()
	w := &website{released: make(chan struct{})}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.hits.Add(1)
		switch r.URL.Path {
		case "/open/large":
			_, _ = io.WriteString(rw, strings.Repeat("0123456789", 10000))
		case "/open/binary":
			_, _ = rw.Write([]byte{0, 255, 254, 10})
		case "/open/away":
			http.Redirect(rw, r, "/closed", http.StatusFound)
		case "/open/near":
			http.Redirect(rw, r, "/open/echo", http.StatusFound)
		case "/open/empty":
			rw.WriteHeader(http.StatusNoContent)
		case "/open/wait":
			select {
			case <-w.released:
			case <-r.Context().Done():
			}
		default:
			body, _ := io.ReadAll(r.Body)
			rw.Header().Set("X-Count", fmt.Sprint(w.hits.Load()))
			rw.Header().Add("Set-Cookie", "a=1")
			rw.Header().Add("Set-Cookie", "b=2")
			_ = json.NewEncoder(rw).Encode(map[string]string{"method": r.Method, "key": r.Header.Get("X-Key"), "body": string(body)})
		}
	}))
	t.Cleanup(func() {
		w.CloseClientConnections()
		w.Close()
	})
	return w
}

// fetching returns the options of a Daybook whose scripts may fetch from this machine.
func fetching(t *testing.T, policy string) embed.Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fetch.rego")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return embed.Options{Fetch: embed.FetchOptions{Policy: file, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
}

func TestScriptsFetch(t *testing.T) {
	t.Parallel()
	web := newWebsite(t)
	for _, stateless := range []bool{false, true} {
		opts := fetching(t, fetchPolicy)
		opts.Runs.Stateless = stateless
		book := start(t, opts)
		for code, want := range map[string]string{
			`(await (await fetch("URL/open/echo")).json()).method`:                                                                                                                    "GET",
			`const r = await fetch("URL/open/echo"); [r.ok, r.status, r.statusText, r.url === "URL/open/echo", r.redirected, r.type].join()`:                                          "true,200,OK,true,false,basic",
			`(await fetch("URL/open/echo")).headers.getSetCookie().join()`:                                                                                                            "a=1,b=2",
			`(await (await fetch("URL/open/echo", { method: "POST", body: "é\u0000", headers: { "X-Own": "caf\xe9", "Content-Length": "9", "Host": "other" } })).json()).body`:        "é\x00",
			`[...new Uint8Array(await (await fetch("URL/open/binary")).arrayBuffer())].join()`:                                                                                        "0,255,254,10",
			`(await (await fetch("URL/open/echo", { method: "POST", body: new Uint8Array([0, 255]) })).json()).body.length`:                                                           "2",
			`(await (await fetch("URL/open/large")).text()).length`:                                                                                                                   "100000",
			`const r = await fetch(new Request("URL/open/near")); [r.redirected, r.url === "URL/open/echo"].join()`:                                                                   "true,true",
			`const r = await fetch("URL/open/near", { redirect: "manual" }); [r.status, r.headers.get("location")].join()`:                                                            "302,/open/echo",
			`const r = await fetch("URL/open/empty"); [r.status, r.body, await r.text()].join()`:                                                                                      "204,,",
			`(await Promise.all([1, 2, 3].map(() => fetch("URL/open/echo")))).map(r => r.status).join()`:                                                                              "200,200,200",
			`await fetch("URL/open/echo", { method: "HEAD" }).then(r => r.text())`:                                                                                                    "",
			`Object.keys(mcp).join() + typeof fetch + fetch.name + fetch.length`:                                                                                                      "functionfetch1",
			`await mcp("daybook:http", "fetch", { url: "URL/open/echo" }).catch(e => e.message)`:                                                                                      `daybook:http.fetch: this run has no MCP server "daybook:http", and no other: the operator adds them, with --mcp-server`,
			`await fetch("URL/closed").catch(e => e.name + ": " + e.message.replace(/policy [0-9a-f]{12}/, "policy HASH"))`:                                                           "TypeError: fetch denied by policy: GET URL/closed is not allowed (rule data.mcp.fetch.allow of policy HASH)",
			`await fetch("URL/open/../closed").catch(e => e.message.slice(0, 22))`:                                                                                                    "fetch denied by policy",
			`await fetch("URL/open/x", { method: "DELETE" }).catch(e => e.message.slice(0, 32))`:                                                                                      "fetch denied by policy: DELETE h",
			`await fetch("URL/open/away").catch(e => e.message.slice(0, 27))`:                                                                                                         "fetch denied by policy: GET",
			`await fetch("URL/closed").catch(e => [e.cause.name, e.cause.code, Object.keys(e).length, e.cause.message === e.message].join())`:                                         "Error,ERR_FETCH_DENIED,0,true",
			`await fetch("http://127.0.0.1:1/open/").catch(e => [e.message, e.cause.code, e.cause.message].join())`:                                                                   "fetch: GET http://127.0.0.1:1/open/: the server refused the connection,ECONNREFUSED,the server refused the connection",
			`await fetch("http://10.1.2.3/open/").catch(e => e.cause.code)`:                                                                                                           "ERR_FETCH_ADDRESS",
			`await fetch("ftp://example.com/").catch(e => [e.message === "fetch: " + e.cause.message, e.cause.code].join())`:                                                          "true,ERR_FETCH_REQUEST",
			`await fetch("URL/open/near", { redirect: "error" }).catch(e => e.name + e.cause.code)`:                                                                                   "TypeErrorERR_FETCH_REDIRECT",
			`await fetch("URL/open/echo", { method: "POST", body: new Uint8Array(600000) }).catch(e => e.name + e.cause.code)`:                                                        "TypeErrorERR_FETCH_TOO_LARGE",
			`await fetch("URL/open/echo", { method: "POST", body: new Uint8Array(2000000) }).catch(e => e.name + e.cause.code)`:                                                       "TypeErrorERR_FETCH_TOO_LARGE",
			`await fetch("nonsense").catch(e => [e.name, e.cause.name, e.cause.code.slice(0, 12), e.stack.includes("Promise")].join())`:                                               "TypeError,TypeError,ERR_INVALID_,false",
			`await fetch("URL/open/echo", { method: "POST", duplex: "half", body: new ReadableStream({ start(c) { c.error(5) } }) }).catch(e => [e.name, e.message, e.cause].join())`: "TypeError,fetch: the body of the request cannot be read,5",
			`const all = await Promise.allSettled(Array.from({ length: 1001 }, () => fetch("URL/closed"))); [all[1000].reason.message, all[1000].reason.cause.code].join()`:           "fetch: a run makes at most 1000 requests and calls of tools,ERR_FETCH_CALLS",
			`await fetch().catch(e => e.name)`:                                                 "TypeError",
			`const p = fetch("nonsense"); p instanceof Promise && await p.catch(e => e.name)`:  "TypeError",
			`await fetch("URL/open/echo", { signal: AbortSignal.abort("why") }).catch(e => e)`: "why",
			`Array.prototype.toJSON = Object.prototype.toJSON = () => "x"; Object.prototype.then = undefined; (await fetch("URL/open/echo", { headers: { a: "b" } })).status`: "200",
		} {
			script := embed.Script{Code: strings.ReplaceAll(code, "URL", web.URL), ExecutionTimeoutSecs: 300} // 1001 calls take some time on a slow machine
			done, err := book.Run(within(t), script)
			late := func() bool {
				return strings.Contains(deref(done.Result)+deref(done.Error), "the evaluation took longer than 50ms")
			}
			for tries := 0; tries < 10 && err == nil && late(); tries++ { // a slow machine does not evaluate the policy in time
				done, err = book.Run(within(t), script)
			}
			if want = strings.ReplaceAll(want, "URL", web.URL); err != nil || done.Result == nil || *done.Result != want {
				t.Errorf("stateless %t: %s: %v %v, %v; want %s", stateless, code, deref(done.Result), deref(done.Error), err, want)
			}
		}
		if failed := run(t, book, embed.Script{Code: "await fetch('" + web.URL + "/closed')", FileName: "main.js"}); !strings.Contains(deref(failed.Error), "main.js:1:7") {
			t.Errorf("the trace does not lead to the call: %s", deref(failed.Error))
		}
	}
}

// An aborted fetch rejects at once with the reason. Its answer is recorded and goes nowhere, so
// that a replay does the same.
func TestAbortedFetch(t *testing.T) {
	t.Parallel()
	web := newWebsite(t)
	book := start(t, fetching(t, fetchPolicy))
	code := strings.ReplaceAll(`
		const c = new AbortController();
		const waiting = fetch("URL/open/wait", { signal: c.signal, method: "POST", body: "x" }).catch(e => e.name + ": " + e.message);
		setTimeout(() => c.abort(), 1);
		console.log(await waiting);
		1`, "URL", web.URL)
	id, err := book.Submit(within(t), embed.Script{Code: code})
	if err != nil {
		t.Fatal(err)
	}
	err = book.Follow(within(t), 0, func(batch []events.Event, _ uint64) error {
		for _, e := range batch {
			out, ok := e.Data.(*events.ExecutionOutput)
			if ok && strings.Contains(fmt.Sprint(out.Content.Value().Lines), "AbortError: This operation was aborted") {
				return io.EOF
			}
			if events.EndingOf(e.Data) != nil {
				return fmt.Errorf("the run ended with %+v", events.EndingOf(e.Data).Content.Value().Error)
			}
		}
		return nil
	})
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	close(web.released)
	e, err := book.Wait(within(t), id)
	if err != nil || deref(e.Result) != "1" {
		t.Fatalf("%s %s %v", deref(e.Result), deref(e.Error), err)
	}
	if answers := recordedFetches(t, book, id); len(answers) != 1 || answers[0].Outcome != events.HostOK {
		t.Errorf("%+v", answers)
	}
	if got := replayIn(t, book, id); got.Verdict != events.ReplayIdentical {
		t.Errorf("%+v", got)
	}
}

// Without a policy the function says what to do. A heap may keep it for a run that has one.
func TestFetchWithoutPolicy(t *testing.T) {
	t.Parallel()
	web := newWebsite(t)
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	e := run(t, book, embed.Script{Code: `const get = fetch; await get("` + web.URL + `/open/echo").catch(e => e.name + ": " + e.message)`})
	if want := "TypeError: fetch is disabled: the operator enables it with --fetch-policy"; deref(e.Result) != want {
		t.Errorf("%s %s", deref(e.Result), deref(e.Error))
	}
	closeBook(t, book)
	opts := fetching(t, fetchPolicy)
	opts.DataDir = dir
	book = start(t, opts)
	if next := run(t, book, embed.Script{Code: `(await get("` + web.URL + `/open/echo")).status`, Heap: *e.Heap}); deref(next.Result) != "200" {
		t.Errorf("with a policy: %s %s", deref(next.Result), deref(next.Error))
	}
}

// recordedFetches returns the events of the answers to the calls of an execution.
func recordedFetches(t *testing.T, book *embed.Daybook, id string) (list []events.HostReturned) {
	t.Helper()
	_, text := answerOf(t, book, http.MethodGet, "/api/executions/"+id+"/events")
	var all []struct {
		Type string
		Data json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, e := range all {
		if e.Type != string(events.TypeHostReturned) {
			continue
		}
		var d events.HostReturned
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatalf("%s: %v", e.Data, err)
		}
		list = append(list, d)
	}
	return list
}

// checkListedFetches checks the fetches in the list of calls.
func checkListedFetches(t *testing.T, book *embed.Daybook, url, id string, hashesOnly bool) {
	t.Helper()
	var list struct{ Calls []projections.Call }
	status, body := answerOf(t, book, http.MethodGet, "/api/executions/"+id+"/calls")
	if err := json.Unmarshal([]byte(body), &list); status != http.StatusOK || err != nil || len(list.Calls) != 4 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	var got []string
	for _, c := range list.Calls {
		if c.Fetch == nil {
			t.Fatalf("%s", body)
		}
		for _, r := range c.Fetch.Requests {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %d %t", r.Method, strings.TrimPrefix(r.URL, url), r.Status, r.Allowed)))
		}
	}
	want := []string{"GET /open/near 302 true", "GET /open/echo 200 true", "POST /open/large 200 true", "GET /open/away 302 true", "GET /closed 0 false", "GET /open/echo 200 true"}
	if hashesOnly {
		want = []string{"302 true", "200 true", "200 true", "302 true", "0 false", "200 true"}
	}
	large := list.Calls[1].Fetch
	if !slices.Equal(got, want) || large.RequestBody.Size != 8 || large.ResponseBody.Size != 100000 || large.Requests[0].PolicySHA256 == "" || large.Requests[0].Rule != "data.mcp.fetch.allow" {
		t.Errorf("%q in %s", got, body)
	}
}

// A fetch is recorded with its decisions, and is replayed without the network, from the data
// directory and from an export. With hashes only, a replay says why it is impossible.
func TestFetchesAreReplayed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*embed.Options){
		"plain": func(*embed.Options) {}, "encrypted": func(o *embed.Options) { o.Content.Erasable = true }, "hashes": func(o *embed.Options) { o.Tools.Bodies = "hash" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := newWebsite(t)
			opts := fetching(t, fetchPolicy)
			opts.DataDir = filepath.Join(t.TempDir(), "data")
			change(&opts)
			book := start(t, opts)
			e := run(t, book, embed.Script{Session: "s", Code: strings.ReplaceAll(`
				const first = await fetch("URL/open/near");
				console.log(first.headers.get("x-count"), await first.text());
				const large = await (await fetch("URL/open/large", { method: "POST", body: "question" })).bytes();
				const why = await fetch("URL/open/away").catch(e => e.message);
				const race = await Promise.race([fetch("URL/open/echo").then(() => "fetched"), new Promise(r => setTimeout(r, 60000, "slow").unref())]);
				console.log(large.length, why, race, new Date().getTime() > 0);
				[large.length, race].join()`, "URL", web.URL)})
			if deref(e.Result) != "100000,fetched" {
				t.Fatalf("%s %s", deref(e.Result), deref(e.Error))
			}
			answers := recordedFetches(t, book, e.ExecutionID)
			if len(answers) != 4 {
				t.Fatalf("%d answers are recorded", len(answers))
			}
			checkListedFetches(t, book, web.URL, e.ExecutionID, name == "hashes")
			for i, want := range []struct {
				outcome  events.HostOutcome
				statuses []int
				response int64
			}{{events.HostOK, []int{302, 200}, 36}, {events.HostOK, []int{200}, 100000}, {events.HostError, []int{302, 0}, 0}, {events.HostOK, []int{200}, 36}} {
				d := answers[i]
				if d.Outcome != want.outcome || d.Fetch == nil || len(d.Fetch.Decisions) != len(want.statuses) {
					t.Errorf("answer %d: %+v", i+1, d)
					continue
				}
				for n, status := range want.statuses {
					if one := d.Fetch.Decisions[n]; one.Status != status || one.Allowed != (status != 0) || len(one.PolicySHA256) != 64 || one.Rule != "data.mcp.fetch.allow" {
						t.Errorf("answer %d, decision %d: %+v", i+1, n+1, one)
					}
				}
				if b := d.Fetch.ResponseBody; (b == nil) != (want.response == 0) || b != nil && (b.Size != want.response || len(b.SHA256) == 0) {
					t.Errorf("answer %d: %+v", i+1, b)
				}
			}
			if b := answers[1].Fetch.RequestBody; b == nil || b.Size != 8 || (b.SHA256 == events.Hash([]byte("question"))) == (name == "encrypted") {
				t.Errorf("the body of the request: %+v", b)
			}
			web.CloseClientConnections()
			web.Close() // no request can be answered any more
			hits, want := web.hits.Load(), "identical"
			if name == "hashes" {
				want = "not_replayed answer_not_kept"
			}
			got := replayIn(t, book, e.ExecutionID)
			if verdict := strings.TrimSpace(string(got.Verdict) + " " + got.Reason); verdict != want {
				t.Errorf("replayed from the data directory: %+v", got)
			}
			key := book.AuditKey()
			closeBook(t, book)
			dir := filepath.Join(t.TempDir(), "export")
			if _, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: dir, Blobs: true}); err != nil {
				t.Fatal(err)
			}
			var verdicts []string
			o := embed.ReplayExportOptions{Dir: dir, Keys: []string{key}}
			if name == "encrypted" {
				o.KeyDir = filepath.Join(opts.DataDir, "keys")
			}
			err := embed.ReplayExport(within(t), o, func(r embed.Replayed) error {
				verdicts = append(verdicts, strings.TrimSpace(string(r.Verdict)+" "+r.Reason))
				return nil
			})
			if name == "encrypted" {
				want = "not_replayed source_missing" // an export has no encrypted texts, and the long answer is one
			}
			if err != nil || len(verdicts) != 1 || verdicts[0] != want {
				t.Errorf("replayed from an export: %q, %v", verdicts, err)
			}
			if web.hits.Load() != hits {
				t.Error("a replay has sent a request")
			}
			if name == "plain" {
				changeFetchedByte(t, dir, o)
			}
		})
	}
}

// changeFetchedByte changes one byte of an answer in a blob, and then one in an event of an
// export. The verification before a replay must notice each.
func changeFetchedByte(t *testing.T, dir string, o embed.ReplayExportOptions) {
	t.Helper()
	change := func(path, from, to string) {
		t.Helper()
		raw, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(raw), from) {
			t.Fatalf("%s has no %q, %v", path, from, err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(raw), from, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	replay := func() error {
		got = nil
		return embed.ReplayExport(within(t), o, func(r embed.Replayed) error {
			got = append(got, string(r.Verdict)+" "+r.Reason)
			return nil
		})
	}
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "text-*"))
	if err != nil || len(blobs) != 1 {
		t.Fatalf("blobs: %q, %v", blobs, err)
	}
	change(blobs[0], "0123456789", "0123456780")
	if err := replay(); err == nil || len(got) != 0 || !strings.Contains(err.Error(), "NOT INTACT") {
		t.Errorf("with a changed blob: %q, %v", got, err)
	}
	change(blobs[0], "0123456780", "0123456789")
	change(filepath.Join(dir, "events.ndjson"), `\"x-count\"`, `\"x-counT\"`)
	if err := replay(); err == nil || len(got) != 0 || !strings.Contains(err.Error(), "NOT INTACT") {
		t.Errorf("with a changed event: %q, %v", got, err)
	}
}

// The secret of a rule is in no event, no log and no answer, although the server repeats it.
func TestFetchSecrets(t *testing.T) {
	const secret = "very-secret-key-4711"
	t.Setenv("SITE_KEY", secret)
	web := newWebsite(t)
	host := strings.TrimPrefix(web.URL, "http://")
	opts := fetching(t, fetchPolicy)
	var err error
	if opts.Fetch.Headers, err = embed.ReadFetchHeaders([]string{"host=" + host + ",header=X-Key,value=${SITE_KEY},plain=true"}, ""); err != nil {
		t.Fatal(err)
	}
	said := new(shared)
	opts.Logger = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	book := start(t, opts)
	e := run(t, book, embed.Script{Code: `const r = await fetch("` + web.URL + `/open/echo"); const t = await r.text(); console.log(t); t`})
	if !strings.Contains(deref(e.Result), `"key":"[hidden]"`) {
		t.Errorf("%s %s", deref(e.Result), deref(e.Error))
	}
	answers := recordedFetches(t, book, e.ExecutionID)
	if len(answers) != 1 || len(answers[0].Fetch.Decisions[0].AddedHeaders) != 1 || answers[0].Fetch.Decisions[0].AddedHeaders[0] != "x-key" {
		t.Errorf("%+v", answers)
	}
	_, all := answerOf(t, book, http.MethodGet, "/api/events?limit=1000")
	for what, text := range map[string]string{"the log": said.String(), "the events": all, "the options": fmt.Sprintf("%+v %#v", opts.Fetch, opts.Fetch)} {
		if strings.Contains(text, secret) || text == "" {
			t.Errorf("%s: %s", what, text)
		}
	}
}

// An access token and the secret for it are in no event, no log and no answer. The failure of
// the token endpoint is a TypeError of the fetch. A replay asks for no token.
func TestFetchTokens(t *testing.T) {
	const secret, token = "very-secret-client-4711", "very-secret-token-4712"
	t.Setenv("CLIENT_SECRET", secret)
	web := newWebsite(t)
	var asked, failing atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if failing.Load() > 0 {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":1,"note":%q}`, token, r.FormValue("client_secret"))
	}))
	defer issuer.Close()
	host := strings.TrimPrefix(web.URL, "http://")
	opts := fetching(t, fetchPolicy)
	var err error
	opts.Fetch.Headers, err = embed.ReadFetchHeaders([]string{"host=" + host + ",header=X-Key,token_url=" + issuer.URL + ",client_id=me,client_secret=${CLIENT_SECRET},plain=true"}, "")
	if err != nil {
		t.Fatal(err)
	}
	said := new(shared)
	opts.Logger = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	book := start(t, opts)
	code := `await fetch("` + web.URL + `/open/echo").then(r => r.text(), e => e.name + ": " + e.message + " " + e.cause.code)`
	ended := run(t, book, embed.Script{Code: code})
	if !strings.Contains(deref(ended.Result), `"key":"[hidden]"`) {
		t.Errorf("%s %s", deref(ended.Result), deref(ended.Error))
	}
	if got := recordedFetches(t, book, ended.ExecutionID); len(got) != 1 || !slices.Equal(got[0].Fetch.Decisions[0].AddedHeaders, []string{"x-key"}) {
		t.Errorf("%+v", got)
	}
	failing.Store(1)
	var failed projections.ExecutionDetail
	for { // until the token has expired
		failed = run(t, book, embed.Script{Code: code})
		if !strings.Contains(deref(failed.Result), "[hidden]") {
			break
		}
	}
	want := "TypeError: fetch: GET " + web.URL + "/open/echo: no access token for the header X-Key for " + host + ": the token endpoint answered with status 401 ERR_FETCH_TOKEN"
	if deref(failed.Result) != want {
		t.Errorf("%s %s", deref(failed.Result), deref(failed.Error))
	}
	if got := recordedFetches(t, book, failed.ExecutionID); len(got) != 1 || !got[0].Fetch.Decisions[0].Allowed || len(got[0].Fetch.Decisions[0].AddedHeaders) > 0 {
		t.Errorf("%+v", got)
	}
	before := asked.Load()
	for _, e := range []projections.ExecutionDetail{ended, failed} {
		if got := replayIn(t, book, e.ExecutionID); got.Verdict != events.ReplayIdentical {
			t.Errorf("%+v", got)
		}
	}
	if asked.Load() != before {
		t.Error("a replay has asked for a token")
	}
	_, all := answerOf(t, book, http.MethodGet, "/api/events?limit=1000")
	for what, text := range map[string]string{"the log": said.String(), "the events": all, "the options": fmt.Sprintf("%+v %#v", opts.Fetch, opts.Fetch)} {
		if strings.Contains(text, secret) || strings.Contains(text, token) || text == "" {
			t.Errorf("%s: %s", what, text)
		}
	}
	if !strings.Contains(said.String(), "no access token for a header of fetches") {
		t.Error("the log does not say that there was no token")
	}
}

// With several policies, a recorded decision names the one that decided alone, otherwise the
// chain. A chain without policies denies.
func TestFetchPolicyChains(t *testing.T) {
	t.Parallel()
	web := newWebsite(t)
	const posts = "package mcp.fetch\nallow if input.method == \"POST\""
	dir := t.TempDir()
	for name, text := range map[string]string{
		"open.rego": fetchPolicy, "posts.rego": posts, "none.json": `{"fetch":{"policies":[]}}`,
		"all.json": `{"fetch":{"mode":"all","policies":[{"url":"file://open.rego"},{"url":"file://posts.rego"}]}}`,
		"any.json": `{"fetch":{"mode":"any","policies":[{"url":"file://open.rego"},{"url":"file://posts.rego"}]}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open, post := events.Hash([]byte(fetchPolicy)), events.Hash([]byte(posts))
	both := open + "  data.mcp.fetch.allow\n" + post + "  data.mcp.fetch.allow\n"
	type request struct {
		method, path string
		allowed      bool
		policy       string
	}
	for file, requests := range map[string][]request{
		"all.json":  {{"POST", "/open/echo", true, events.Hash([]byte("all\n" + both))}, {"GET", "/open/echo", false, post}, {"POST", "/closed", false, open}},
		"any.json":  {{"GET", "/open/echo", true, open}, {"POST", "/closed", true, post}, {"GET", "/closed", false, events.Hash([]byte("any\n" + both))}},
		"none.json": {{"GET", "/open/echo", false, events.Hash([]byte("all\n"))}},
	} {
		opts := fetching(t, fetchPolicy)
		opts.Fetch.Policy = filepath.Join(dir, file)
		book := start(t, opts)
		for _, r := range requests {
			e := run(t, book, embed.Script{Code: `await fetch("` + web.URL + r.path + `", { method: "` + r.method + `" }).then(r => r.status, e => e.message)`})
			got := recordedFetches(t, book, e.ExecutionID)
			if len(got) != 1 || len(got[0].Fetch.Decisions) != 1 || got[0].Fetch.Decisions[0].Allowed != r.allowed || got[0].Fetch.Decisions[0].PolicySHA256 != r.policy {
				t.Errorf("%s: %s %s: %+v", file, r.method, r.path, got)
			}
			if r.allowed != (deref(e.Result) == "200") || !r.allowed && !strings.HasPrefix(deref(e.Result), "fetch denied by policy: ") {
				t.Errorf("%s: %s %s: %s %s", file, r.method, r.path, deref(e.Result), deref(e.Error))
			}
		}
		closeBook(t, book)
	}
}

// A policy that cannot be used refuses the start, with the flag and the reason.
func TestWrongFetchPolicy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"package other\nallow := true":                "its files have package other, and the rule belongs to package mcp.fetch",
		"package mcp.fetch\nallow if http.send({}).x": "http.send is refused in policies: it uses the network",
	} {
		opts := fetching(t, text)
		opts.DataDir = t.TempDir()
		book, err := embed.Start(within(t), opts)
		if err == nil {
			closeBook(t, book)
		}
		if err == nil || !strings.Contains(err.Error(), "Fetch.Policy") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A shred erases the addresses of fetches from the list of calls, and leaves the decisions.
func TestShreddedFetches(t *testing.T) {
	t.Parallel()
	web := newWebsite(t)
	opts := fetching(t, fetchPolicy)
	opts.DataDir, opts.Content.Erasable = filepath.Join(t.TempDir(), "data"), true
	book := start(t, opts)
	e := run(t, book, embed.Script{Session: "s", Code: `(await fetch("` + web.URL + `/open/secret-word")).status`})
	path := "/api/executions/" + e.ExecutionID + "/calls"
	if status, body := answerOf(t, book, http.MethodGet, path); status != http.StatusOK || !strings.Contains(body, "/open/secret-word") {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := answerOf(t, book, http.MethodDelete, "/api/sessions/s/content"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := answerOf(t, book, http.MethodGet, path); status != http.StatusOK || strings.Contains(body, "secret") || !strings.Contains(body, `"requests":[{"allowed":true,"policy_sha256":"`) {
		t.Errorf("%d %s", status, body)
	}
}
