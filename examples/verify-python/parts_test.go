package verifypython_test

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"daybook/audit"
	"daybook/internal/dev/verdicts"
	"daybook/proof"
)

// A part of a ledger reports it. Kept checkpoints are compared also with an export that another key
// signed, and only with exports of their own ledger.
func TestParts(t *testing.T) {
	verdicts.PathOfPython(t)
	all, session, vkey, signer := exports(t)
	removed, _, removedKey := exportAfterRemoval(t)
	signed, err := os.ReadFile(filepath.Join(all, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := audit.ParseKnown(signed)
	if err != nil {
		t.Fatal(err)
	}
	origin, _, _ := strings.Cut(vkey, "+")
	named := func(name string) (string, note.Signer) {
		skey, vkey, err := note.GenerateKey(rand.Reader, name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := note.NewSigner(skey)
		if err != nil {
			t.Fatal(err)
		}
		return vkey, s
	}
	sameName, sameNameSigner := named(origin)
	otherName, otherNameSigner := named("daybook/other")
	otherLedger := resign(t, signer, same, 0)
	otherLedger.Origin = "daybook/other"
	if otherLedger, err = otherLedger.Sign(otherNameSigner); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, dir string
		keys      []string
		known     *proof.Checkpoint
		want      string // the beginning of the line; empty for a usage error
		complete  bool
	}{
		{"everything", all, []string{vkey}, nil, "INTACT ", true},
		{"a session", session, []string{vkey}, nil, "INTACT PART ", false},
		{"after a removal", removed, []string{removedKey}, nil, "INTACT ", true},
		{"another key, and a checkpoint of it with another tree", all, []string{sameName}, ptr(resign(t, sameNameSigner, same, 0)), "NOT INTACT ", true},
		{"another key, and a checkpoint of it with more events", all, []string{sameName}, ptr(resign(t, sameNameSigner, same, 3)), "ROLLED BACK ", true},
		{"a checkpoint of another ledger", all, []string{vkey, otherName}, &otherLedger, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var args []string
			for _, key := range tt.keys {
				args = append(args, "--key", key)
			}
			opts := audit.VerifyOptions{Keys: tt.keys}
			if tt.known != nil {
				opts.Known = []proof.Checkpoint{*tt.known}
				path := filepath.Join(t.TempDir(), "kept")
				if err := os.WriteFile(path, tt.known.Note, 0o644); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--checkpoint", path)
			}
			report, err := audit.VerifyExport(t.Context(), tt.dir, opts)
			line, status := runOnce(t, append(args, tt.dir)...)
			if tt.want == "" {
				if err == nil || status != 2 {
					t.Errorf("verify.py: %d %s; package audit: %v\n%s", status, line, err, report)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(line, tt.want) || !strings.HasPrefix(report.String(), tt.want) {
				t.Errorf("verify.py: %s\npackage audit: %s", line, report)
			}
			if strings.HasPrefix(tt.want, "INTACT") && report.Complete != tt.complete {
				t.Errorf("complete is %t, want %t", report.Complete, tt.complete)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// runOnce runs verify.py, and returns its output and exit status.
func runOnce(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), verdicts.PathOfPython(t), append([]string{"-B", "verify.py"}, args...)...)
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
