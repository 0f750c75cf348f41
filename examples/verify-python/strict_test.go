package verifypython_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/sys/unix"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/dev/verdicts"
	"daybook/internal/eventproof"
	"daybook/internal/store/storetest"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// editorOf returns an editor of a copy of an export, without an edit.
func editorOf(t *testing.T, dir string) *editor {
	t.Helper()
	original := readOriginal(t, "an export", dir)
	return &editor{original: original, files: maps.Clone(original.files)}
}

// write writes the edited files to a new directory.
func (e *editor) write(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "edited")
	if err := writeExport(dir, nil, e.files); err != nil {
		t.Fatal(err)
	}
	return dir
}

// replace replaces the first place of the manifest that matches a pattern.
func (e *editor) replace(t *testing.T, pattern, text string) {
	t.Helper()
	old := e.files["manifest.json"]
	loc := regexp.MustCompile(pattern).FindIndex(old)
	if loc == nil {
		t.Fatalf("%s has no %s", old, pattern)
	}
	e.files["manifest.json"] = slices.Concat(old[:loc[0]], []byte(text), old[loc[1]:])
}

// Both verifiers refuse every form of a manifest and of a directory but the one that an export has. verify.py
// has a verdict on each.
func TestStrictExports(t *testing.T) {
	verdicts.PathOfPython(t)
	all, _, vkey, _ := exports(t)
	store := storetest.Start(t)
	log := translogtest.Start(t, store, translog.Options{Dir: t.TempDir()})
	translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 3))
	whole := exportTo(t, log, store, proof.ExportSelection{})
	first := exportTo(t, log, store, proof.ExportSelection{From: 1, To: 1}) // it starts the origin, so it belongs to every tenant
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(whole, link); err != nil {
		t.Fatal(err)
	}
	opts, allOpts := audit.VerifyOptions{Keys: []string{log.VKey()}}, audit.VerifyOptions{Keys: []string{vkey}}
	agree(t, "a symbolic link to an export", link, "INTACT", opts)
	agree(t, "the first event", first, "INTACT", opts)

	quoted := regexp.QuoteMeta(vkey)
	name, id, _ := strings.Cut(vkey, "+")
	capitals := name + "+" + strings.ToUpper(id[:8]) + id[8:]
	if capitals == vkey { // it has only digits
		capitals += "="
	}
	for _, tt := range []struct {
		name, dir     string
		opts          audit.VerifyOptions
		pattern, text string
	}{
		{"a length with a fraction", all, allOpts, `("name":"checkpoint","bytes":)[0-9]+`, fmt.Sprintf(`"name":"checkpoint","bytes":%d.0`, size(t, all, "checkpoint"))},
		{"a hash that is no regular expression", all, allOpts, `"name":"blobs/[^}]*`, `"name":"blobs/heap-!","bytes":1,"sha256":"("`},
		{"a hash that is a slow regular expression", all, allOpts, `"name":"blobs/[^}]*`, `"name":"blobs/heap-` + strings.Repeat("!", 40) + `","bytes":1,"sha256":"(!+)+0"`},
		{"a file that is a list", all, allOpts, `\{"name":"checkpoint"[^}]*\}`, `["name","bytes","sha256"]`},
		{"a space after a key", all, allOpts, quoted, vkey + " "},
		{"a line end in a key", all, allOpts, quoted, vkey[:len(vkey)-4] + `\n` + vkey[len(vkey)-4:]},
		{"the id of a key in capitals", all, allOpts, quoted, capitals},
		{"a tenant that is no text", first, opts, `"tenant":""`, `"tenant":"\ud800"`},
		{"a number of many digits", all, allOpts, `"size":[0-9]+`, `"size":` + strings.Repeat("9", 5000)},
		{"a member in other letters", all, allOpts, `"size":`, `"Size":`},
		{"a member twice", all, allOpts, `"tenant":""`, `"tenant":"x","tenant":""`},
		{"a member of a file twice", all, allOpts, `"name":"checkpoint"`, `"name":"events.ndjson","name":"checkpoint"`},
		{"lists in lists", all, allOpts, `"files":\[`, `"files":[` + strings.Repeat("[", 5000)},
	} {
		e := editorOf(t, tt.dir)
		e.replace(t, tt.pattern, tt.text)
		agree(t, tt.name, e.write(t), "NOT INTACT", tt.opts)
	}
	e := editorOf(t, whole)
	e.files["blobs"] = []byte("more")
	agree(t, "a file with the name of the directory of blobs", e.write(t), "NOT INTACT", opts)
	for _, file := range []string{"manifest.json", "checkpoint", "events.ndjson"} {
		dir := editorOf(t, whole).write(t)
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(filepath.Join(dir, file), 0o600); err != nil {
			t.Fatal(err)
		}
		agree(t, file+" is a pipe", dir, "NOT INTACT", opts)
	}
}

func size(t *testing.T, dir, file string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A checkpoint that a retired key signed does not count if only the events of the export say that the key is
// retired: the thief of the key leaves the list out of the manifest. A complete export without its list is refused.
func TestHiddenRetirement(t *testing.T) {
	verdicts.PathOfPython(t)
	store, dir := storetest.Start(t), t.TempDir()
	log := translogtest.Start(t, store, translog.Options{Dir: dir})
	translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 3))
	stolen, first := translogtest.SignerOf(t, filepath.Join(dir, "key")), log.VKey()
	if _, err := log.RotateKey(t.Context(), store, events.Actor{}); err != nil {
		t.Fatal(err)
	}
	translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 2))
	translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 2))
	for _, tt := range []struct {
		s                 proof.ExportSelection
		withFirst, noKeys string
	}{{proof.ExportSelection{}, "NOT INTACT", "NOT INTACT"}, {proof.ExportSelection{From: 2}, "WRONG KEY", "NOT INTACT"}} {
		e := editorOf(t, exportTo(t, log, store, tt.s))
		c, err := proof.ParseCheckpoint(e.files["checkpoint"])
		if err == nil {
			c, err = c.Sign(stolen)
		}
		if err != nil {
			t.Fatal(err)
		}
		e.files["checkpoint"] = c.Note
		e.refit("checkpoint")
		e.replace(t, `"signers":"([^"\\]|\\.)*",`, "")
		edited := e.write(t)
		agree(t, "the stolen key", edited, tt.withFirst, audit.VerifyOptions{Keys: []string{first}})
		agree(t, "no key", edited, tt.noKeys, audit.VerifyOptions{})
	}
}

// The list of signers of a complete export is the one in its events, up to the last statement that its checkpoint
// needs.
func TestListsOfCompleteExports(t *testing.T) {
	verdicts.PathOfPython(t)
	store, dir := storetest.Start(t), t.TempDir()
	log := translogtest.Start(t, store, translog.Options{Dir: dir})
	translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 3))
	if _, err := log.RotateKey(t.Context(), store, events.Actor{}); err != nil {
		t.Fatal(err)
	}
	translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 2))
	signer := translogtest.SignerOf(t, filepath.Join(dir, "key"))
	opts := audit.VerifyOptions{Keys: []string{log.VKey()}}
	_, other := translogtest.NewSigner(t, signer.Name())
	full := exportTo(t, log, store, proof.ExportSelection{})
	part := exportTo(t, log, store, proof.ExportSelection{From: 2})
	for name, tt := range map[string]struct {
		edit         func(list *proof.Signers) *proof.Signers
		full, inPart string
	}{
		"as it is": {func(list *proof.Signers) *proof.Signers { return list }, "INTACT", "INTACT"},
		"empty":    {func(*proof.Signers) *proof.Signers { return &proof.Signers{} }, "NOT INTACT", "INTACT"},
		"without the last one": {func(list *proof.Signers) *proof.Signers {
			shorter, all := &proof.Signers{}, list.Statements()
			for _, st := range all[:len(all)-1] {
				if _, err := shorter.Add(st.Note); err != nil {
					t.Fatal(err)
				}
			}
			return shorter
		}, "NOT INTACT", "INTACT"},
		"with one more": {func(list *proof.Signers) *proof.Signers {
			st, err := list.Next(proof.IntroduceSigner, other, 1).Sign(signer)
			if err == nil {
				_, err = list.Add(st.Note)
			}
			if err != nil {
				t.Fatal(err)
			}
			return list
		}, "NOT INTACT", "INTACT"},
	} {
		for dir, want := range map[string]string{full: tt.full, part: tt.inPart} {
			e := editorOf(t, dir)
			m, err := proof.ParseManifest(e.files["manifest.json"])
			if err != nil {
				t.Fatal(err)
			}
			list, err := proof.ParseSigners([]byte(m.Signers))
			if err != nil || len(list.Statements()) < 3 {
				t.Fatal(list, err)
			}
			m.Signers = string(tt.edit(list).Bytes())
			e.files["manifest.json"] = m.Encode()
			agree(t, name, e.write(t), want, opts)
		}
	}
}

// signedLedger is an export of a ledger with several recorded checkpoints, and its key.
type signedLedger struct {
	*editor
	signer note.Signer
	opts   audit.VerifyOptions
	// lines are those of the events, and list the events in them.
	lines [][]byte
	list  []proof.Record
}

func newSignedLedger(t *testing.T) *signedLedger {
	t.Helper()
	store, dir := storetest.Start(t), t.TempDir()
	log := translogtest.Start(t, store, translog.Options{Dir: dir})
	for range 4 {
		translogtest.Checkpoint(t, log, translogtest.Fill(t, store, 2))
	}
	l := &signedLedger{
		editor: editorOf(t, exportTo(t, log, store, proof.ExportSelection{})),
		signer: translogtest.SignerOf(t, filepath.Join(dir, "key")), opts: audit.VerifyOptions{Keys: []string{log.VKey()}},
	}
	l.lines = bytes.SplitAfter(l.files["events.ndjson"], []byte("\n"))
	l.lines = l.lines[:len(l.lines)-1]
	for _, line := range l.lines {
		r, err := proof.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			t.Fatal(err)
		}
		l.list = append(l.list, r)
	}
	return l
}

// request returns the first request of a run.
func (l *signedLedger) request() *proof.Record {
	return &l.list[slices.IndexFunc(l.list, func(r proof.Record) bool { return bytes.Contains(r.Body, []byte("1 + 1")) })]
}

// resign signs changed events: the checkpoints that events after a position record, and that of the export.
func (l *signedLedger) resign(t *testing.T, after uint64) {
	t.Helper()
	c, _, err := verdicts.Resign(l.list, l.signer, after)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range l.list {
		if !l.setLine(l.lines, i, r) {
			t.Fatalf("event %d has no line", r.Seq)
		}
	}
	l.setCheckpoint(t, c)
}

func (l *signedLedger) setCheckpoint(t *testing.T, c proof.Checkpoint) {
	t.Helper()
	l.files["checkpoint"] = c.Note
	l.refit("checkpoint")
	l.replace(t, `"root":"[^"]*"`, `"root":"`+proof.EncodeHash(c.Root)+`"`)
}

// The genuine key signed two histories, and the checkpoint of the export is of one of them, or of a third one.
func TestSeveralContradictions(t *testing.T) {
	verdicts.PathOfPython(t)
	l := newSignedLedger(t)
	r := l.request()
	r.Body = bytes.Replace(bytes.Clone(r.Body), []byte("1 + 1"), []byte("1 + 2"), 1)
	last := slices.IndexFunc(l.list, func(r proof.Record) bool {
		return r.Seq > l.list[len(l.list)/2].Seq && eventproof.IsCheckpoint(eventproof.StoredOf(r))
	})
	l.resign(t, l.list[last].Seq-1)
	agree(t, "a checkpoint of the second history", l.write(t), "FORKED", l.opts)
	c, err := proof.ParseCheckpoint(l.files["checkpoint"])
	if err == nil {
		c.Root[5] ^= 1
		c, err = c.Sign(l.signer)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.setCheckpoint(t, c)
	agree(t, "a checkpoint of a third history", l.write(t), "FORKED", l.opts)
}

// An event without the attributes of every event is a finding, although the key signed it.
func TestSignedButMalformed(t *testing.T) {
	verdicts.PathOfPython(t)
	l := newSignedLedger(t)
	header := l.request().Header
	for _, name := range []string{"", "ce-specversion", "ce-id", "ce-type", "ce-tenant", "ce-time"} {
		l.request().Header = maps.Clone(header)
		want := "INTACT"
		if name != "" {
			delete(l.request().Header, name)
			want = "NOT INTACT"
		}
		l.resign(t, 0)
		agree(t, "without "+name, l.write(t), want, l.opts)
	}
}

// Both verifiers give the same verdict on events that the key signed and that no version of Daybook records. Another
// program can append them to a shared ledger.
func TestSignedEventsOfOthers(t *testing.T) {
	verdicts.PathOfPython(t)
	l := newSignedLedger(t)
	r := l.request()
	header, body := r.Header, r.Body
	longest := bytes.Repeat([]byte{0xff}, events.MaxEventBytes)
	lists := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, tt := range map[string]struct {
		kind, body string
		more       string // the value of another attribute
		want       string
	}{
		"a number of many digits":         {kind: "other.v1", body: `{"a":` + strings.Repeat("9", 5000) + `}`},
		"many levels":                     {kind: "other.v1", body: `{"a":` + lists(9990) + `}`},
		"more levels than JSON may have":  {kind: "other.v1", body: `{"a":` + lists(100_000) + `}`},
		"a list about a run":              {kind: "daybook.execution.future.v1", body: "[1,2]"},
		"a number about a run":            {kind: "daybook.host.future.v1", body: "7"},
		"other content of a run":          {kind: "daybook.execution.future.v1", body: `{"content":[1]}`},
		"many levels about a run":         {kind: "daybook.execution.future.v1", body: `{"a":` + lists(100_000) + `}`, want: "NOT INTACT"},
		"the longest payload and headers": {kind: "other.v1", body: string(longest), more: strings.Repeat("\x01", 60_000)},
		"a payload that is too long":      {kind: "other.v1", body: string(longest) + string(longest), more: strings.Repeat("\x01", 60_000), want: "NOT INTACT"},
	} {
		r.Header, r.Body = maps.Clone(header), []byte(tt.body)
		r.Header["ce-type"] = []string{tt.kind}
		if tt.more != "" {
			r.Header["ce-more"] = []string{tt.more}
		}
		l.resign(t, 0)
		agree(t, name, l.write(t), cmp.Or(tt.want, "INTACT"), l.opts)
	}
	for _, time := range []string{"soon", "2026-11-28", "2026-13-28T12:00:00Z", "2026-11-28T12:00:00", "2026-11-28 12:00:00Z", "20261128T120000Z"} {
		r.Header, r.Body = maps.Clone(header), body
		r.Header["ce-time"] = []string{time}
		l.resign(t, 0)
		agree(t, "the time "+time, l.write(t), "NOT INTACT", l.opts)
	}
}

// A device without an end in place of a file is a mistake in the command line.
func TestEndlessFiles(t *testing.T) {
	all, _, vkey, _ := exports(t)
	for _, flag := range []string{"--checkpoint", "--witness-policy"} {
		cmd := exec.CommandContext(t.Context(), verdicts.PathOfPython(t), "-B", "verify.py", "--key", vkey, flag, "/dev/zero", all)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !bytes.Contains(out, []byte("/dev/zero is longer than 1048576 bytes")) {
			t.Errorf("%s: %v\n%s", flag, err, out)
		}
	}
}
