package verifypython_test

import (
	"bytes"
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"daybook/events"
	"daybook/internal/dev/verdicts"
	"daybook/internal/store/stream"
	"daybook/proof"
)

// rootOf returns the root to which a proof of zeros leads, and the number of its hashes.
func rootOf(leaf proof.Hash, index, size uint64) (root proof.Hash, n int) {
	if size == 1 {
		return leaf, 0
	}
	half := uint64(1) << (bits.Len64(size-1) - 1)
	if index < half {
		root, n = rootOf(leaf, index, half)
		return tlog.NodeHash(root, proof.Hash{}), n + 1
	}
	root, n = rootOf(leaf, index-half, size-half)
	return tlog.NodeHash(proof.Hash{}, root), n + 1
}

// claim makes the export one under a signed checkpoint of very many events.
func (l *signedLedger) claim(t *testing.T, root proof.Hash, size, to uint64) {
	t.Helper()
	c, err := proof.Checkpoint{Origin: l.signer.Name(), Size: size, Root: root}.Sign(l.signer)
	if err != nil {
		t.Fatal(err)
	}
	l.setCheckpoint(t, c)
	l.replace(t, `"size":[0-9]+`, fmt.Sprintf(`"size":%d`, size))
	l.replace(t, `"to":[0-9]+`, fmt.Sprintf(`"to":%d`, to))
}

// A signer can name any number of lost positions, of which nothing is in the export. Both verifiers refuse to compute
// very many hashes for a small export, and sizes that no ledger has.
func TestEndlessLosses(t *testing.T) {
	verdicts.PathOfPython(t)
	l := newSignedLedger(t)
	python := verdicts.StartPython(t, "--key", l.opts.Keys[0])
	expect := func(what, want string) {
		t.Helper()
		dir := l.write(t)
		got, line, err := python.Verdict(dir)
		if other := verdict(t, dir, l.opts); err != nil || got != want || other != want {
			t.Errorf("%s: package audit says %s, verify.py %s (%s, %v), want %s", what, other, got, line, err, want)
		}
	}
	lines, before := bytes.Clone(l.files["events.ndjson"]), uint64(len(l.list))
	opening := func(last uint64, change func(d *events.LedgerVolumeOpened)) {
		t.Helper()
		d := &events.LedgerVolumeOpened{
			Volume: 2, First: last, Predecessor: events.Predecessor{Volume: 1}, Reason: events.VolumeDamaged,
			Hole: &events.Hole{From: before + 1, To: last - 1}, Lost: events.Lost{{From: before + 1, To: last - 1, NamedAt: last}},
		}
		change(d)
		raw, err := events.Encode(events.New(events.LedgerTenant, time.Now(), d))
		if err != nil {
			t.Fatal(err)
		}
		line, err := proof.AppendLine(nil, proof.Record{Seq: last, Subject: stream.StoredSubject(2, raw.Subject), Header: raw.Header, Body: raw.Body})
		if err != nil {
			t.Fatal(err)
		}
		l.files["events.ndjson"] = slices.Concat(lines, line, []byte("\n"))
		l.refit("events.ndjson")
		l.claim(t, proof.Hash{1}, last, last)
	}
	for _, last := range []uint64{1 << 40, 1<<62 - 1, 1 << 62} {
		for name, change := range map[string]func(d *events.LedgerVolumeOpened){
			"named":             func(*events.LedgerVolumeOpened) {},
			"of an early build": func(d *events.LedgerVolumeOpened) { d.Lost = nil },
			"with few hashes":   func(d *events.LedgerVolumeOpened) { d.Lost[0].Hashes = []string{proof.EncodeHash(proof.Hash{})} },
			"in two ranges": func(d *events.LedgerVolumeOpened) {
				d.Lost = events.Lost{{From: before + 1, To: last / 2, NamedAt: last}, {From: last/2 + 1, To: last - 1, NamedAt: last}}
			},
			"without the position of an event": func(d *events.LedgerVolumeOpened) { d.Lost[0].NamedAt = 0 },
		} {
			opening(last, change)
			expect(fmt.Sprintf("%s, up to %d", name, last), "NOT INTACT")
		}
	}

	// A part, whose proof is short all the same.
	l.files["events.ndjson"] = lines[:bytes.IndexByte(lines, '\n')+1]
	l.refit("events.ndjson")
	leaf, err := proof.LeafHash(l.list[0])
	if err != nil {
		t.Fatal(err)
	}
	l.replace(t, `(\{"name":"events.ndjson"[^}]*\})`, `{"name":"events.ndjson","bytes":0,"sha256":"0"},{"name":"proofs.ndjson","bytes":0,"sha256":"0"}`)
	for size, want := range map[uint64]string{1 << 40: "INTACT", 1<<62 - 1: "INTACT", 1 << 62: "NOT INTACT", 1<<63 - 1: "NOT INTACT"} {
		root, n := rootOf(leaf, 0, size)
		l.files["proofs.ndjson"] = append(proof.AppendProof(nil, 1, make([]proof.Hash, n)), '\n')
		l.refit("events.ndjson")
		l.refit("proofs.ndjson")
		l.claim(t, root, size, 1)
		expect(fmt.Sprintf("a part of %d events", size), want)
	}
	if !regexp.MustCompile(`"to":1,`).Match(l.files["manifest.json"]) {
		t.Error("the last export is no part")
	}
}
