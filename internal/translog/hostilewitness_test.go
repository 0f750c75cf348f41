package translog_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"daybook/internal/translog"
	"daybook/internal/witness"
	"daybook/proof"
)

// Whatever a witness answers to a checkpoint, the other one cosigns, the ledger is signed, the client reads a bounded
// part of the answer, and the log stops at once.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	var trapped atomic.Int64
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { trapped.Add(1) }))
	t.Cleanup(trap.Close)
	zeros := func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		for range 64 {
			_, _ = z.Write(make([]byte, 1<<20))
		}
		_ = z.Close()
		return b.Bytes()
	}()
	size := func(text string) http.HandlerFunc {
		return func(out http.ResponseWriter, _ *http.Request) {
			out.Header().Set("Content-Type", "text/x.tlog.size")
			out.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(out, text)
		}
	}
	line := proof.Signature{Name: "example.com/unknown", ID: 1, Raw: make([]byte, 72)}.Line()
	// lines answers with the cosignature of w, changed.
	lines := func(change func(string) string) func(w *witness.Witness) http.HandlerFunc {
		return func(w *witness.Witness) http.HandlerFunc {
			return func(out http.ResponseWriter, in *http.Request) {
				answer := httptest.NewRecorder()
				w.Handler().ServeHTTP(answer, in)
				maps.Copy(out.Header(), answer.Header())
				out.WriteHeader(answer.Code)
				text := answer.Body.String()
				if answer.Code == http.StatusOK {
					text = change(text)
				}
				_, _ = io.WriteString(out, text)
			}
		}
	}
	always := func(h http.HandlerFunc) func(*witness.Witness) http.HandlerFunc {
		return func(*witness.Witness) http.HandlerFunc { return h }
	}
	for name, test := range map[string]struct {
		answer   func(*witness.Witness) http.HandlerFunc
		cosigned bool   // the answer is right
		claim    uint64 // the size of a claim
		refuses  bool   // the claim has no size
	}{
		"an endless body": {answer: always(func(out http.ResponseWriter, _ *http.Request) {
			for chunk := make([]byte, 1<<16); ; {
				if _, err := out.Write(chunk); err != nil {
					return
				}
			}
		})},
		"an endless body without an error": {answer: always(func(out http.ResponseWriter, _ *http.Request) {
			out.WriteHeader(http.StatusServiceUnavailable)
			for chunk := []byte(strings.Repeat("later\n", 1000)); ; {
				if _, err := out.Write(chunk); err != nil {
					return
				}
			}
		})},
		"endless headers": {answer: always(func(out http.ResponseWriter, _ *http.Request) {
			for i := range 40 {
				out.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1<<20))
			}
		})},
		"a slow body": {answer: always(func(out http.ResponseWriter, in *http.Request) {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				_, _ = io.WriteString(out, "\u2014")
				if http.NewResponseController(out).Flush() != nil {
					return
				}
				select {
				case <-tick.C:
				case <-in.Context().Done():
					return
				}
			}
		})},
		"a body that unpacks to 64 MiB": {answer: always(func(out http.ResponseWriter, _ *http.Request) {
			out.Header().Set("Content-Encoding", "gzip")
			_, _ = out.Write(zeros)
		})},
		"a redirect": {answer: always(func(out http.ResponseWriter, in *http.Request) {
			http.Redirect(out, in, trap.URL+in.URL.Path, http.StatusPermanentRedirect)
		})},
		"a size beyond the ledger":     {answer: always(size("9000000000\n")), claim: 9000000000},
		"a size beyond all":            {answer: always(size("9223372036854775807\n")), claim: 1<<63 - 1},
		"no size":                      {answer: always(func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusConflict) })},
		"a size that is none":          {answer: always(size("18446744073709551616\n"))},
		"a negative size":              {answer: always(size("-1\n"))},
		"an unprocessable checkpoint":  {answer: always(func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusUnprocessableEntity) }), refuses: true},
		"unknown lines":                {answer: lines(func(s string) string { return line + s + line }), cosigned: true},
		"too many lines":               {answer: lines(func(s string) string { return s + strings.Repeat(line, 120) })},
		"a line that is no signature":  {answer: lines(func(s string) string { return s + "and more\n" })},
		"an empty line":                {answer: lines(func(s string) string { return s + "\n" + s })},
		"no end of the line":           {answer: lines(func(s string) string { return strings.TrimSuffix(s, "\n") })},
		"a wrong signature":            {answer: lines(func(s string) string { return flipped(s, 40) })},
		"another time":                 {answer: lines(func(s string) string { return flipped(s, 11) })},
		"a right and a wrong one":      {answer: lines(func(s string) string { return s + flipped(s, 40) })},
		"the key of another witness":   {answer: lines(func(s string) string { return flipped(s, 0) })},
		"a checkpoint in the way":      {answer: lines(func(s string) string { return "example.com/log\n1\nAAAA\n\n" + s })},
		"lines with a carriage return": {answer: lines(func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, vkey := newKey(t)
			good, url := startWitness(t, vkey, nil)
			bad, err := witness.Open(witness.Options{Dir: t.TempDir(), Logs: []string{vkey}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = bad.Close() })
			var sent, largest atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
				if in.Method == http.MethodGet {
					http.NotFound(out, in)
					return
				}
				counted := &countingWriter{ResponseWriter: out}
				test.answer(bad)(counted, in)
				for {
					most := largest.Load()
					if counted.n <= most || largest.CompareAndSwap(most, counted.n) {
						break
					}
				}
				sent.Add(1)
			}))
			t.Cleanup(server.Close)
			policy := writePolicy(t, "witness good "+good.VKey()+" "+url, "witness bad "+bad.VKey()+" "+server.URL, "quorum good")
			store := newStore(t)
			log, stop := runLog(t, store, translog.Options{Dir: t.TempDir(), KeyFile: key, WitnessPolicy: policy})
			for range 3 {
				last := fill(t, store, 5)
				if _, err := log.Checkpoint(t.Context(), last); err != nil {
					t.Fatal(err)
				}
				until(t, "a cosigned checkpoint", func() bool { c, _, ok := log.Cosigned(); return ok && c.Size >= last })
			}
			until(t, "three answers", func() bool { return sent.Load() >= 3 })
			if test.cosigned {
				until(t, "both cosignatures", func() bool { c, _, _ := log.Cosigned(); return len(signatures(t, c)) == 3 })
			} else if c, _, _ := log.Cosigned(); len(signatures(t, c)) != 2 {
				t.Errorf("it is cosigned: %s", c.Note)
			}
			if got, claims := log.WitnessClaims()["bad"]; got != test.claim || claims != (test.claim > 0 || test.refuses) {
				t.Errorf("claims: %v", log.WitnessClaims())
			}
			if err := log.Damage(); err != nil {
				t.Error(err)
			}
			stopped := make(chan struct{})
			go func() { stop(); close(stopped) }()
			until(t, "the stop, which does not wait for the end of a round", func() bool {
				select {
				case <-stopped:
					return true
				default:
					return false
				}
			})
			if most := largest.Load(); most > 16<<20 { // the buffers of the connection
				t.Errorf("%d bytes of an answer were taken", most)
			}
		})
	}
	t.Cleanup(func() {
		if n := trapped.Load(); n > 0 {
			t.Errorf("%d redirects were followed", n)
		}
	})
}

// flipped changes a byte of the ID, time and signature in a line.
func flipped(line string, at int) string {
	name, encoded, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(line, "\u2014 "), "\n"), " ")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return line
	}
	raw[at] ^= 1
	return "\u2014 " + name + " " + base64.StdEncoding.EncodeToString(raw) + "\n"
}

// signatures returns the names of the keys that signed a checkpoint.
func signatures(t *testing.T, c proof.Checkpoint) []string {
	t.Helper()
	n, err := proof.ParseNote(c.Note)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range n.Signatures {
		names = append(names, s.Name)
	}
	return names
}

// countingWriter counts the bytes of a body.
type countingWriter struct {
	http.ResponseWriter
	n int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController flush.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
