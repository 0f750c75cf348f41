package cli_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStatusOfBadInput requires exit status 2 and one message for a bad value, a missing file, an
// unknown id and a file without permission. It covers commands that send no request; the others
// have tests of their own.
func TestStatusOfBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, none, file, shared := filepath.Join(dir, "data"), filepath.Join(dir, "none"), filepath.Join(dir, "file"), filepath.Join(dir, "shared")
	if err := os.MkdirAll(filepath.Join(data, "jetstream"), 0o700); err != nil { // as a server creates it
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{file: 0o600, shared: 0o644} {
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(dir, "outside") // its ledger is on an outside NATS server
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "outside-server"), []byte("nats.example:4222\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := "serve --http-addr 127.0.0.1:0 --nats-addr off --data-dir " + filepath.Join(dir, "new") + " "
	empty := t.TempDir()
	for _, args := range []string{
		"serve --data-dir " + file,
		"serve --http-addr bogus --data-dir " + none,
		"serve --http-addr 0.0.0.0:0 --data-dir " + none,
		"serve --http-port 99999 --data-dir " + none,
		"serve --http-addr 127.0.0.1:0 --nats-addr bogus --data-dir " + none,
		serve + "--auth tokens=" + none,
		serve + "--auth tokens=" + shared,
		serve + "--auth nosuch=1",
		serve + "--tls-cert " + none + " --tls-key " + none,
		serve + "--tls-cert " + file + " --tls-key " + file,
		serve + "--tls-cert " + file,
		serve + "--public-url bogus",
		serve + "--witness-url bogus",
		serve + "--mcp-config " + none,
		serve + "--mcp-server nosuch",
		serve + "--heap-retention 1m",
		serve + "--seal-bytes 5",
		serve + "--limit-connections 1000000000",
		serve + "--config " + none,
		serve + "--no-such-flag",
		"serve --http-addr 127.0.0.1:0 --nats-addr off --data-dir " + outside,
		"serve --http-addr 127.0.0.1:0 --nats-addr off --accept-damage --data-dir " + outside,
		"rebuild --data-dir " + outside,
		"verify --data-dir " + outside,
		"events export --data-dir " + outside + " " + none,
		"rebuild --data-dir " + none,
		"verify --data-dir " + none,
		"verify --data-dir " + empty,
		"verify --data-dir " + data, // with a directory for streams and without streams
		"verify --data-dir " + file,
		"verify --export " + empty,
		"verify --export " + dir, // with other files
		"volume remove 1 --export " + empty,
		"events export --data-dir " + none + " " + filepath.Join(dir, "export"),
		"events export --data-dir " + empty + " " + filepath.Join(dir, "export"),
		"token create --principal a --data-dir " + none,
		"token create --principal a,b·c --file " + file,
		"token create --principal a --tenant A --file " + file,
		"token create --principal a --scope nosuch --file " + file,
		"token create --principal a --expires=-1h --file " + file,
		"token create --principal a --file " + filepath.Join(none, "x"),
		"token create --principal a --file " + file + " --out " + file,
		"token create --principal a --file " + file + " --out " + filepath.Join(none, "x"),
		"token list --file " + none,
		"token list --file " + shared,
		"token revoke nosuch --file " + file,
		"nats credentials create --tenant A --data-dir " + data,
		"nats credentials create --data-dir " + none,
		"nats credentials list --data-dir " + none,
		"nats credentials rotate nosuch --data-dir " + data,
		"nats credentials revoke nosuch --data-dir " + data,
		"verify --export " + none,
		"verify --export " + file,
		"verify --key nosuch",
		"volume remove 1 --export " + none,
		"volume export one " + none,
		"completion nosuch",
		"run " + none,
		"run -e 1 --server nosuch",
		"exec list --server http://127.0.0.1:1 --token-file " + none,
		"events export " + none + " --server http://127.0.0.1:1 --checkpoint " + none,
		"nosuch",
	} {
		words := strings.Fields(args)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "·", " ")
		}
		got := daybook("", words...)
		if got.status != 2 || got.stdout != "" || !strings.HasPrefix(got.err, "daybook: ") {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, got.status, got.stdout, got.err)
		}
	}
	for _, path := range []string{none, filepath.Join(dir, "export"), filepath.Join(empty, "lock")} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was created: %v", path, err)
		}
	}
}
