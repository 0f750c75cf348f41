package httpapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"daybook/audit"
	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/eventproof"
	"daybook/internal/store/storetest"
	"daybook/internal/translog"
	"daybook/proof"
)

// audited is a stack whose ledger has proofs.
func audited(t *testing.T, change ...func(*httpapi.Options)) (*stack, *translog.Log) {
	t.Helper()
	return auditedWith(t, translog.Options{}, change...)
}

// auditedWith is audited with some options of the Log.
func auditedWith(t *testing.T, opts translog.Options, change ...func(*httpapi.Options)) (*stack, *translog.Log) {
	t.Helper()
	opts.Dir, opts.Every, opts.NoSync, opts.Logger = t.TempDir(), time.Hour, true, storetest.Logger(t)
	log, err := translog.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t)
	s.serve(append(change, func(o *httpapi.Options) {
		o.Audit, o.Proofs = &audit.Local{Log: log, Stream: s.store, Blobs: s.store}, log
		o.Blobs = s.store
	})...)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := log.Run(ctx, s.store, s.store); err != nil && ctx.Err() == nil {
			t.Errorf("follow the ledger: %v", err)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	return s, log
}

// request appends execution requests and returns the last position.
func (s *stack) request(tenant string, n int) (last uint64) {
	s.t.Helper()
	for range n {
		var err error
		last, err = s.store.Append(s.t.Context(), events.New(tenant, time.Now(), &events.ExecutionRequested{
			ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1"}}),
		}), 0)
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return last
}

// A checkpoint covers the requested position, as a note or as an object, and the tiles
// give the same tree.
func TestCheckpointAndTiles(t *testing.T) {
	t.Parallel()
	s, log := audited(t)
	if a := s.do("GET", "/api/ledger/checkpoint", ""); a.StatusCode != http.StatusNotFound || !strings.Contains(string(a.body), `"code":"ledger_empty"`) {
		t.Errorf("of an empty ledger: %s %s", a.Status, a.body)
	}
	s.request(events.DefaultTenant, 2)
	for range 2 { // the second finds that of the first
		fresh, err := proof.ParseCheckpoint(s.do("POST", "/api/ledger/checkpoint", "").body)
		if end, lerr := s.store.LastSeq(t.Context()); err != nil || lerr != nil || fresh.Size+1 < end || end > 4 {
			t.Errorf("a fresh one covers %d of %d: %v, %v", fresh.Size, end, err, lerr)
		}
	}
	last := s.request(events.DefaultTenant, 300)
	s.do("POST", "/api/ledger/checkpoint", "", "Daybook-Min-Sequence", fmt.Sprint(last))
	text := s.do("POST", "/api/ledger/checkpoint", "") // covers the event that records the first one
	if text.StatusCode != http.StatusOK || !strings.HasPrefix(text.Header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%s: %s", text.Status, text.body)
	}
	c, err := proof.OpenCheckpoint(text.body, log.VKey())
	if err != nil || c.Size < last {
		t.Fatalf("%+v, %v; want one that covers %d", c, err, last)
	}
	var object httpapi.Checkpoint
	if err := json.Unmarshal(s.do("GET", "/api/ledger/checkpoint", "", "Accept", "application/json").body, &object); err != nil {
		t.Fatal(err)
	}
	if object.Note != string(text.body) || object.Size != c.Size || object.Origin != log.Origin() || len(object.VKeys) != 1 || object.Tenant != "" {
		t.Errorf("as an object: %+v", object)
	}
	// A client of package tlog reads and checks the tiles.
	tree := tlog.Tree{N: int64(c.Size), Hash: c.Root}
	reader := tlog.TileHashReader(tree, tileClient{s})
	proof, err := tlog.ProveRecord(tree.N, 255, reader)
	if err != nil {
		t.Fatal(err)
	}
	entries := s.do("GET", "/api/ledger/tile/entries/000", "")
	if kept := entries.Header.Get("Cache-Control"); kept != "no-store" {
		t.Errorf("caches may keep a bundle: %q", kept)
	}
	bundle := entries.body
	var leaves []tlog.Hash
	for len(bundle) > 2 {
		n := int(binary.BigEndian.Uint16(bundle))
		leaves = append(leaves, tlog.RecordHash(bundle[2:2+n]))
		bundle = bundle[2+n:]
	}
	if len(leaves) != 256 {
		t.Fatalf("the bundle has %d entries", len(leaves))
	}
	if err := tlog.CheckRecord(proof, tree.N, tree.Hash, 255, leaves[255]); err != nil {
		t.Errorf("the last entry of the bundle: %v", err)
	}
	full := s.do("GET", "/api/ledger/tile/0/000", "")
	if full.Header.Get("Cache-Control") != "public, max-age=604800, immutable" || !bytes.Equal(full.body[255*32:], leaves[255][:]) {
		t.Errorf("the full tile: %v", full.Header)
	}
	for _, path := range []string{"0/001", "0/002.p/1", "0/000.p/256", "entries/001", "nonsense", "0/0", "9/000"} {
		if a := s.do("GET", "/api/ledger/tile/"+path, ""); a.StatusCode != http.StatusNotFound || !strings.Contains(string(a.body), `"error"`) {
			t.Errorf("tile %s: %s %s", path, a.Status, a.body)
		}
	}
}

// tileClient reads tiles over HTTP for package tlog.
type tileClient struct{ s *stack }

func (tileClient) Height() int                     { return 8 }
func (tileClient) SaveTiles([]tlog.Tile, [][]byte) {}
func (c tileClient) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var list [][]byte
	for _, tile := range tiles {
		path := proof.Tile{Level: tile.L, Index: uint64(tile.N), Width: tile.W}.Path()
		a := c.s.do("GET", "/api/ledger/"+path, "")
		if a.StatusCode != http.StatusOK {
			return nil, errors.New(path + ": " + a.Status)
		}
		list = append(list, a.body)
	}
	return list, nil
}

// Proofs are valid, also for events and sizes that no checkpoint covered before.
func TestProofs(t *testing.T) {
	t.Parallel()
	s, log := audited(t)
	last := s.request(events.DefaultTenant, 20)
	s.sign()
	hash := func(text string) (h tlog.Hash) {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) != 32 {
			t.Errorf("%q is no hash", text)
		}
		copy(h[:], raw)
		return h
	}
	var p httpapi.Proof
	get := func(query string) httpapi.Proof {
		t.Helper()
		a := s.do("GET", "/api/ledger/proof?"+query, "")
		p = httpapi.Proof{}
		if err := json.Unmarshal(a.body, &p); err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s", query, a.Status, a.body)
		}
		return p
	}
	hashes := func() (list []tlog.Hash) {
		for _, h := range p.Hashes {
			list = append(list, hash(h))
		}
		return list
	}
	for _, query := range []string{fmt.Sprintf("seq=%d", last), "seq=3", "seq=3&size=7", "seq=7&size=7"} {
		get(query)
		if err := tlog.CheckRecord(hashes(), int64(p.Size), hash(p.RootHash), int64(*p.LeafIndex), hash(p.LeafHash)); err != nil {
			t.Errorf("%s: %v", query, err)
		}
		stored, err := s.store.ReadRaw(t.Context(), *p.Sequence-1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if leaf, err := proof.LeafHash(eventproof.RecordOf(stored[0])); err != nil || leaf != hash(p.LeafHash) {
			t.Errorf("%s: another leaf, %v", query, err)
		}
		if p.Checkpoint != "" {
			if c, err := proof.OpenCheckpoint([]byte(p.Checkpoint), log.VKey()); err != nil || c.Root != hash(p.RootHash) {
				t.Errorf("%s: its checkpoint: %v", query, err)
			}
		}
	}
	for _, query := range []string{"from=3", "from=3&to=9", "from=9&to=9"} {
		get(query)
		proof := proof.Consistency{From: *p.FromSize, To: p.Size, FromRoot: hash(p.FromRoot), ToRoot: hash(p.RootHash), Hashes: hashes()}
		if err := proof.Check(); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	for query, status := range map[string]int{
		"": 400, "seq=0": 400, "seq=1&from=1": 400, "to=3": 400, "from=1&size=2": 400, "seq=5&size=4": 400, "from=5&to=4": 400, "from=0": 400,
		"seq=100000": 404, "seq=1&size=100000": 404, "from=1&to=100000": 404, "seq=x": 422, "seq=1&color=red": 422,
	} {
		if a := s.do("GET", "/api/ledger/proof?"+query, ""); a.StatusCode != status {
			t.Errorf("%q: %s, want %d: %s", query, a.Status, status, a.body)
		}
	}
}

// An export that the command line makes from a server can be verified without the
// server, and the server can be verified over HTTP.
func TestExportAndVerifyOverHTTP(t *testing.T) {
	t.Parallel()
	s, log := audited(t)
	s.request(events.DefaultTenant, 30)
	s.request("other", 2)
	heap := []byte("a heap")
	hash, err := s.store.PutHeap(t.Context(), events.DefaultTenant, heap, "engine")
	if err != nil {
		t.Fatal(err)
	}
	remote := audit.NewRemote(s.auditGet(http.MethodGet), s.auditGet(http.MethodPost))
	for _, sel := range []proof.ExportSelection{{}, {From: 5, To: 9}} {
		dir := filepath.Join(t.TempDir(), "x")
		if _, err := audit.Export(t.Context(), remote, audit.ExportOptions{Dir: dir, Selection: sel}); err != nil {
			t.Fatal(err)
		}
		r, err := audit.VerifyExport(t.Context(), dir, audit.VerifyOptions{Keys: []string{log.VKey()}})
		if err != nil || !r.OK || sel.To > 0 && r.Events != 5 {
			t.Errorf("%+v: %v\n%s", sel, err, r)
		}
	}
	r, err := audit.VerifyServer(t.Context(), remote, audit.VerifyOptions{Keys: []string{log.VKey()}})
	if err != nil || !r.OK || !r.Complete {
		t.Errorf("the server: %v\n%s", err, r)
	}
	if raw, err := remote.Blob(t.Context(), audit.Blob{Heap: true, SHA256: hash}); err != nil || !bytes.Equal(raw, heap) {
		t.Errorf("the heap: %q, %v", raw, err)
	}
	// Without authentication, callers can read the blobs of all tenants, as they can read
	// their events.
	theirs := []byte("another tenant's heap")
	if _, err := s.store.PutHeap(t.Context(), "other", theirs, "engine"); err != nil {
		t.Fatal(err)
	}
	if raw, err := remote.Blob(t.Context(), audit.Blob{Tenant: "other", Heap: true, SHA256: events.Hash(theirs)}); err != nil || !bytes.Equal(raw, theirs) {
		t.Errorf("the other tenant's heap: %q, %v", raw, err)
	}
	for path, status := range map[string]int{
		"/api/ledger/export?from=9&to=3": 400, "/api/ledger/export?to=100000": 400, "/api/ledger/export?size=100000": 400, "/api/ledger/export?since=yesterday": 422,
		"/api/ledger/blobs/heaps/" + events.Hash(nil): 404, "/api/ledger/blobs/heaps/x": 400, "/api/ledger/blobs/dogs/" + hash: 422,
	} {
		if a := s.do("GET", path, ""); a.StatusCode != status {
			t.Errorf("%s: %s, want %d: %s", path, a.Status, status, a.body)
		}
	}
}

// auditGet is a client of an audit.Remote that sends a header with every request.
func (s *stack) auditGet(method string, always ...string) audit.Get {
	return func(ctx context.Context, path string, header ...string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, method, s.url+path, nil)
		if err != nil {
			return nil, err
		}
		for all, i := append(header, always...), 0; i+1 < len(all); i += 2 {
			req.Header.Set(all[i], all[i+1])
		}
		resp, err := s.client.Do(req)
		if err == nil && resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			err = fmt.Errorf("%s %s: %s", method, path, resp.Status)
		}
		return resp, err
	}
}

// sign returns a checkpoint of all recorded events.
func (s *stack) sign(header ...string) httpapi.Checkpoint {
	s.t.Helper()
	a := s.do("POST", "/api/ledger/checkpoint", "", append(header, "Accept", "application/json")...)
	var c httpapi.Checkpoint
	if err := json.Unmarshal(a.body, &c); err != nil || a.StatusCode != http.StatusOK {
		s.t.Fatalf("sign: %s %s", a.Status, a.body)
	}
	return c
}

// Without proofs, all operations that need them report it.
func TestLedgerWithoutProofs(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.request(events.DefaultTenant, 1)
	for _, path := range []string{"checkpoint", "proof?seq=1", "export", "tile/0/000", "blobs/heaps/" + events.Hash(nil)} {
		if a := s.do("GET", "/api/ledger/"+path, ""); a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "keeps no proofs") {
			t.Errorf("%s: %s %s", path, a.Status, a.body)
		}
	}
}
