package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"daybook/embed"
)

var pasteBlock = regexp.MustCompile("(?ms)^```sh paste\n(.*?)^```$")

// The blocks "sh paste" of a guide work when they are pasted in their order into one shell.
func TestGuideBlocksCanBePasted(t *testing.T) {
	t.Parallel()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	for guide, wants := range map[string][]string{
		"scripts.md":   {"report.csv", "Bergen,3", "78498"},
		"modules.md":   {"42"},
		"replaying.md": {"identical (output", "to book", "unchanged: the engine of the server made it"},
	} {
		t.Run(guide, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", guide))
			if err != nil {
				t.Fatal(err)
			}
			var script strings.Builder
			for _, block := range pasteBlock.FindAllSubmatch(raw, -1) {
				script.Write(block[1])
			}
			home := t.TempDir()
			ctx, stop := context.WithTimeout(context.Background(), patience)
			defer stop()
			book, err := embed.Start(ctx, embed.Options{DataDir: filepath.Join(home, "daybook"), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Slots: embed.SlotOptions{Total: 2}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := book.Close(); err != nil {
					t.Error(err)
				}
			})
			cmd := exec.CommandContext(ctx, "sh", "-eu")
			cmd.Stdin, cmd.Dir = strings.NewReader(script.String()), t.TempDir()
			cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+home, "DAYBOOK_SERVER="+book.URL(), "PATH="+filepath.Dir(bin)+string(os.PathListSeparator)+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil || script.Len() == 0 {
				t.Fatalf("%v: %s", err, out)
			}
			for _, want := range wants {
				if !strings.Contains(string(out), want) {
					t.Errorf("the blocks do not print %q: %s", want, out)
				}
			}
		})
	}
}
