package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/store/stream"
	"daybook/proof"
)

// endless is a ledger at rest and a server whose signer names a loss of very many positions without hashes.
type endless struct {
	messages []events.Stored
	lost     events.Lost
	c        proof.Checkpoint
	vkey     string
	shown    events.Lost // what the server reports
}

func newEndless(t *testing.T, last uint64, change func(d *events.LedgerVolumeOpened)) *endless {
	t.Helper()
	h := newHandmade(t)
	signer, vkey := h.start()
	h.request(events.DefaultTenant, 2)
	lost := events.Lost{{From: 4, To: last - 1, NamedAt: last}}
	d := &events.LedgerVolumeOpened{
		Volume: 2, First: last, Predecessor: events.Predecessor{Volume: 1}, Reason: events.VolumeDamaged,
		Hole: &events.Hole{From: 4, To: last - 1}, Lost: lost,
	}
	e := &endless{messages: h.messages, lost: lost, vkey: vkey, shown: lost}
	if change != nil {
		change(d)
		e.lost, e.shown = nil, nil
	}
	raw, err := events.Encode(events.New(events.LedgerTenant, time.Now(), d))
	h.must(err)
	e.messages = append(e.messages, events.Stored{Seq: last, Subject: stream.StoredSubject(2, raw.Subject), Header: raw.Header, Body: raw.Body})
	e.c = e.sign(t, signer, last)
	return e
}

func (e *endless) sign(t *testing.T, signer note.Signer, size uint64) proof.Checkpoint {
	t.Helper()
	c, err := proof.Checkpoint{Origin: signer.Name(), Size: size, Root: proof.Hash{1}}.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (e *endless) Lost() events.Lost                       { return e.lost }
func (e *endless) LastSeq(context.Context) (uint64, error) { return e.c.Size, nil }
func (e *endless) FollowRaw(_ context.Context, _ uint64, fn func([]events.Stored, uint64) error) error {
	return fn(e.messages, e.c.Size)
}
func (e *endless) EachMatching(context.Context, string, func(events.Event) error) error { return nil }

func (e *endless) get(_ context.Context, path string, _ ...string) (*http.Response, error) {
	if strings.HasPrefix(path, "/api/ledger/checkpoint") {
		raw, err := json.Marshal(map[string]any{"note": string(e.c.Note), "vkeys": []string{e.vkey}, "lost": e.shown})
		return answer(bytes.NewReader(raw)), err
	}
	if !strings.HasPrefix(path, "/api/ledger/export") {
		return nil, codeError("not_found")
	}
	var all []byte
	whole := strings.Contains(path, "from=1&") && strings.Contains(path, fmt.Sprintf("to=%d", e.c.Size))
	for _, m := range e.messages {
		line, err := proof.AppendLine(nil, eventproof.RecordOf(m))
		if err != nil {
			return nil, err
		}
		if whole {
			all = append(append(all, line...), '\n')
		} else if m.Seq == e.c.Size {
			all = append(proof.AppendProof(append(append(all, line...), '\n'), m.Seq, make([]proof.Hash, 61)), '\n')
		}
	}
	return answer(bytes.NewReader(all)), nil
}

// A signer can name any number of lost positions. A verification ends all the same, also that of a monitor.
func TestEndlessLosses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, last := range []uint64{1 << 40, 1<<62 - 1} {
		for name, change := range map[string]func(d *events.LedgerVolumeOpened){
			"named":             nil,
			"of an early build": func(d *events.LedgerVolumeOpened) { d.Lost = nil },
		} {
			e := newEndless(t, last, change)
			opts := audit.VerifyOptions{Keys: []string{e.vkey}, SkipBlobs: true}
			for of, verify := range map[string]func() (*audit.Report, error){
				"at rest":  func() (*audit.Report, error) { return audit.Verify(ctx, e, nil, opts) },
				"a server": func() (*audit.Report, error) { return audit.VerifyServer(ctx, audit.NewRemote(e.get, nil), opts) },
				"a sample": func() (*audit.Report, error) {
					return audit.Watch(ctx, audit.NewRemote(e.get, nil), audit.WatchOptions{VerifyOptions: opts, Samples: 10})
				},
			} {
				if r, err := verify(); err != nil || r.Verdict != audit.NotIntact {
					t.Errorf("%s of %d: %s: %v\n%s", name, last, of, err, r)
				}
			}
		}
	}
	e := newEndless(t, 1<<62, nil)
	opts := audit.VerifyOptions{Keys: []string{e.vkey}, SkipBlobs: true}
	if _, err := audit.Watch(ctx, audit.NewRemote(e.get, nil), audit.WatchOptions{VerifyOptions: opts}); err == nil {
		t.Error("a checkpoint of 2^62 events is accepted")
	}
}
