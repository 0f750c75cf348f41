package cli_test

import (
	"context"
	"path/filepath"
	"testing"

	"daybook/embed"
)

func TestVolumes(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	book, err := embed.Start(ctx, embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}, Slots: embed.SlotOptions{Total: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	dir := filepath.Join(t.TempDir(), "volume-1")
	play(t, map[string]string{"url": book.URL(), "dir": dir}, []step{
		{args: `volume seal` + at, status: 2, stderr: "daybook: the active volume holds only its opening event.*\n"},
		{args: `run -e 1` + at, stdout: "1\n", stderr: ".*"},
		{args: `volume export 1 $dir` + at, status: 2, stderr: "daybook: volume 1 is the active volume; seal it first.*\n"},
		{args: `volume seal` + at, stdout: "Sealed volume 1, positions 1 to [0-9]+. The next one begins at [0-9]+.\n"},
		{args: `volume list` + at, stdout: "VOLUME +FIRST.*\n1 +1 .* sealed .*\n2 .* active .*\n"},
		{args: `volume list --json` + at, stdout: `.*"sealed": ?true.*` + "\n"},
		{args: `volume export 1 $dir` + at, stdout: "Exported [0-9]+ events .*\n.*\n"},
		{args: `verify --export $dir`, status: 7, stdout: "(?s).*UNAUTHENTICATED.*", stderr: ".*"},
		{args: `volume remove 1` + at, status: 2, stderr: ".*--export.*\n"},
		{args: `volume remove 2 --export $dir` + at, status: 2, stderr: "(?s).*volume 2 cannot be removed: it is the active volume; seal it first\n"},
		{args: `run -e 2` + at, stdout: "2\n", stderr: ".*"},
		{args: `volume seal` + at, stdout: "Sealed volume 2, .*\n"},
		{args: `volume remove 2 --export $dir` + at, status: 2, stderr: "(?s).*volume 1 is older; remove the oldest volume first\n"},
		{args: `volume remove 1 --export $dir` + at, stdout: "Removed volume 1, positions 1 to [0-9]+, by event [0-9]+[.] Events of all removed volumes that are kept because later state depends on them: [0-9]+[.]\n"},
		{args: `volume list` + at, stdout: "VOLUME +FIRST.*\n2 +.* sealed .*\n3 .* active .*\n"},
		{args: `volume export 7 $dirx` + at, status: 2, stderr: "daybook: volume 7 does not exist; .*\n"},
	})
}

// "volume remove" reads an export and also sends a request to the server that the environment names.
// A flag with a directory takes precedence.
func TestVolumeRemoveAsksTheServerOfTheEnvironment(t *testing.T) { // not parallel: it sets a variable
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	book, err := embed.Start(ctx, embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}, Slots: embed.SlotOptions{Total: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	known := map[string]string{"url": book.URL(), "data": book.DataDir(), "dir": filepath.Join(t.TempDir(), "volume-1")}
	play(t, known, []step{
		{args: `run -e 1` + at, stdout: "1\n", stderr: ".*"},
		{args: `volume seal` + at, stdout: "Sealed volume 1, .*\n"},
		{args: `volume export 1 $dir` + at, stdout: "Exported .*"},
	})
	t.Setenv("DAYBOOK_SERVER", "http://127.0.0.1:1")
	play(t, known, []step{
		{args: `volume remove 1 --export $dir`, status: 5, stderr: "daybook: no server answers at http://127.0.0.1:1: .*\n"},
		{args: `volume remove 2 --export $dir --data-dir $data`, status: 2, stderr: "(?s).*volume 2 cannot be removed: .*\n"},
	})
	t.Setenv("DAYBOOK_SERVER", book.URL())
	play(t, known, []step{
		{args: `volume remove 1 --export $dir`, stdout: "Removed volume 1, .*\n"},
	})
}
