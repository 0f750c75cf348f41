package embed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/embed"
	"daybook/internal/witness"
	"daybook/proof"
)

// A server with a policy serves the cosigned checkpoint, and its readiness and metrics have size and time. Without
// a policy there are none.
func TestWitness(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Runs: embed.RunOptions{Elsewhere: true}})
	vkey := book.AuditKey()
	if status, body := get(t, book.URL()+"/api/ledger/checkpoint/cosigned"); status != 404 {
		t.Errorf("without witnesses: %d %s", status, body)
	}
	if _, body := get(t, book.URL()+"/readyz"); strings.Contains(body, "cosigned") {
		t.Errorf("without witnesses: %s", body)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := witness.Open(witness.Options{Dir: t.TempDir(), Logs: []string{vkey}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	text := "log " + vkey + "\nwitness w " + w.VKey() + " " + server.URL + "\nquorum w\n"
	path := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	policy, err := proof.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	book = start(t, embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Runs: embed.RunOptions{Elsewhere: true}, Proof: embed.ProofOptions{WitnessPolicy: path}})
	if _, err := book.Submit(within(t), embed.Script{Code: "1"}); err != nil {
		t.Fatal(err)
	}
	status, note := 0, ""
	for ctx := within(t); status != 200; {
		if status, note = get(t, book.URL()+"/api/ledger/checkpoint/cosigned"); ctx.Err() != nil {
			t.Fatalf("%d %s", status, note)
		}
	}
	if _, err := policy.Check([]byte(note)); err != nil {
		t.Errorf("%v\n%s", err, note)
	}
	if _, body := get(t, book.URL()+"/readyz"); !strings.Contains(body, `"cosigned":{"size":`) || !strings.Contains(body, `"time":"`) {
		t.Error(body)
	}
	if _, body := get(t, book.URL()+"/metrics"); !strings.Contains(body, "\ndaybook_audit_cosigned_position ") || !strings.Contains(body, "\ndaybook_audit_cosigned_time_seconds 1") {
		t.Error("the metrics have no cosigned checkpoint")
	}
}

// A data directory that was set back together with its signed file is damage before anything is signed, and the server
// starts read-only. Verifications of the sound ledger under the policy are intact, over REST and at rest.
func TestSetBackIsNoticedByWitness(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Runs: embed.RunOptions{Elsewhere: true}}
	book := start(t, opts)
	vkey := book.AuditKey()
	closeBook(t, book)
	older := filepath.Join(t.TempDir(), "older")
	copyData(t, dir, older)
	w, err := witness.Open(witness.Options{Dir: t.TempDir(), Logs: []string{vkey}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	policy := []byte("log " + vkey + "\nwitness w " + w.VKey() + " " + server.URL + "\nquorum w\n")
	opts.Proof.WitnessPolicy = filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(opts.Proof.WitnessPolicy, policy, 0o600); err != nil {
		t.Fatal(err)
	}
	book = start(t, opts)
	submit(t, book, embed.Script{Code: "1"})
	ctx := within(t)
	ask := func(ctx context.Context, path string, header ...string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, book.URL()+path, nil)
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil && resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			return nil, errors.New(resp.Status)
		}
		return resp, err
	}
	for {
		r, err := embed.Verify(ctx, embed.VerifyOptions{Server: ask, ServerURL: book.URL(), WitnessPolicy: policy, MaxAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if r.OK {
			break
		}
	}
	submit(t, book, embed.Script{Code: "2"})
	closeBook(t, book) // waits for the cosignatures of the last checkpoint
	if r, err := embed.Verify(ctx, embed.VerifyOptions{DataDir: dir, WitnessPolicy: policy, MaxAge: time.Hour}); err != nil || !r.OK {
		t.Errorf("at rest: %v\n%v", err, r)
	}
	if _, err := embed.Verify(ctx, embed.VerifyOptions{DataDir: dir, WitnessPolicy: []byte("x")}); err == nil {
		t.Error("a policy that is not valid is accepted")
	} else if _, ok := errors.AsType[*embed.PolicyError](err); !ok {
		t.Error(err)
	}

	opts.DataDir = older
	book = start(t, opts)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		list, _ := book.Damage()
		if strings.Contains(fmt.Sprint(list), "the witness w has a checkpoint") {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("damage %v", list)
		}
	}
	if status, body := get(t, book.URL()+"/readyz"); status != 503 || !strings.Contains(body, "witness") {
		t.Errorf("%d %s", status, body)
	}
	if _, err := book.Submit(ctx, embed.Script{Code: "1"}); err == nil {
		t.Error("the restored copy accepts a script")
	}
	_ = book.Close()
}
