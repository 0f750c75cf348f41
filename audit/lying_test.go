package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// liar is a server that answers for a genuine ledger, and changes its answers.
type liar struct {
	local  audit.Local
	change func(answer map[string]any)
	// lines changes the lines of events; nil changes nothing.
	lines func(lines []byte) []byte
	empty bool
	// tenant is the only one whose events it shows, and empty for all.
	tenant string
	// cosigned returns the cosigned checkpoint; nil for a server without witnesses.
	cosigned func() []byte
	// state is that of the last answer with a checkpoint.
	state audit.SourceState
}

func (l *liar) get(ctx context.Context, path string, _ ...string) (*http.Response, error) {
	if l.empty {
		return nil, codeError(audit.CodeEmpty)
	}
	if path == "/api/ledger/checkpoint/cosigned" {
		if l.cosigned == nil || l.cosigned() == nil {
			return nil, codeError("not_found")
		}
		return answer(bytes.NewReader(l.cosigned())), nil
	}
	if strings.HasPrefix(path, "/api/ledger/checkpoint") {
		var err error
		if l.state, err = l.local.Signed(ctx, 0); err != nil {
			return nil, err
		}
		body := map[string]any{"note": string(l.state.Checkpoint.Note), "vkeys": l.state.VKeys, "signers": l.state.Signers}
		if l.change != nil {
			l.change(body)
		}
		raw, err := json.Marshal(body)
		return answer(bytes.NewReader(raw)), err
	}
	query, err := url.ParseQuery(path[strings.IndexByte(path, '?')+1:])
	if err != nil {
		return nil, err
	}
	from, _ := strconv.ParseUint(query.Get("from"), 10, 64)
	to, _ := strconv.ParseUint(query.Get("to"), 10, 64)
	if strings.HasPrefix(path, "/api/ledger/proof") {
		p, err := l.local.Log.Prover(l.state.Checkpoint).Consistency(from, to)
		if err != nil {
			return nil, err
		}
		hashes := []string{}
		for _, h := range p.Hashes {
			hashes = append(hashes, proof.EncodeHash(h))
		}
		raw, err := json.Marshal(map[string]any{"from_root_hash": proof.EncodeHash(p.FromRoot), "hashes": hashes})
		return answer(bytes.NewReader(raw)), err
	}
	var raw []byte
	err = l.local.Lines(ctx, l.state.Checkpoint, proof.ExportSelection{From: from, To: to, Tenant: l.tenant}, 0, func(line, proof []byte) error {
		raw = append(append(raw, line...), '\n')
		if proof != nil {
			raw = append(append(raw, proof...), '\n')
		}
		return nil
	})
	if l.lines != nil {
		raw = l.lines(raw)
	}
	return answer(bytes.NewReader(raw)), err
}

// A server that lies about what it shows, or about what was lost, never gets INTACT, and ends every
// verification.
func TestLyingServers(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	fill(t, store, 5)
	kept := translogtest.Checkpoint(t, log, 5)
	local := audit.Local{Log: log.Log, Stream: store, Blobs: store}
	set := func(name string, value any) func(map[string]any) {
		return func(answer map[string]any) { answer[name] = value }
	}
	opts := audit.VerifyOptions{Keys: []string{log.VKey()}, SkipBlobs: true, Source: "the server"}
	r, err := audit.VerifyServer(t.Context(), audit.NewRemote((&liar{local: local}).get, nil), opts)
	if err != nil || !r.OK {
		t.Fatalf("a server that tells the truth: %v\n%s", err, r)
	}
	for name, tt := range map[string]struct {
		liar liar
		opts func(o *audit.VerifyOptions)
		want audit.Verdict // empty for an error
	}{
		"claims a tenant":            {liar{change: set("tenant", "x"), lines: func([]byte) []byte { return nil }}, nil, ""},
		"claims another tenant":      {liar{change: set("tenant", "x")}, func(o *audit.VerifyOptions) { o.Tenant = "y" }, ""},
		"shows nothing":              {liar{lines: func([]byte) []byte { return nil }}, nil, audit.NotIntact},
		"says that it is empty":      {liar{empty: true}, func(o *audit.VerifyOptions) { o.MaxAge = time.Hour }, audit.IntactUpTo},
		"is empty, and was not":      {liar{empty: true}, func(o *audit.VerifyOptions) { o.Known = []proof.Checkpoint{kept} }, audit.RolledBack},
		"claims that all is lost":    {liar{change: set("lost", events.Lost{{From: 0, To: 1<<64 - 1}})}, nil, audit.NotIntact},
		"claims a large loss":        {liar{change: set("lost", events.Lost{{From: 2, To: 1 << 60, NamedAt: 3}})}, nil, audit.NotIntact},
		"claims a loss afterwards":   {liar{change: set("lost", events.Lost{{From: 2, To: 1 << 60, NamedAt: 1<<60 + 1}})}, nil, audit.Intact},
		"claims that all is removed": {liar{change: set("removed", kept.Size+10)}, nil, audit.NotIntact},
		"has an event far away": {liar{lines: func(raw []byte) []byte {
			last := bytes.LastIndexByte(bytes.TrimSpace(raw), '\n') + 1
			changed := regexp.MustCompile(`"(seq|sequence|position)":"?[0-9]+`).ReplaceAll(raw[last:], []byte(`"$1":1152921504606846976`))
			if bytes.Equal(changed, raw[last:]) {
				t.Errorf("no position in %s", raw[last:])
			}
			return append(bytes.Clone(raw[:last]), changed...)
		}}, nil, audit.NotIntact},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.liar.local = local
			o := opts
			if tt.opts != nil {
				tt.opts(&o)
			}
			r, err := audit.VerifyServer(t.Context(), audit.NewRemote(tt.liar.get, nil), o)
			if tt.want == "" {
				if _, ok := errors.AsType[*audit.TenantError](err); !ok {
					t.Errorf("%v\n%s", err, r)
				}
				return
			}
			if err != nil || r.Verdict != tt.want {
				t.Errorf("%v, want %s\n%s", err, tt.want, r)
			}
		})
	}
}

// An export of a part is named as one, and a part is never complete.
func TestPartsSaySo(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	fill(t, store, 8)
	translogtest.Checkpoint(t, log, 8)
	out := filepath.Join(t.TempDir(), "part")
	local := audit.Local{Log: log.Log, Stream: store, Blobs: store}
	if _, err := audit.Export(t.Context(), local, audit.ExportOptions{Dir: out, Selection: proof.ExportSelection{To: 5}}); err != nil {
		t.Fatal(err)
	}
	r, err := audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{log.VKey()}})
	if err != nil || r.Verdict != audit.Intact || r.Complete || !strings.HasPrefix(r.String(), "INTACT PART  ") || !strings.Contains(r.String(), "positions 1 to 5 of") {
		t.Errorf("%v\n%s", err, r)
	}
	r, err = audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{log.VKey()}, MaxAge: time.Nanosecond})
	if err != nil || r.Verdict != audit.IntactUpTo {
		t.Errorf("with a maximum age: %v\n%s", err, r)
	}
}

// A memory is of one ledger, and several verifications can keep in it at the same time.
func TestMemoryOfManyVerifications(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	store, dir := signedWith(t, key, newRequests(3))
	vkeys, err := translog.Dir(dir).VKeys()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "seen")
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			m, err := audit.OpenMemory(path, vkeys)
			for range 20 {
				if err == nil {
					r, verr := audit.Verify(context.WithoutCancel(t.Context()), store, store, audit.VerifyOptions{Dir: translog.Dir(dir), Keys: m.Keys(), Known: m.Checkpoints(), Signers: m.Signers()})
					if err = verr; err == nil {
						err = m.Keep(r)
					}
				}
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	m, err := audit.OpenMemory(path, nil)
	if err != nil || len(m.Checkpoints()) != 1 {
		t.Fatalf("%v, %v", m, err)
	}
	other, otherDir := signedWith(t, filepath.Join(t.TempDir(), "key"), newRequests(4))
	otherKeys, err := translog.Dir(otherDir).VKeys()
	if err != nil {
		t.Fatal(err)
	}
	_, err = audit.Verify(t.Context(), other, other, audit.VerifyOptions{Dir: translog.Dir(otherDir), Keys: append(m.Keys(), otherKeys...), Known: m.Checkpoints()})
	if _, ok := errors.AsType[*audit.KnownError](err); !ok || !strings.Contains(err.Error(), "is of the ledger") {
		t.Errorf("another ledger: %v", err)
	}
}

// A monitor finds a server that continues another history than the one that it kept, that changes an
// event in its sample, or that hides its events.
func TestWatch(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	first := newRequests(3)
	store, dir := signedWith(t, key, append(first[:3:3], newRequests(3)...))
	log := start(t, store, translog.Options{Dir: dir, KeyFile: key})
	kept := newest(t, dir)
	forked, forkedDir := signedWith(t, key, append(first[:3:3], newRequests(9)...))
	forkedLog := start(t, forked, translog.Options{Dir: forkedDir, KeyFile: key, SignedFile: filepath.Join(t.TempDir(), "signed")})
	genuine := audit.Local{Log: log.Log, Stream: store, Blobs: store}
	other := audit.Local{Log: forkedLog.Log, Stream: forked, Blobs: forked}
	fill(t, store, 3)
	translogtest.Checkpoint(t, log, kept.Size+3)
	edit := func(raw []byte) []byte { return bytes.Replace(raw, []byte("1 + 1"), []byte("1 + 2"), 1) }
	for name, tt := range map[string]struct {
		liar  liar
		known []proof.Checkpoint
		age   time.Duration
		want  audit.Verdict
	}{
		"the truth":         {liar{local: genuine}, []proof.Checkpoint{kept}, time.Hour, audit.Intact},
		"the first round":   {liar{local: genuine}, nil, 0, audit.Intact},
		"another history":   {liar{local: other}, []proof.Checkpoint{kept}, 0, audit.Forked},
		"a changed event":   {liar{local: genuine, lines: edit}, []proof.Checkpoint{kept}, 0, audit.NotIntact},
		"no events":         {liar{local: genuine, lines: func([]byte) []byte { return nil }}, []proof.Checkpoint{kept}, 0, audit.NotIntact},
		"an old checkpoint": {liar{local: genuine}, nil, time.Nanosecond, audit.IntactUpTo},
		"an emptied ledger": {liar{empty: true}, []proof.Checkpoint{kept}, 0, audit.RolledBack},
	} {
		o := audit.WatchOptions{VerifyOptions: audit.VerifyOptions{Keys: []string{log.VKey()}, Known: tt.known, MaxAge: tt.age, Source: "the server"}, Samples: 20}
		r, err := audit.Watch(t.Context(), audit.NewRemote(tt.liar.get, nil), o)
		if err != nil || r.Verdict != tt.want {
			t.Errorf("%s: %v, want %s\n%s", name, err, tt.want, r)
		}
	}
	if _, err := audit.Watch(t.Context(), audit.NewRemote((&liar{local: genuine}).get, nil), audit.WatchOptions{}); err == nil {
		t.Error("watched without a key")
	}
}
