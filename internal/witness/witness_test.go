package witness_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/internal/witness"
	"daybook/proof"
)

const origin = "example.com/log"

func open(t *testing.T, dir string, vkeys ...string) *witness.Witness {
	t.Helper()
	w, err := witness.Open(witness.Options{Dir: dir, Name: "witness.example/w1", Logs: vkeys, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// send posts a request and returns the response.
func send(t *testing.T, w *witness.Witness, body string) (status int, kind, text string) {
	t.Helper()
	out := httptest.NewRecorder()
	w.Handler().ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/add-checkpoint", strings.NewReader(body)))
	return out.Code, out.Header().Get("Content-Type"), out.Body.String()
}

// wantCosigned fails unless a response has a cosignature of the checkpoint in a request.
func wantCosigned(t *testing.T, w *witness.Witness, body string) {
	t.Helper()
	status, _, lines := send(t, w, body)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, lines)
	}
	_, signed, _ := strings.Cut(body, "\n\n")
	n, err := proof.ParseNote([]byte(signed + lines))
	if err != nil {
		t.Fatal(err)
	}
	key, err := proof.ParseWitnessKey(w.VKey())
	if err != nil {
		t.Fatal(err)
	}
	if at, ok, err := key.Cosigned(n); err != nil || !ok || time.Since(at) > time.Minute {
		t.Fatalf("%s: %v %t %v", lines, at, ok, err)
	}
}

// Each kind of request has the answer that tlog-witness demands.
func TestAddCheckpoint(t *testing.T) {
	t.Parallel()
	l := newLog(t, origin).grow(300, "a")
	fork := &testLog{t: t, signer: l.signer, vkey: l.vkey}
	fork.grow(300, "b")
	unknown := newLog(t, "example.com/unknown").grow(3, "a")
	namesake := newLog(t, origin).grow(20, "a")
	w := open(t, t.TempDir(), l.vkey)
	emptyTree := "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	status := func(name string, want int, body string) {
		t.Helper()
		if got, kind, text := send(t, w, body); got != want || want == http.StatusConflict && (kind != "text/x.tlog.size" || text != "7\n") {
			t.Errorf("%s: %d (%s) %q, want %d", name, got, kind, text, want)
		}
	}
	status("an empty tree with a hash", 422, "old 0\n\n"+string(l.sign(origin+"\n0\n"+proof.EncodeHash(proof.Hash{1})+"\n")))
	wantCosigned(t, w, "old 0\n\n"+string(l.sign(origin+"\n0\n"+emptyTree+"\n")))
	wantCosigned(t, w, "old 0\n\n"+string(l.sign(origin+"\n0\n"+emptyTree+"\n")))
	status("a proof from 0", 422, strings.Replace(l.request(0, 7), "old 0\n", "old 0\n"+emptyTree+"\n", 1))
	wantCosigned(t, w, l.request(0, 7))
	wantCosigned(t, w, l.request(7, 7))
	wantCosigned(t, w, "old 7\n\n"+string(l.checkpoint(7, "an extension\n")))
	status("a proof for the same size", 422, strings.Replace(l.request(7, 7), "old 7\n", "old 7\n"+emptyTree+"\n", 1))
	status("another tree of the same size", 422, fork.request(7, 7))
	status("the first checkpoint again", 409, l.request(0, 7))
	status("from 0", 409, l.request(0, 9))
	status("smaller", 409, l.request(3, 5))
	status("from a size that the witness does not know", 409, l.request(8, 9))
	status("a fork", 422, fork.request(7, 9))
	status("a fork of the same size as asked", 409, fork.request(9, 9))
	status("no proof", 422, "old 7\n\n"+string(l.checkpoint(9, "")))
	status("an old size above the checkpoint's", 400, strings.Replace(l.request(5, 7), "old 5", "old 9", 1))
	status("an unknown origin", 404, unknown.request(0, 3))
	status("another key of the origin", 403, namesake.request(7, 9))
	text, _, _ := strings.Cut(l.request(7, 9), "\u2014")
	_, signature, _ := strings.Cut(l.request(7, 8), "\u2014")
	status("a wrong signature", 403, text+"\u2014"+signature)
	status("a wrong signature of an unknown origin", 404, strings.Replace(unknown.request(0, 3), "\n3\n", "\n4\n", 1))
	for name, body := range map[string]string{
		"empty":                     "",
		"no empty line":             "old 0\n" + origin,
		"no checkpoint":             "old 7\n\n",
		"no old size":               "\n\n" + string(l.checkpoint(9, "")),
		"old without a number":      "old \n\n" + string(l.checkpoint(9, "")),
		"old with a zero before":    "old 07\n\n" + string(l.checkpoint(9, "")),
		"old with a sign":           "old +7\n\n" + string(l.checkpoint(9, "")),
		"old with two spaces":       "old  7\n\n" + string(l.checkpoint(9, "")),
		"old of 2^63":               "old 9223372036854775808\n\n" + string(l.checkpoint(9, "")),
		"64 lines of proof":         "old 7\n" + strings.Repeat(emptyTree+"\n", 64) + "\n" + string(l.checkpoint(9, "")),
		"a short hash":              "old 7\nAAAA\n\n" + string(l.checkpoint(9, "")),
		"returns":                   strings.ReplaceAll(l.request(7, 9), "\n", "\r\n"),
		"a checkpoint without size": "old 7\n\n" + string(l.sign(origin+"\n")),
	} {
		status(name, 400, body)
	}
	status("too long", 413, "old 7\n"+strings.Repeat(" ", 80<<10))
	wantCosigned(t, w, l.request(7, 9)) // nothing above changed the state
	wantCosigned(t, w, l.request(9, 300))
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		out := httptest.NewRecorder()
		w.Handler().ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), method, "/add-checkpoint", nil))
		if out.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, out.Code)
		}
	}
}

// The newest cosigned checkpoint has the signatures of the log's keys and of the witness, and no others.
func TestNewest(t *testing.T) {
	t.Parallel()
	l, other := newLog(t, origin).grow(9, "a"), newLog(t, "example.com/other")
	w := open(t, t.TempDir(), l.vkey, other.vkey)
	get := func(origin string) (int, string) {
		out := httptest.NewRecorder()
		w.Handler().ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+witness.OriginHash(origin)+"/checkpoint", nil))
		return out.Code, out.Body.String()
	}
	wantCosigned(t, w, strings.TrimSuffix(l.request(0, 7), "\n")+"\n\u2014 unknown AAAAAAEC\n")
	policy, err := proof.ParsePolicy([]byte("log " + l.vkey + "\nwitness w " + w.VKey() + "\nquorum w\n"))
	if err != nil {
		t.Fatal(err)
	}
	status, text := get(origin)
	if _, err := policy.Check([]byte(text)); status != http.StatusOK || err != nil || strings.Contains(text, "unknown") || !strings.HasPrefix(text, origin+"\n7\n") {
		t.Errorf("%d %s: %v", status, text, err)
	}
	for _, missing := range []string{"example.com/other", "example.com/unknown"} {
		if status, text := get(missing); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", missing, status, text)
		}
	}
}

// The key of a log may be given in another form. Its signatures are kept then too.
func TestNewestOfAKeyInOtherLetters(t *testing.T) {
	t.Parallel()
	l := newLog(t, origin)
	var other string
	for other == "" {
		name, rest, _ := strings.Cut(l.vkey, "+")
		hash, key, _ := strings.Cut(rest, "+")
		if upper := strings.ToUpper(hash); upper != hash {
			other = name + "+" + upper + "+" + key
		} else {
			l = newLog(t, origin)
		}
	}
	w := open(t, t.TempDir(), other)
	wantCosigned(t, w, l.grow(9, "a").request(0, 7))
	out := httptest.NewRecorder()
	w.Handler().ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+witness.OriginHash(origin)+"/checkpoint", nil))
	if c, err := proof.OpenCheckpoint(out.Body.Bytes(), l.vkey); err != nil || c.Size != 7 {
		t.Errorf("%+v, %v\n%s", c, err, out.Body)
	}
}

// A checkpoint that is longer than a note with its cosignature may be is refused, and the state can be read
// at the next start.
func TestNoSpaceForACosignature(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := newLog(t, origin).grow(9, "a")
	w := open(t, dir, l.vkey)
	wantCosigned(t, w, l.request(0, 7))
	space := proof.MaxNoteBytes - len(l.checkpoint(7, ""))
	if status, _, text := send(t, w, "old 7\n\n"+string(l.checkpoint(7, strings.Repeat("x", space-1)+"\n"))); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wantCosigned(t, open(t, dir, l.vkey), l.request(7, 9))
}

// A request that is still served after Close is not cosigned: another process can have the directory.
func TestRequestsAfterClose(t *testing.T) {
	t.Parallel()
	l := newLog(t, origin).grow(9, "a")
	w := open(t, t.TempDir(), l.vkey)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if status, _, text := send(t, w, l.request(0, 7)); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, text)
	}
}

// Of many requests at the same time, each from the same size, one is cosigned, and the others name a wrong size.
func TestRaces(t *testing.T) {
	t.Parallel()
	l := newLog(t, origin).grow(200, "a")
	w := open(t, t.TempDir(), l.vkey)
	for old := int64(0); old < 160; old += 20 {
		var wait sync.WaitGroup
		statuses := make([]int, 16)
		sizes := make([]int64, len(statuses))
		for i := range statuses {
			sizes[i] = old + 1 + int64(i)
			body := l.request(old, sizes[i])
			wait.Go(func() { statuses[i], _, _ = send(t, w, body) })
		}
		wait.Wait()
		i := slices.Index(statuses, http.StatusOK)
		if others := slices.Delete(slices.Clone(statuses), max(i, 0), max(i, 0)+1); i < 0 || slices.ContainsFunc(others, func(s int) bool { return s != http.StatusConflict }) {
			t.Fatalf("from %d: %v", old, statuses)
		}
		wantCosigned(t, w, l.request(sizes[i], old+20))
	}
}

// The time of cosignatures does not go back with the clock.
func TestClock(t *testing.T) {
	t.Parallel()
	l := newLog(t, origin).grow(20, "a")
	now := time.Unix(1_000_000, 0)
	dir := t.TempDir()
	w, err := witness.Open(witness.Options{Dir: dir, Name: "w", Logs: []string{l.vkey}, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	key, err := proof.ParseWitnessKey(w.VKey())
	if err != nil {
		t.Fatal(err)
	}
	for i, test := range []struct {
		clock, want int64
	}{{1_000_000, 1_000_000}, {999_950, 1_000_000}, {1_000_100, 1_000_100}, {1_000_030, 0}, {1_000_200, 1_000_200}} {
		now = time.Unix(test.clock, 0)
		old, size := int64(i+1), int64(i+2)
		switch i {
		case 0:
			old = 0
		case 4:
			old = 4 // the request before was refused
		}
		body := l.request(old, size)
		status, _, lines := send(t, w, body)
		if test.want == 0 {
			if status != http.StatusServiceUnavailable {
				t.Errorf("clock %d: %d %s", test.clock, status, lines)
			}
			continue
		}
		_, signed, _ := strings.Cut(body, "\n\n")
		n, err := proof.ParseNote([]byte(signed + lines))
		if err != nil {
			t.Fatalf("clock %d: %d %s: %v", test.clock, status, lines, err)
		}
		if at, _, err := key.Cosigned(n); err != nil || at.Unix() != test.want {
			t.Errorf("clock %d: %v, %v", test.clock, at, err)
		}
	}
}

// The server answers over connections, and ends with its context.
func TestServe(t *testing.T) {
	t.Parallel()
	l := newLog(t, origin).grow(9, "a")
	w := open(t, t.TempDir(), l.vkey)
	url, stop := serve(t, w)
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.Post(url+"/add-checkpoint", "text/plain", strings.NewReader(l.request(0, 7))) //nolint:noctx // the test ends the server
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(string(text), "\u2014 witness.example/w1 ") {
		t.Errorf("%d %s %v", resp.StatusCode, text, err)
	}
	stop()
}
