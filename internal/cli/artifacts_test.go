package cli_test

import (
	"os"
	"path/filepath"
	"testing"
)

// Artifacts whose names give the same name of a file are all saved. Without --overwrite an
// existing file stops the command before it writes a file.
func TestSaveArtifacts(t *testing.T) {
	t.Parallel()
	at := " --server " + serve(t).URL()
	saved := t.TempDir()
	known := map[string]string{"saved": saved}
	play(t, known, []step{
		{
			args:   `run --detach --heap none -e artifact("a/b.txt","text/plain","1");artifact("a:b.txt","text/plain","2");artifact("A_b.TXT","text/plain","3");artifact("a_b-2.txt","text/plain","4");artifact(".env","text/plain","5");artifact(".ENV","text/plain","6")` + at,
			stdout: "(?P<id>\\S+)\n",
		},
		{args: `exec watch $id` + at, stdout: "(?s:.*)", stderr: "status: completed\n"},
		{args: `exec artifacts $id --save $saved` + at, stdout: "(?s:.*)", stderr: "saved $saved/a_b.txt\nsaved $saved/a_b-3.txt\nsaved $saved/A_b-4.TXT\nsaved $saved/a_b-2.txt\nsaved $saved/.env\nsaved $saved/.ENV-2\n"},
	})
	want := map[string]string{"a_b.txt": "1", "a_b-3.txt": "2", "A_b-4.TXT": "3", "a_b-2.txt": "4", ".env": "5", ".ENV-2": "6"}
	check := func() {
		t.Helper()
		found, err := os.ReadDir(saved)
		if err != nil || len(found) != len(want) {
			t.Errorf("%v, %v", found, err)
		}
		for name, content := range want {
			if b, err := os.ReadFile(filepath.Join(saved, name)); err != nil || string(b) != content {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
	}
	check()

	// Only the last file exists.
	for name := range want {
		if name != ".ENV-2" {
			if err := os.Remove(filepath.Join(saved, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := want
	want = map[string]string{".ENV-2": "mine"}
	if err := os.WriteFile(filepath.Join(saved, ".ENV-2"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	play(t, known, []step{
		{args: `exec artifacts $id --save $saved` + at, status: 1, stderr: "daybook: save the artifacts: $saved/.ENV-2 exists, and nothing was written; give --overwrite to replace it, or choose another directory\n"},
	})
	check()
	want = all
	play(t, known, []step{{args: `exec artifacts $id --save $saved --overwrite` + at, stdout: "(?s:.*)", stderr: "(?s:.*)"}})
	check()
	if err := os.Remove(filepath.Join(saved, ".env")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(saved, ".env"), 0o700); err != nil {
		t.Fatal(err)
	}
	play(t, known, []step{
		{args: `exec artifacts $id --save $saved --overwrite` + at, status: 1, stderr: "daybook: save the artifacts: $saved/.env is a directory; choose another directory for --save\n"},
	})
}
