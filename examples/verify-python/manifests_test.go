package verifypython_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/dev/verdicts"
	"daybook/internal/store/storetest"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// Both verifiers have one verdict on edits of what no signature covers: the keys, the list of signers, and the names
// in the directory.
func TestEditedManifests(t *testing.T) {
	verdicts.PathOfPython(t)
	store := storetest.Start(t)
	for range 3 {
		if _, err := store.Append(t.Context(), translogtest.Request(events.NewID(time.Now())), 0); err != nil {
			t.Fatal(err)
		}
	}
	log := follow(t, store, t.TempDir())
	for range 2 {
		sign(t, store, log)
	}
	export := filepath.Join(t.TempDir(), "export")
	if _, err := audit.Export(t.Context(), audit.Local{Log: log, Stream: store, Blobs: store}, audit.ExportOptions{Dir: export}); err != nil {
		t.Fatal(err)
	}
	read := func() map[string][]byte {
		files := map[string][]byte{}
		for _, name := range []string{"manifest.json", "checkpoint", "events.ndjson"} {
			raw, err := os.ReadFile(filepath.Join(export, name))
			if err != nil {
				t.Fatal(err)
			}
			files[name] = raw
		}
		return files
	}
	vkey := log.VKey()
	name, rest, _ := strings.Cut(vkey, "+")
	id, encoded, _ := strings.Cut(rest, "+")
	otherForm := name + "+" + strings.ToUpper(id) + "+" + encoded
	if otherForm == vkey { // the id has only digits
		otherForm += "="
	}
	_, other := translogtest.NewSigner(t, name)
	forger, forged := translogtest.NewSigner(t, name+"/2")
	manifest := func(edit func(m *proof.Manifest)) func(map[string][]byte) {
		return func(files map[string][]byte) {
			m, err := proof.ParseManifest(files["manifest.json"])
			if err != nil {
				t.Fatal(err)
			}
			edit(&m)
			files["manifest.json"] = m.Encode()
		}
	}
	successor := func(m *proof.Manifest) {
		list := log.Signers()
		st := list.Next(proof.StartOrigin, forged, 0)
		st.Origin, st.Predecessor, st.Size, st.Root = name+"/2", name, m.Size, m.Root
		st, err := st.Sign(forger)
		if err == nil {
			_, err = list.Add(st.Note)
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Signers = string(list.Bytes())
	}
	for what, tt := range map[string]struct {
		edit func(files map[string][]byte)
		want string
	}{
		"nothing":                          {func(map[string][]byte) {}, "INTACT"},
		"a file named blobs":               {func(files map[string][]byte) { files["blobs"] = []byte("more") }, "NOT INTACT"},
		"a space after a key":              {manifest(func(m *proof.Manifest) { m.VKeys[0] += " " }), "NOT INTACT"},
		"a space before a key":             {manifest(func(m *proof.Manifest) { m.VKeys[0] = " " + m.VKeys[0] }), "NOT INTACT"},
		"a line end in a key":              {manifest(func(m *proof.Manifest) { m.VKeys[0] += "\n" }), "NOT INTACT"},
		"another form of a key":            {manifest(func(m *proof.Manifest) { m.VKeys[0] = otherForm }), "NOT INTACT"},
		"another key of the name":          {manifest(func(m *proof.Manifest) { m.VKeys[0] = other }), "INTACT"},
		"no key":                           {manifest(func(m *proof.Manifest) { m.VKeys = nil }), "INTACT"},
		"a successor that a forger starts": {manifest(successor), "NOT INTACT"},
		"the list as it is in the ledger":  {manifest(func(m *proof.Manifest) { m.Signers = string(log.Signers().Bytes()) }), "NOT INTACT"},
	} {
		files := read()
		before := maps.Clone(files)
		tt.edit(files)
		if maps.EqualFunc(before, files, bytes.Equal) && what != "nothing" {
			t.Errorf("%s: nothing was edited", what)
		}
		dir := filepath.Join(t.TempDir(), "edited")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, raw := range files {
			if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got := verdict(t, dir, audit.VerifyOptions{Keys: []string{vkey}})
		python := judge(t, []string{dir}, "--key", vkey)[0]
		if got != tt.want || python != tt.want {
			t.Errorf("%s: daybook verify says %s, verify.py %s, want %s", what, got, python, tt.want)
		}
	}
}
