package httpapi_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"daybook/audit"
	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/eventproof"
	"daybook/internal/web/access"
	"daybook/proof"
)

func (s *stack) proof(query string) httpapi.Proof {
	s.t.Helper()
	a := s.do("GET", "/api/ledger/proof?"+query, "")
	var p httpapi.Proof
	if err := json.Unmarshal(a.body, &p); err != nil || a.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s %s", query, a.Status, a.body)
	}
	return p
}

// Reading proofs and checkpoints of the newest event causes no signature: the response
// names the events that no checkpoint covers.
func TestProofsOfPendingEvents(t *testing.T) {
	t.Parallel()
	s, log := audited(t)
	s.request(events.DefaultTenant, 10)
	s.sign()
	c := s.sign() // covers the event that records the first one
	if end := s.lastSeq(); c.Size != end || c.Pending != nil {
		t.Fatalf("%+v, and the ledger ends at %d", c, end)
	}
	if again := s.sign(); again.Note != c.Note {
		t.Errorf("signing again made another checkpoint: %+v", again)
	}
	end := s.request(events.DefaultTenant, 1) // the next checkpoint without a request is due in an hour
	leaf := func(seq uint64) string {
		stored, err := s.store.ReadRaw(t.Context(), seq-1, 1)
		if err != nil {
			t.Fatal(err)
		}
		h, err := proof.LeafHash(eventproof.RecordOf(stored[0]))
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(h[:])
	}
	// Each request waits for the next checkpoint first.
	var reading sync.WaitGroup
	reading.Go(func() {
		p := s.proof(fmt.Sprintf("seq=%d", end))
		if p.Kind != "inclusion" || *p.Sequence != end || p.LeafHash != leaf(end) || p.Size != c.Size || p.RootHash != c.RootHash || p.Checkpoint != c.Note || p.Hashes == nil || len(p.Hashes) != 0 {
			t.Errorf("the pending event: %+v", p)
		}
		if q := p.Pending; q == nil || q.From != end || q.To != end || len(q.LeafHashes) != 1 || q.LeafHashes[0] != leaf(end) {
			t.Errorf("the pending range: %+v", p.Pending)
		}
	})
	reading.Go(func() {
		p := s.proof(fmt.Sprintf("seq=3&size=%d", end))
		if p.Size != c.Size || p.Pending == nil || p.Pending.To != end || len(p.Hashes) == 0 {
			t.Errorf("an event in a tree that is pending: %+v", p)
		}
	})
	reading.Go(func() {
		p := s.proof(fmt.Sprintf("from=3&to=%d", end))
		if p.Kind != "consistency" || p.Size != c.Size || p.Pending == nil || p.Pending.From != end || len(p.Hashes) == 0 {
			t.Errorf("consistency with a tree that is pending: %+v", p)
		}
	})
	reading.Go(func() {
		p := s.proof(fmt.Sprintf("from=%d", end))
		if p.Kind != "consistency" || *p.FromSize != end || p.FromRoot != "" || p.Size != c.Size || p.Pending == nil || len(p.Hashes) != 0 {
			t.Errorf("consistency from a tree that is pending: %+v", p)
		}
	})
	reading.Go(func() {
		if a := s.do("GET", "/api/ledger/checkpoint", "", "Daybook-Min-Sequence", fmt.Sprint(end)); a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "POST /api/ledger/checkpoint") {
			t.Errorf("a checkpoint that covers the pending event: %s %s", a.Status, a.body)
		}
		if a := s.do("GET", "/api/ledger/checkpoint?fresh=true", ""); a.StatusCode != http.StatusBadRequest || !strings.Contains(string(a.body), "POST /api/ledger/checkpoint") {
			t.Errorf("a fresh one: %s %s", a.Status, a.body)
		}
	})
	reading.Wait()
	if got := s.lastSeq(); got != end {
		t.Errorf("reading appended events %d to %d", end+1, got)
	}
	// The pending leaves extend the signed tree to the next one that is signed.
	s.sign("Daybook-Min-Sequence", fmt.Sprint(end))
	next := s.sign() // covers the event that records the first one
	p := s.proof(fmt.Sprintf("seq=%d", end))
	if next.Size < end || p.Pending != nil || p.LeafHash != leaf(end) || p.Checkpoint != next.Note {
		t.Errorf("once it is signed: %+v of %+v", p, next)
	}
	if _, err := proof.OpenCheckpoint([]byte(next.Note), log.VKey()); err != nil {
		t.Error(err)
	}
	hash := func(text string) (h tlog.Hash) {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Error(err)
		}
		copy(h[:], raw)
		return h
	}
	var path []tlog.Hash
	for _, h := range p.Hashes {
		path = append(path, hash(h))
	}
	if err := tlog.CheckRecord(path, int64(p.Size), hash(p.RootHash), int64(*p.LeafIndex), hash(p.LeafHash)); err != nil {
		t.Error(err)
	}
}

// Signing on demand needs a scope, is refused to other sites, and is limited in its
// rate: requests at the same time get the same checkpoint.
func TestSigningOnDemand(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s, _ := audited(t, k.option)
	s.request("acme", 3)
	for i, c := range []struct {
		scope  access.Scope
		status int
	}{{access.Read, 403}, {access.Run, 403}, {access.Sign, 200}, {access.Admin, 200}} {
		token := bearer(k.token("acme", fmt.Sprint("p", i), c.scope))
		a := s.do("POST", "/api/ledger/checkpoint", "", token...)
		if a.StatusCode != c.status || c.status == 403 && !strings.Contains(string(a.body), `needs the scope \"sign\"`) {
			t.Errorf("%s: %s %s", c.scope, a.Status, a.body)
		}
		if a := s.do("POST", "/api/ledger/checkpoint", "", append(token, "Sec-Fetch-Site", "cross-site")...); a.StatusCode != http.StatusForbidden {
			t.Errorf("%s from another site: %s", c.scope, a.Status)
		}
	}
	signer := bearer(k.token("acme", "signer", access.Sign))
	if a := s.do("GET", "/api/ledger/proof?seq=1", "", signer...); a.StatusCode != http.StatusForbidden {
		t.Errorf("a token with the scope sign cannot read: %s", a.Status)
	}
	s.sign(signer...)
	before := s.lastSeq()
	last := s.request("acme", 1)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if c := s.sign(signer...); c.Size < last {
				t.Errorf("a checkpoint of %d, with %d recorded", c.Size, last)
			}
		})
	}
	wg.Wait()
	if made := s.lastSeq() - before - 1; made != 1 {
		t.Errorf("50 requests made %d checkpoints, want 1", made)
	}
	if a := s.do("POST", "/api/ledger/checkpoint", "", signer...); a.Header.Get("Daybook-Sequence") != fmt.Sprint(s.lastSeq()) {
		t.Errorf("its position is %q of %d", a.Header.Get("Daybook-Sequence"), s.lastSeq())
	}
	if a := s.do("POST", "/api/ledger/checkpoint", "", append(signer, "Daybook-Min-Sequence", "100000")...); a.StatusCode != http.StatusNotFound {
		t.Errorf("of a position that is not recorded: %s %s", a.Status, a.body)
	}
}

// A caller with only the scope read can verify and export a server up to its newest
// checkpoint. Newer events are counted.
func TestVerifyWithReadScope(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s, log := audited(t, k.option)
	s.request("acme", 5)
	signer := bearer(k.token("acme", "signer", access.Sign))
	s.sign(signer...)
	c := s.sign(signer...) // covers the event that records the first one
	s.request("acme", 4)
	reader := bearer(k.token("acme", "auditor", access.Read))
	get := s.auditGet(http.MethodGet, reader...)
	var waited int
	remote := audit.NewRemote(func(ctx context.Context, path string, header ...string) (*http.Response, error) {
		if slices.Contains(header, "Daybook-Min-Sequence") { // this server signs nothing without a request for an hour
			waited++
			return nil, errors.New("503")
		}
		return get(ctx, path, header...)
	}, s.auditGet(http.MethodPost, reader...))
	before := s.lastSeq()
	unsigned := before - c.Size
	r, err := audit.VerifyServer(t.Context(), remote, audit.VerifyOptions{Tenant: "acme", Keys: []string{log.VKey()}})
	if err != nil || r.Verdict != audit.IntactUpTo || r.Unsigned != unsigned || unsigned != 4 || r.Executions != 5 {
		t.Errorf("%v\n%s", err, r)
	}
	done, err := audit.Export(t.Context(), remote, audit.ExportOptions{Dir: t.TempDir() + "/x"})
	if err != nil || done.Pending != unsigned || done.Size != c.Size || waited != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	if got := s.lastSeq(); got != before {
		t.Errorf("a reader appended events %d to %d", before+1, got)
	}
}

// No GET request appends an event.
func TestReadingAppendsNothing(t *testing.T) {
	t.Parallel()
	s, _ := audited(t)
	id := s.submit(`{"code":"1"}`)
	s.begin(id)
	s.sign()
	s.catchUp()
	last := s.lastSeq()
	heap := strings.Repeat("0", 64)
	place := strings.NewReplacer("{id}", id, "{heap}", heap, "{hash}", heap, "{kind}", "heaps", "{name}", "x", "{volume}", "1", "{path}", "0/000")
	asked := 0
	for path, item := range document(t).Paths {
		if _, ok := item["get"]; !ok {
			continue
		}
		for _, query := range []string{"", fmt.Sprintf("?seq=%d", last), "?fresh=true", "?session=new", "?limit=1"} {
			if a := s.do("GET", place.Replace(path)+query, ""); a.StatusCode < 300 {
				asked++
			}
		}
	}
	if end := s.lastSeq(); end != last || asked < 20 {
		t.Errorf("%d answers appended events %d to %d", asked, last+1, end)
	}
}
