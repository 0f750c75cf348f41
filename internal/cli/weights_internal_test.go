package cli

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"daybook/internal/cli/settings"
)

// Weights of tenants are read from the command line and from a file, as an object or a text. They
// are passed to a background owner.
func TestTenantWeights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	want := map[string]int{"acme": 3, "b": 2}
	for _, args := range [][]string{
		{"serve", "--tenant-weights", "acme=3,b=2"},
		{"serve", "--tenant-weights", "acme=3", "--tenant-weights", "b=2"},
		{"serve", "--config", file("object.json", `{"tenant-weights": {"acme": 3, "b": 2}}`)},
		{"serve", "--config", file("text.json", `{"tenant-weights": "acme=3,b=2"}`)},
	} {
		var serve struct {
			Config settings.ConfigFlag `name:"config"`
			Serve  serveCmd            `cmd:""`
		}
		parser, err := kong.New(&serve, kong.Vars{"datadir": dir}, kong.BindTo(context.Background(), (*context.Context)(nil)))
		if err != nil {
			t.Fatal(err)
		}
		kctx, err := parser.Parse(args)
		if err != nil {
			t.Errorf("%v: %v", args, err)
			continue
		}
		if got := serve.Serve.slotFlags.options().Weights; !maps.Equal(got, want) {
			t.Errorf("%v: weights %v, want %v", args, got, want)
		}
		if got := settings.Changed(kctx); !slices.Contains(got, "--tenant-weights=acme=3,b=2") {
			t.Errorf("%v: the owner receives %q", args, got)
		}
	}
	for value, want := range map[string]string{"acme=0": "1 to 1000", "acme=1001": "1 to 1000", "A B=1": "is no tenant", "acme=x": "invalid", "acme": "key"} {
		var serve struct {
			Serve serveCmd `cmd:""`
		}
		parser, err := kong.New(&serve, kong.Vars{"datadir": dir})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse([]string{"serve", "--tenant-weights", value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
	}
}
