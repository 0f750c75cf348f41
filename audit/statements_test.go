package audit_test

import (
	"strings"
	"testing"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// appendStatement appends the event of a statement without a server.
func appendStatement(t *testing.T, store *jetstream.Store, d *events.LedgerSignersChanged) {
	t.Helper()
	if _, err := store.Append(t.Context(), events.New(events.LedgerTenant, time.Now(), d), -1); err != nil {
		t.Fatal(err)
	}
}

// eventOf returns the event of a signed statement.
func eventOf(st proof.Statement) *events.LedgerSignersChanged {
	d := &events.LedgerSignersChanged{LedgerID: "x", Origin: st.Origin, Number: st.Number, Action: string(st.Action), Key: st.Key, Note: string(st.Note)}
	if st.Predecessor != "" {
		d.Ended = &events.EndedOrigin{Origin: st.Predecessor, Size: st.Size, RootHash: proof.EncodeHash(st.Root), Reason: "a test"}
	}
	return d
}

// A successor that confirms other events than there are is found, and so is an event that differs from its
// statement.
func TestVerifyStartsOfSuccessors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		statement func(st *proof.Statement)            // changes it before it is signed
		event     func(d *events.LedgerSignersChanged) // changes it afterwards
		want      string                               // a part of the finding; empty for none
	}{
		"a successor":              {},
		"another tree hash":        {statement: func(st *proof.Statement) { st.Root[0] ^= 1 }, want: "which is not that of these events"},
		"fewer events":             {statement: func(st *proof.Statement) { st.Size-- }, want: "which is not that of these events"},
		"another origin":           {event: func(d *events.LedgerSignersChanged) { d.Origin += "/3" }, want: "differs from the statement"},
		"another index":            {event: func(d *events.LedgerSignersChanged) { d.Number++ }, want: "differs from the statement"},
		"another action":           {event: func(d *events.LedgerSignersChanged) { d.Action = "introduce" }, want: "differs from the statement"},
		"another key":              {event: func(d *events.LedgerSignersChanged) { d.Key = "x" }, want: "differs from the statement"},
		"another origin that ends": {event: func(d *events.LedgerSignersChanged) { d.Ended.Origin = "x" }, want: "differs from the statement"},
		"no origin that ends":      {event: func(d *events.LedgerSignersChanged) { d.Ended = nil }, want: "differs from the statement"},
		"no note":                  {event: func(d *events.LedgerSignersChanged) { d.Note = "x" }, want: "not a signed note"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, dir := newStore(t), t.TempDir()
			log := start(t, store, translog.Options{Dir: dir})
			fill(t, store, 3)
			finish(t, log, store)
			origin := log.Origin() + "/2"
			signer, vkey := translogtest.NewSigner(t, origin)
			st := log.Signers().Next(proof.StartOrigin, vkey, 3)
			st.Origin, st.Predecessor, st.Root = origin, log.Origin(), rootOf(t, store, 3)
			if tt.statement != nil {
				tt.statement(&st)
			}
			st, err := st.Sign(signer)
			if err != nil {
				t.Fatal(err)
			}
			d := eventOf(st)
			if tt.event != nil {
				tt.event(d)
			}
			appendStatement(t, store, d)
			r, found := verdict(t, store, audit.VerifyOptions{Dir: translog.Dir(dir), Keys: []string{log.VKey(), vkey}})
			if tt.want == "" && (r.Verdict != audit.IntactUpTo || len(r.Origins) != 1 || !r.Origins[0].Trusted) {
				t.Errorf("found %q\n%s", found, r)
			}
			if tt.want != "" && (r.Verdict != audit.NotIntact || len(found) != 1 || !strings.Contains(found[0], tt.want)) {
				t.Errorf("found %q, want %q\n%s", found, tt.want, r)
			}
		})
	}
}

// rootOf returns the tree hash over the first events of a ledger.
func rootOf(t *testing.T, store *jetstream.Store, n int) proof.Hash {
	t.Helper()
	stored, err := store.ReadRaw(t.Context(), 0, n)
	if err != nil {
		t.Fatal(err)
	}
	tree := proof.NewTree(nil)
	for _, m := range stored {
		leaf, err := proof.LeafHash(eventproof.RecordOf(m))
		if err == nil {
			err = tree.Add(leaf)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return tree.Root()
}

// A second start of the first origin, as by another server at the same time, changes nothing: the server
// signs, and the ledger is intact.
func TestVerifyASecondStart(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	fill(t, store, 3)
	finish(t, log, store)
	signer, vkey := translogtest.NewSigner(t, "daybook/other")
	st := (&proof.Signers{}).Next(proof.StartOrigin, vkey, 0)
	st.Origin = "daybook/other"
	st, err := st.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	appendStatement(t, store, eventOf(st))
	log = start(t, store, translog.Options{Dir: dir})
	fill(t, store, 1)
	out := exported(t, log, store)
	finish(t, log, store)
	if r, found := verdict(t, store, audit.VerifyOptions{Dir: translog.Dir(dir), Keys: []string{log.VKey()}}); r.Verdict != audit.Intact || len(r.Origins) > 0 {
		t.Errorf("found %q\n%s", found, r)
	}
	if r, err := audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{log.VKey()}}); err != nil || r.Verdict != audit.Intact {
		t.Errorf("its export: %v\n%s", err, r)
	}
}
