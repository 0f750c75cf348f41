// Package verifypython_test runs verify.py on unchanged and on edited exports, and compares
// its verdicts with those of package audit.
package verifypython_test

import (
	"bytes"
	crand "crypto/rand"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/audit"
	"daybook/internal/dev/verdicts"
	"daybook/proof"
)

// judge runs verify.py on directories and returns the verdict on each.
func judge(t *testing.T, dirs []string, args ...string) []string {
	t.Helper()
	python := verdicts.StartPython(t, args...)
	var list []string
	for _, dir := range dirs {
		v, _, err := python.Verdict(dir)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// verdict returns the verdict of package audit, in the words of verify.py.
func verdict(t *testing.T, dir string, opts audit.VerifyOptions) string {
	t.Helper()
	report, err := audit.VerifyExport(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return verdicts.Words(report.Verdict)
}

// Both verifiers give the same verdicts on unchanged exports.
func TestUnchangedExports(t *testing.T) {
	verdicts.PathOfPython(t)
	all, session, vkey, signer := exports(t)
	signed, err := os.ReadFile(filepath.Join(all, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := audit.ParseKnown(signed)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := note.GenerateKey(rand.NewChaCha8([32]byte{2}), "daybook/other")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		opts audit.VerifyOptions
		want string
	}{
		{"no key", audit.VerifyOptions{}, "UNAUTHENTICATED"},
		{"its key", audit.VerifyOptions{Keys: []string{vkey}}, "INTACT"},
		{"its key and another", audit.VerifyOptions{Keys: []string{other, vkey}}, "INTACT"},
		{"another key", audit.VerifyOptions{Keys: []string{other}}, "WRONG KEY"},
		{"its checkpoint", audit.VerifyOptions{Keys: []string{vkey}, Known: []proof.Checkpoint{same}}, "INTACT"},
		{"a checkpoint of a longer ledger", audit.VerifyOptions{Keys: []string{vkey}, Known: []proof.Checkpoint{resign(t, signer, same, 5)}}, "ROLLED BACK"},
		{"a checkpoint of another ledger", audit.VerifyOptions{Keys: []string{vkey}, Known: []proof.Checkpoint{resign(t, signer, same, 0)}}, "FORKED"},
		{"of yesterday", audit.VerifyOptions{Keys: []string{vkey}, MaxAge: 24 * time.Hour}, "INTACT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var args []string
			for _, key := range tt.opts.Keys {
				args = append(args, "--key", key)
			}
			for _, c := range tt.opts.Known {
				path := filepath.Join(t.TempDir(), "kept")
				if err := os.WriteFile(path, c.Note, 0o644); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--checkpoint", path)
			}
			if tt.opts.MaxAge > 0 {
				args = append(args, "--max-age", "24h")
			}
			want := []string{tt.want, tt.want}
			if got := judge(t, []string{all, session}, args...); !slices.Equal(got, want) {
				t.Errorf("verify.py: %q, want %q", got, tt.want)
			}
			if got := []string{verdict(t, all, tt.opts), verdict(t, session, tt.opts)}; !slices.Equal(got, want) {
				t.Errorf("package audit: %q, want %q", got, tt.want)
			}
		})
	}
}

// resign signs the checkpoint of another tree, which has more events.
func resign(t *testing.T, signer note.Signer, c proof.Checkpoint, more uint64) proof.Checkpoint {
	t.Helper()
	c.Size += more
	c.Root[3] ^= 1
	c, err := c.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCosignedExports adds signatures of unknown keys and an extension line to the checkpoint of an
// export: both verifiers ignore them. A wrong signature of a known key is no such addition.
func TestCosignedExports(t *testing.T) {
	verdicts.PathOfPython(t)
	all, _, vkey, _ := exports(t)
	origin, _, _ := strings.Cut(vkey, "+")
	skey, other, err := note.GenerateKey(crand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	witness, err := proof.NewWitnessSigner("witness.example/w1", make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	original := readOriginal(t, "a ledger", all)
	edited := func(name, text string, edit func(n *proof.Note), vkeys string) string {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.CopyFS(dir, os.DirFS(all)); err != nil {
			t.Fatal(err)
		}
		e := &editor{files: maps.Clone(original.files)}
		n, err := proof.ParseNote(e.files["checkpoint"])
		if err != nil {
			t.Fatal(err)
		}
		n.Text += text
		edit(&n)
		e.files["checkpoint"] = n.Encode()
		e.files["manifest.json"] = bytes.Replace(e.files["manifest.json"], []byte(vkey), []byte(vkeys), 1)
		e.refit("checkpoint")
		for _, name := range []string{"checkpoint", "manifest.json"} {
			if err := os.WriteFile(filepath.Join(dir, name), e.files[name], 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	cosign := func(n *proof.Note) {
		s, err := witness.Cosign(n.Text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		n.Signatures = slices.Insert(n.Signatures, 0, s)
	}
	sign := func(text string) (s proof.Signature) {
		signed, err := note.Sign(&note.Note{Text: text}, signer)
		if err != nil {
			t.Fatal(err)
		}
		n, err := proof.ParseNote(signed)
		if err != nil {
			t.Fatal(err)
		}
		return n.Signatures[0]
	}
	dirs := []string{
		edited("cosigned", "", cosign, vkey),
		edited("extended", "an extension\n", func(n *proof.Note) { cosign(n); n.Signatures = append(n.Signatures[:1], sign(n.Text)) }, other),
		edited("unknown", "", func(n *proof.Note) { n.Signatures = append(n.Signatures, sign("another text\n")) }, vkey),
		edited("wrong", "", func(n *proof.Note) { n.Signatures = append(n.Signatures, sign("another text\n")) }, vkey+`","`+other),
		edited("wrong second", "", func(n *proof.Note) {
			n.Signatures = append(n.Signatures, n.Signatures[0])
			n.Signatures[1].Raw = make([]byte, 64)
		}, vkey),
		edited("empty", "\n", func(n *proof.Note) { n.Signatures = append(n.Signatures, sign(n.Text)) }, other),
	}
	// Without a signature of a given key, the keys of the export count.
	for key, want := range map[string][]string{
		"":    {"UNAUTHENTICATED", "UNAUTHENTICATED", "UNAUTHENTICATED", "NOT INTACT", "NOT INTACT", "NOT INTACT"},
		vkey:  {"INTACT", "WRONG KEY", "INTACT", "INTACT", "NOT INTACT", "NOT INTACT"},
		other: {"WRONG KEY", "INTACT", "NOT INTACT", "NOT INTACT", "NOT INTACT", "NOT INTACT"},
	} {
		opts, args := audit.VerifyOptions{}, []string(nil)
		if key != "" {
			opts.Keys, args = []string{key}, []string{"--key", key}
		}
		if got := judge(t, dirs, args...); !slices.Equal(got, want) {
			t.Errorf("verify.py with the key %q: %q, want %q", key, got, want)
		}
		for i, dir := range dirs {
			if got := verdict(t, dir, opts); got != want[i] {
				t.Errorf("package audit with the key %q on %s: %q, want %q", key, filepath.Base(dir), got, want[i])
			}
		}
	}
}

// TestExportAfterARemoval compares the verdicts on an export that holds the list
// of kept events, and on one that lacks it.
func TestExportAfterARemoval(t *testing.T) {
	verdicts.PathOfPython(t)
	dir, kept, _ := exportAfterRemoval(t)
	x := readOriginal(t, "a ledger", dir)
	files := maps.Clone(x.files)
	delete(files, "blobs/"+kept)
	entry := regexp.MustCompile(`,\{"name":"blobs/` + kept + `","bytes":\d+,"sha256":"[0-9a-f]+"\}`)
	files["manifest.json"] = entry.ReplaceAll(files["manifest.json"], nil)
	lacking := filepath.Join(t.TempDir(), "lacking")
	if err := writeExport(lacking, nil, files); err != nil {
		t.Fatal(err)
	}
	want := []string{"UNAUTHENTICATED", "NOT INTACT"}
	if got := judge(t, []string{dir, lacking}); !slices.Equal(got, want) {
		t.Errorf("verify.py: %v, want %v", got, want)
	}
	if got := []string{verdict(t, dir, audit.VerifyOptions{}), verdict(t, lacking, audit.VerifyOptions{})}; !slices.Equal(got, want) {
		t.Errorf("package audit: %v, want %v", got, want)
	}
}

// verify.py makes the same records of lines as package proof, and refuses lines of version 2
// with headers that no record covers.
func TestRecordsInPython(t *testing.T) {
	t.Parallel()
	const program = `
import json, sys, verify
for v in json.load(open(sys.argv[1])):
    verify.need(verify.Event(v["line"].encode()).record().decode() == v["record"], v["line"])
    if '"recordversion"' not in v["line"] or "ce-id" not in v["line"]:
        continue
    for old, new in (("ce-recordversion: 2", "ce-recordversion: 3"), ("ce-recordversion: 2\\n", "ce-recordversion: 2\\nce-recordversion: 2\\n"),
                     ("ce-recordversion: 2\\n", ""), ('"natsheaders":"', '"natsheaders":"Nats-Msg-Id: x\\n'), ('"natsheaders":"', '"natsheaders":"Ce-Id: x\\n'),
                     ("ce-id: ", "ce-id: x\\nce-id: "), ('json\\n"', 'json\\nx-other: x\\n"'), ("ce-source: daybook\\n", "ce-source: daybook \\n")):
        verify.need(v["line"].count(old) == 1, old)
        try:
            verify.Event(v["line"].replace(old, new).encode())
        except ValueError:
            continue
        raise SystemExit(f"{old!r} as {new!r} is accepted")
    e = verify.Event(v["line"].encode())
    for length, longest in ((65535, True), (65536, False)):
        e.headers = e.headers + "x" * (length - len(e.record()))
        try:
            verify.need(len(e.record()) == length and longest, length)
        except ValueError:
            verify.need(not longest, "a record of 65535 bytes is refused")
print("done")
`
	cmd := exec.CommandContext(t.Context(), verdicts.PathOfPython(t), "-B", "-c", program, filepath.Join("..", "..", "proof", "testdata", "leaves.json"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "done\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
