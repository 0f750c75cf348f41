package verifypython_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/audit"
	"daybook/internal/dev/verdicts"
	"daybook/proof"
)

// newWitnesses returns witnesses by their names, and their lines of a policy.
func newWitnesses(t *testing.T, names ...string) (witnesses map[string]*proof.WitnessSigner, lines string) {
	t.Helper()
	witnesses = map[string]*proof.WitnessSigner{}
	for i, name := range names {
		w, err := proof.NewWitnessSigner("witness.example/"+name, bytes.Repeat([]byte{byte(i)}, 32))
		if err != nil {
			t.Fatal(err)
		}
		witnesses[name] = w
		lines += fmt.Sprintf("witness %s %s\n", name, w.Key())
	}
	return witnesses, lines
}

func cosign(t *testing.T, n *proof.Note, w *proof.WitnessSigner, at time.Time) {
	t.Helper()
	s, err := w.Cosign(n.Text, at)
	if err != nil {
		t.Fatal(err)
	}
	n.Signatures = append(n.Signatures, s)
}

// withCheckpoint copies an export with an edited checkpoint, and a manifest that fits it.
func withCheckpoint(t *testing.T, dir string, edit func(*proof.Note)) string {
	t.Helper()
	original := readOriginal(t, "an export", dir)
	e := &editor{files: maps.Clone(original.files)}
	n, err := proof.ParseNote(e.files["checkpoint"])
	if err != nil {
		t.Fatal(err)
	}
	edit(&n)
	e.files["checkpoint"] = n.Encode()
	e.refit("checkpoint")
	dir = filepath.Join(t.TempDir(), "cosigned")
	if err := writeExport(dir, nil, e.files); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Both verifiers require the same cosignatures.
func TestPolicies(t *testing.T) {
	verdicts.PathOfPython(t)
	all, session, vkey, signer := exports(t)
	_, otherLog, err := note.GenerateKey(rand.Reader, signer.Name())
	if err != nil {
		t.Fatal(err)
	}
	witnesses, lines := newWitnesses(t, "a", "b", "c")
	lines += "witness d " + mldsaKey("witness.example/d") + "\n"
	now := time.Now()
	// by cosigns with some witnesses, at times before now.
	by := func(n *proof.Note, which string, ages ...time.Duration) {
		t.Helper()
		for i, name := range which {
			cosign(t, n, witnesses[string(name)], now.Add(-ages[i]))
		}
	}
	cosigned := func(dir string, edit func(*proof.Note)) string {
		t.Helper()
		return withCheckpoint(t, dir, edit)
	}
	nobody := cosigned(all, func(*proof.Note) {})
	one := cosigned(all, func(n *proof.Note) { by(n, "a", time.Minute) })
	two := cosigned(all, func(n *proof.Note) { by(n, "ab", time.Minute, 3*time.Hour) })
	again := cosigned(all, func(n *proof.Note) { by(n, "aba", 5*time.Hour, time.Minute, time.Minute) })
	part := cosigned(session, func(n *proof.Note) { by(n, "ab", time.Minute, time.Minute) })
	future := cosigned(all, func(n *proof.Note) { by(n, "ab", time.Minute, -time.Hour) })
	wrong := cosigned(all, func(n *proof.Note) {
		by(n, "abc", time.Minute, time.Minute, time.Minute)
		n.Signatures[len(n.Signatures)-1].Raw[20] ^= 1
	})
	short := cosigned(all, func(n *proof.Note) {
		by(n, "abc", time.Minute, time.Minute, time.Minute)
		n.Signatures[len(n.Signatures)-1].Raw = make([]byte, 64)
	})
	plain := cosigned(all, func(n *proof.Note) { // the key of a witness signed the text without the time
		by(n, "b", time.Minute)
		raw := binary.BigEndian.AppendUint64(nil, uint64(now.Unix()))
		raw = append(raw, ed25519.Sign(ed25519.NewKeyFromSeed(make([]byte, 32)), []byte(n.Text))...)
		n.Signatures = append(n.Signatures, proof.Signature{Name: "witness.example/a", ID: witnesses["a"].Key().ID, Raw: raw})
	})
	for _, tt := range []struct {
		name, dir, policy string
		key               string
		maxAge            time.Duration
		want              string
	}{
		{name: "two of three", dir: two, policy: "group g 2 a b c\nquorum g", want: "INTACT"},
		{name: "two of three, one did", dir: one, policy: "group g 2 a b c\nquorum g", want: "INTACT UP TO"},
		{name: "none did", dir: nobody, policy: "quorum a", want: "INTACT UP TO"},
		{name: "none must", dir: nobody, policy: "quorum none", want: "INTACT"},
		{name: "none must, of yesterday", dir: nobody, policy: "quorum none", maxAge: 24 * time.Hour, want: "INTACT"},
		{name: "one must", dir: one, policy: "quorum a", want: "INTACT"},
		{name: "another one must", dir: one, policy: "quorum b", want: "INTACT UP TO"},
		{name: "any", dir: one, policy: "group g any a b\nquorum g", want: "INTACT"},
		{name: "all", dir: two, policy: "group g all a b c\nquorum g", want: "INTACT UP TO"},
		{name: "groups of groups", dir: two, policy: "group x any a c\ngroup y all b\ngroup g all x y\nquorum g", want: "INTACT"},
		{name: "a witness that cannot be verified", dir: one, policy: "group g 2 a d\nquorum g", want: "INTACT UP TO"},
		{name: "a witness that need not be verified", dir: one, policy: "group g any a d\nquorum g", want: "INTACT"},
		{name: "of a part", dir: part, policy: "group g 2 a b c\nquorum g", want: "INTACT"},
		{name: "young", dir: two, policy: "quorum a", maxAge: time.Hour, want: "INTACT"},
		{name: "one of them old", dir: two, policy: "group g 2 a b c\nquorum g", maxAge: time.Hour, want: "INTACT UP TO"},
		{name: "the newest of each counts", dir: again, policy: "group g 2 a b c\nquorum g", maxAge: time.Hour, want: "INTACT"},
		{name: "one of the future", dir: future, policy: "group g 2 a b c\nquorum g", want: "INTACT UP TO"},
		{name: "a wrong one of the policy", dir: wrong, policy: "group g 2 a b c\nquorum g", want: "INTACT UP TO"},
		{name: "one of a wrong length", dir: short, policy: "group g 2 a b c\nquorum g", want: "INTACT UP TO"},
		{name: "a signature that is no cosignature", dir: plain, policy: "group g 2 a b c\nquorum g", want: "INTACT UP TO"},
		{name: "the log", dir: one, policy: "log " + vkey + "\nquorum a", want: "INTACT"},
		{name: "the log, without a key", dir: one, key: "none", policy: "log " + vkey + " https://example.com\nquorum a", want: "INTACT"},
		{name: "no log and no key", dir: one, key: "none", policy: "quorum a", want: "UNAUTHENTICATED"},
		{name: "another log", dir: one, policy: "log " + otherLog + "\nquorum a", want: "INTACT UP TO"},
		{name: "another log, without a key", dir: one, key: "none", policy: "log " + otherLog + "\nquorum a", want: "WRONG KEY"},
		{name: "another log and another key", dir: one, key: otherLog, policy: "log " + vkey + "\nquorum a", want: "WRONG KEY"},
	} {
		text := "# a policy\n\n" + lines + tt.policy + "\n"
		path := filepath.Join(t.TempDir(), "policy")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		policy, err := proof.ParsePolicy([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		opts, more := audit.VerifyOptions{Policy: policy, MaxAge: tt.maxAge}, []string{"--witness-policy", path, "--max-age", fmt.Sprintf("%.0fs", tt.maxAge.Seconds())}
		switch tt.key {
		case "":
			opts.Keys, more = []string{vkey}, append(more, "--key", vkey)
		case "none": // the caller of package audit passes those of the logs
			for _, log := range policy.Logs {
				opts.Keys = append(opts.Keys, log.VKey)
			}
		default:
			opts.Keys, more = []string{tt.key}, append(more, "--key", tt.key)
		}
		status, python := runPython(t, tt.dir, audit.VerifyOptions{}, more...)
		r, err := audit.VerifyExport(t.Context(), tt.dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := verdicts.Words(r.Verdict); got != tt.want || status != statuses[tt.want] || python.Verdict != string(r.Verdict) {
			t.Errorf("%s: package audit says %s, verify.py %s (%d), want %s\n%v\n%s", tt.name, got, python.Verdict, status, tt.want, r, python.Message)
		}
		if a, b := r.Cosigned, python.Cosigned; tt.want != "WRONG KEY" && tt.want != "UNAUTHENTICATED" && (a.Size != b.Size || (a.Time == nil) != (b.Time == nil) || a.Time != nil && !a.Time.Equal(*b.Time)) {
			t.Errorf("%s: package audit says %+v, verify.py %+v", tt.name, a, b)
		}
	}
}

// mldsaKey returns the key of a witness that neither verifier can verify.
func mldsaKey(name string) string {
	raw := append([]byte{6}, make([]byte, 1312)...)
	sum := sha256.Sum256(slices.Concat([]byte(name+"\n"), raw))
	return fmt.Sprintf("%s+%x+%s", name, sum[:4], base64.StdEncoding.EncodeToString(raw))
}

// Both parsers refuse the same policies.
func TestMalformedPolicies(t *testing.T) {
	verdicts.PathOfPython(t)
	var keys []string
	for i := range 4 {
		w, err := proof.NewWitnessSigner(fmt.Sprintf("w%d", i), bytes.Repeat([]byte{byte(i)}, 32))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, w.Key().String())
	}
	same, err := proof.NewWitnessSigner("other", make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	_, log, err := note.GenerateKey(rand.Reader, "example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	a, b := "witness a "+keys[0]+"\n", "witness b "+keys[1]+"\n"
	for _, text := range []string{
		"", "quorum a", "quorum none", a, a + "quorum a", a + "quorum a\nquorum a", a + "quorum b", "quorum a\n" + a, a + "quorum a b", "witness none " + keys[0] + "\nquorum none",
		a + a + "quorum a", a + "witness a " + keys[1] + "\nquorum a", a + "witness b " + same.Key().String() + "\nquorum a",
		a + b + "group g 1 a b\nquorum g", a + b + "group g 3 a b\nquorum g", a + b + "group g 0 a b\nquorum g", a + b + "group g 01 a b\nquorum g", a + b + "group g +1 a b\nquorum g",
		a + b + "group g any\nquorum g", a + b + "group g any a a\nquorum g", a + b + "group g any a\ngroup h any a\nquorum h", a + "group g any a b\n" + b + "quorum g", a + b + "group a any b\nquorum a",
		a + b + "group g all g\nquorum g", a + "quorum a\r\n", a + "quorum\u00a0a", a + "  \t# text\n\t quorum \t a", a + "quorum a # text", "log " + log + "\n" + a + "quorum a",
		"log " + log + "\nlog " + log + "\nquorum none", "log " + keys[0] + "\nquorum none", "witness a " + log + "\nquorum a", "log " + log + " url more\nquorum none", a[:len(a)-3] + "\nquorum a",
		strings.Replace(a, "+", "+0", 1) + "quorum a", "witness a x\nquorum a", "something else", a + "quorum a\x00", strings.ToUpper(a) + "quorum a", "witness d " + mldsaKey("d") + "\nquorum d", a + "quorum a\n" + strings.Repeat("#", 1<<20),
	} {
		path := filepath.Join(t.TempDir(), "policy")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := proof.ParsePolicy([]byte(text))
		out, status := runOnce(t, "--witness-policy", path, t.TempDir())
		// A directory without an export is the same mistake, and comes after the policy.
		if refused := status == 2 && !strings.Contains(out, "there is no export in"); status != 2 || refused != (err != nil) {
			t.Errorf("%.300q: package proof says %v, verify.py %d %s", text, err, status, out)
		}
	}
}
