package verifypython_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/dev/verdicts"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// statuses has the exit status of each verdict, as "daybook verify" has it.
var statuses = map[string]int{
	"INTACT": 0, "NOT INTACT": 1, "usage": 2, "WRONG KEY": 6, "UNAUTHENTICATED": 7, "INTACT UP TO": 8, "FORKED": 9, "ROLLED BACK": 10,
}

// changedLedger is a ledger whose signers changed, with exports of it.
type changedLedger struct {
	first, second, root string // verification keys
	origin              string // the first one
	early, late         proof.Checkpoint
	before, all, part   string
}

// exportTo exports what the newest checkpoint covers.
func exportTo(t *testing.T, log *translogtest.Running, store *jetstream.Store, s proof.ExportSelection) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "export")
	if _, err := audit.Export(t.Context(), audit.Local{Log: log.Log, Stream: store, Blobs: store}, audit.ExportOptions{Dir: dir, Selection: s}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// rotated makes a ledger whose key was replaced by a signed statement.
func rotated(t *testing.T) (l changedLedger) {
	t.Helper()
	store := storetest.Start(t)
	log := translogtest.Start(t, store, translog.Options{Dir: t.TempDir()})
	l.first, l.origin = log.VKey(), log.Origin()
	l.early = translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 3))
	l.before = exportTo(t, log, store, proof.ExportSelection{})
	var err error
	if l.second, err = log.RotateKey(t.Context(), store, events.Actor{Principal: "alice"}); err != nil {
		t.Fatal(err)
	}
	l.late = translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 2))
	l.all = exportTo(t, log, store, proof.ExportSelection{})
	l.part = exportTo(t, log, store, proof.ExportSelection{From: 2})
	return l
}

// ended makes a ledger whose signing key was lost, so that its origin ended.
func ended(t *testing.T) (l changedLedger) {
	t.Helper()
	store, dir, key := storetest.Start(t), t.TempDir(), filepath.Join(t.TempDir(), "key")
	log := translogtest.Start(t, store, translog.Options{Dir: dir, KeyFile: key})
	l.early = translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 3))
	l.first, l.origin = log.VKey(), log.Origin()
	if err := log.FinalCheckpoint(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	l.before = exportTo(t, log, store, proof.ExportSelection{})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(key), os.Remove(key+".signed"), translog.AcceptDamage(dir, key, "")); err != nil {
		t.Fatal(err)
	}
	log = translogtest.Start(t, store, translog.Options{Dir: dir, KeyFile: key})
	for log.Signers().Origin() == l.origin {
		select {
		case err := <-log.Ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
			translogtest.Fill(t, store, 1)
		}
	}
	l.second = log.VKey()
	if _, err := log.RotateKey(t.Context(), store, events.Actor{}); err != nil { // it changes nothing about the end
		t.Fatal(err)
	}
	l.late = translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 1))
	l.all = exportTo(t, log, store, proof.ExportSelection{})
	l.part = exportTo(t, log, store, proof.ExportSelection{From: 2})
	return l
}

// replacedByRoot makes a ledger whose signing key was lost and replaced by a root key.
func replacedByRoot(t *testing.T) (l changedLedger) {
	t.Helper()
	store, dir := storetest.Start(t), t.TempDir()
	log := translogtest.Start(t, store, translog.Options{Dir: dir})
	l.early = translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 3))
	l.first, l.origin = log.VKey(), log.Origin()
	var rootSigner note.Signer
	rootSigner, l.root = translogtest.NewSigner(t, proof.RootKeyPrefix+"1")
	if _, err := log.ChangeSigners(t.Context(), store, proof.AddRoot, l.root, events.Actor{}); err != nil {
		t.Fatal(err)
	}
	l.before = exportTo(t, log, store, proof.ExportSelection{})
	if err := errors.Join(log.FinalCheckpoint(t.Context(), store), log.Close(), os.Remove(filepath.Join(dir, "key"))); err != nil {
		t.Fatal(err)
	}
	log = translogtest.Start(t, store, translog.Options{Dir: dir})
	if err := <-log.Ended; !errors.Is(err, events.ErrDamaged) {
		t.Fatal(err)
	}
	skey, vkey, err := proof.NewKey(l.origin)
	if err != nil {
		t.Fatal(err)
	}
	l.second = vkey
	for _, st := range []struct {
		action proof.Action
		key    string
	}{{proof.IntroduceSigner, vkey}, {proof.RetireSigner, l.first}} {
		signed, err := log.Signers().Next(st.action, st.key, l.early.Size).Sign(rootSigner)
		if err == nil {
			_, err = log.AddStatement(t.Context(), store, signed.Note, events.Actor{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = log.Close()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(skey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log = translogtest.Start(t, store, translog.Options{Dir: dir})
	l.late = translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 1))
	l.all = exportTo(t, log, store, proof.ExportSelection{})
	l.part = exportTo(t, log, store, proof.ExportSelection{From: 2})
	return l
}

// report is what verify.py --json prints.
type report struct {
	Verdict  string
	Message  string
	Complete bool
	Origins  []audit.OriginChange
	Quorum   *audit.Quorum
	Cosigned *audit.Cosigned
}

// runPython runs verify.py on one export, with more arguments besides those of opts, and returns its exit
// status and its report.
func runPython(t *testing.T, dir string, opts audit.VerifyOptions, more ...string) (int, report) {
	t.Helper()
	args := append([]string{"verify.py", "--json"}, more...)
	if opts.MinSigners > 0 {
		args = append(args, "--signers", strconv.Itoa(opts.MinSigners))
	}
	if opts.MaxAge > 0 {
		args = append(args, "--max-age", fmt.Sprintf("%.9fs", opts.MaxAge.Seconds()))
	}
	for _, key := range opts.Keys {
		args = append(args, "--key", key)
	}
	for _, c := range opts.Known {
		path := filepath.Join(t.TempDir(), "kept")
		if err := os.WriteFile(path, c.Note, 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--checkpoint", path)
	}
	cmd := exec.CommandContext(t.Context(), verdicts.PathOfPython(t), append(args, dir)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	var r report
	if len(out) > 0 {
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, &stderr)
		}
	} else {
		r.Message = stderr.String()
	}
	return cmd.ProcessState.ExitCode(), r
}

// agree compares the verdicts of both verifiers with the one that is wanted, and their exit statuses.
func agree(t *testing.T, name, dir, want string, opts audit.VerifyOptions) (report, *audit.Report) {
	t.Helper()
	got, other, complete := "", "usage", false
	status, python := runPython(t, dir, opts)
	r, err := audit.VerifyExport(t.Context(), dir, opts)
	_, unknown := errors.AsType[*audit.KnownError](err)
	_, few := errors.AsType[*audit.SignersError](err)
	if unknown || few {
		got = "usage"
	} else if err != nil {
		t.Fatal(err)
	} else {
		got, complete = verdicts.Words(r.Verdict), r.Complete
	}
	if python.Verdict != "" {
		other = strings.ToUpper(strings.ReplaceAll(python.Verdict, "_", " "))
	}
	if got != want || other != want || status != statuses[want] || want != "NOT INTACT" && want != "usage" && complete != python.Complete {
		t.Errorf("%s: package audit says %s (complete: %t), verify.py %s (complete: %t, status %d), want %s\n%v\n%s", name, got, complete, other, python.Complete, status, want, r, python.Message)
	}
	return python, r
}

// Both verifiers follow the statements about the signers.
func TestExportsWithSigners(t *testing.T) {
	verdicts.PathOfPython(t)
	forger := verdicts.NewForger(t, "daybook/other")
	foreign, err := proof.Checkpoint{Origin: "daybook/other", Size: 2}.Sign(forger.Signer)
	if err != nil {
		t.Fatal(err)
	}
	type test struct {
		name  string
		keys  []string
		known []proof.Checkpoint
		// before, all and part are the verdicts on the exports.
		before, all, part string
	}
	check := func(l changedLedger, tests []test) {
		t.Helper()
		for _, tt := range tests {
			opts := audit.VerifyOptions{Keys: tt.keys, Known: tt.known}
			for dir, want := range map[string]string{l.before: tt.before, l.all: tt.all, l.part: tt.part} {
				agree(t, tt.name+": "+filepath.Base(filepath.Dir(dir)), dir, want, opts)
			}
		}
	}
	l := rotated(t)
	check(l, []test{
		{"a rotation with no key", nil, nil, "UNAUTHENTICATED", "UNAUTHENTICATED", "UNAUTHENTICATED"},
		{"a rotation with the first key", []string{l.first}, nil, "INTACT", "INTACT", "INTACT"},
		{"a rotation with the second key", []string{l.second}, nil, "WRONG KEY", "INTACT", "INTACT"},
		{"a rotation with another key", []string{forger.VKey}, nil, "WRONG KEY", "WRONG KEY", "WRONG KEY"},
		{"a rotation with a kept checkpoint", []string{l.first}, []proof.Checkpoint{l.early}, "INTACT", "INTACT", "usage"},
		{"a rotation with a kept checkpoint of the second key", []string{l.first, l.second}, []proof.Checkpoint{l.late}, "ROLLED BACK", "INTACT", "usage"},
		{"a rotation with a checkpoint of another ledger", []string{l.first, forger.VKey}, []proof.Checkpoint{foreign}, "usage", "usage", "usage"},
	})
	l = replacedByRoot(t)
	check(l, []test{
		{"a root key with no key", nil, nil, "UNAUTHENTICATED", "UNAUTHENTICATED", "UNAUTHENTICATED"},
		{"a root key with the first key", []string{l.first}, nil, "INTACT", "INTACT", "INTACT"},
		{"a root key with the root key", []string{l.root}, nil, "WRONG KEY", "INTACT", "INTACT"},
		{"a root key with the second key", []string{l.second}, nil, "WRONG KEY", "INTACT", "INTACT"},
		{"a root key with another key", []string{forger.VKey}, nil, "WRONG KEY", "WRONG KEY", "WRONG KEY"},
	})
	l = ended(t)
	check(l, []test{
		{"an end with no key", nil, nil, "UNAUTHENTICATED", "UNAUTHENTICATED", "UNAUTHENTICATED"},
		{"an end with the first key", []string{l.first}, nil, "INTACT", "WRONG KEY", "WRONG KEY"},
		{"an end with the second key", []string{l.second}, nil, "WRONG KEY", "INTACT", "INTACT"},
		{"an end with both keys", []string{l.first, l.second}, nil, "INTACT", "INTACT", "INTACT"},
		{"an end with a kept checkpoint", []string{l.first, l.second}, []proof.Checkpoint{l.early}, "INTACT", "INTACT", "usage"},
		{"an end with a kept checkpoint and the first key", []string{l.first}, []proof.Checkpoint{l.early}, "INTACT", "WRONG KEY", "usage"},
	})
	python, r := agree(t, "an end", l.all, "INTACT", audit.VerifyOptions{Keys: []string{l.first, l.second}})
	if len(r.Origins) != 1 || len(python.Origins) != 1 || python.Origins[0] != r.Origins[0] || r.Origins[0].Reason == "" {
		t.Errorf("package audit reports the ends %+v, verify.py %+v", r.Origins, python.Origins)
	}
	if _, r := runPython(t, l.all, audit.VerifyOptions{Keys: []string{l.first}}); len(r.Origins) != 1 || r.Origins[0].Trusted {
		t.Errorf("with the first key, verify.py reports the ends %+v", r.Origins)
	}
}

// Both verifiers compare a kept checkpoint of every size in the same way, also within lost events, and if
// the export is signed with another key.
func TestKeptCheckpointsOfAllSizes(t *testing.T) {
	verdicts.PathOfPython(t)
	all, session, vkey, signer := exports(t)
	signed, err := os.ReadFile(filepath.Join(all, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	newest, err := audit.ParseKnown(signed)
	if err != nil {
		t.Fatal(err)
	}
	forger := verdicts.NewForger(t, signer.Name())
	for size := uint64(1); size <= newest.Size+1; size++ {
		kept, err := proof.Checkpoint{Origin: newest.Origin, Size: size, Root: newest.Root}.Sign(signer)
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := kept.Sign(forger.Signer)
		if err != nil {
			t.Fatal(err)
		}
		for _, opts := range []audit.VerifyOptions{
			{Keys: []string{vkey}, Known: []proof.Checkpoint{kept}},
			{Keys: []string{forger.VKey}, Known: []proof.Checkpoint{foreign}},
		} {
			for _, dir := range []string{all, session} {
				if size%4 != 0 && (dir == session || opts.Keys[0] != vkey) && size < newest.Size {
					continue
				}
				want := "usage"
				if r, err := audit.VerifyExport(t.Context(), dir, opts); err == nil {
					want = verdicts.Words(r.Verdict)
				}
				agree(t, "a kept checkpoint", dir, want, opts)
			}
		}
	}
}
