package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"daybook/embed"
	"daybook/events"
	"daybook/proof"
)

// keeping starts a server on a data directory.
func keeping(t *testing.T, opts embed.Options) *embed.Daybook {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	opts.HTTP.Addr, opts.NATS.NoSync, opts.Runs.DrainWait, opts.Slots.Total = "127.0.0.1:0", opts.NATS.URL == "", -1, 1
	book, err := embed.Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = book.Close() })
	return book
}

func closeServer(t *testing.T, book *embed.Daybook) {
	t.Helper()
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
}

// vkeyFor returns a verification key with a name.
func vkeyFor(t *testing.T, name string) string {
	t.Helper()
	_, vkey, err := proof.NewKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return vkey
}

// keyed is a server whose signing key is not in its data directory.
type keyed struct {
	opts embed.Options
	book *embed.Daybook
	// known has the texts for steps: url, data, the files key, root and new, and the key first.
	known map[string]string
}

// keepingKey starts a server whose key is elsewhere, makes it do a run, and adds the root key rootkey.
func keepingKey(t *testing.T) *keyed {
	t.Helper()
	dir, offline := t.TempDir(), t.TempDir()
	key := filepath.Join(offline, "key")
	k := &keyed{opts: embed.Options{DataDir: dir, Proof: embed.ProofOptions{KeyFile: key}}}
	k.book = keeping(t, k.opts)
	k.known = map[string]string{"url": k.book.URL(), "data": dir, "key": key, "first": k.book.AuditKey(), "root": filepath.Join(offline, "root"), "new": filepath.Join(offline, "new")}
	play(t, k.known, []step{
		{args: `run -e 1` + at, stdout: "1\n", stderr: ".*"},
		{args: `key root $root` + at, stdout: "(?P<rootkey>" + vkeyPattern + ")\n", stderr: ".*"},
	})
	return k
}

// restart stops the server, and starts it after a change.
func (k *keyed) restart(t *testing.T, change func()) {
	t.Helper()
	closeServer(t, k.book)
	change()
	k.book = keeping(t, k.opts)
	k.known["url"] = k.book.URL()
}

const vkeyPattern = `[^ +\n]+\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+`

// The keys of a ledger are introduced, retired and replaced with the commands, and both root keys and
// earlier keys verify it.
func TestKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := keeping(t, embed.Options{DataDir: dir})
	offline := t.TempDir()
	first := book.AuditKey()
	origin, _, _ := strings.Cut(first, "+")
	known := map[string]string{"url": book.URL(), "data": dir, "first": first, "origin": origin, "root": filepath.Join(offline, "root"), "unmounted": filepath.Join(offline, "usb", "root"), "new": filepath.Join(offline, "new"), "vkey": written(t, "vkey", vkeyFor(t, origin)+"\n"), "another": vkeyFor(t, origin), "other": vkeyFor(t, "other")}
	play(t, known, []step{
		{args: `key introduce $other` + at, status: 2, stderr: "daybook: the ledger has no events yet.*\n"},
		{args: `key root $unmounted` + at, status: 2, stderr: "daybook: the directory .*/usb does not exist: insert and mount the medium for the root key, or create the directory\n"},
		{args: `key root $root` + at, status: 2, stderr: "(?s)daybook: the ledger has no events yet.*--existing\n"},
		{args: `key introduce $vkey --root-key $root` + at, status: 2, stderr: "daybook: the ledger has no origin yet; run a script first\n"},
		{args: `run -e 1` + at, stdout: "1\n", stderr: ".*"},
		{args: `key introduce $other` + at, status: 2, stderr: "daybook: .*the key is named other, and a signer of $origin must be named so\n"},
		{args: `key introduce nokey` + at, status: 2, stderr: "daybook: VKEY \"nokey\" is neither .*\n"},
		{args: `key introduce $vkey` + at, stdout: "Introduced (?P<second>" + vkeyPattern + ") with statement 1\\.\n"},
		{args: `key revoke $first` + at, status: 2, stderr: "daybook: .*daybook key rotate.*\n"},
		{args: `key revoke $second --size 3` + at, status: 2, stderr: "daybook: --size needs --root-key.*\n"},
		{args: `key revoke $second` + at, stdout: "Retired $second with statement 2: its checkpoints of more than [0-9]+ events do not count\\.\n"},
		{args: `key revoke $second` + at, status: 2, stderr: "daybook: .*already retired: by statement 2, at \\d+ events\n"},
		{args: `key root $root` + at, status: 2, stderr: "daybook: $root exists and is not overwritten; name another file\n"},
		{args: `key root $root --existing` + at, stdout: "(?P<rootkey>daybook-root/" + vkeyPattern + ")\n", stderr: "(?s)The root key introduced the signer $first with statement \\d+\\.\n.*offline.*"},
		{args: `key root $root --existing` + at, stdout: "$rootkey\n", stderr: "(?s)The list of signers has the root key already, .*offline.*"},
		{args: `key root $root --existing --json` + at, stdout: `(?s)\{\s*"key": "$rootkey",\s*"statements": \[\]\s*\}\n`},
		{args: `key rotate` + at, stdout: "(?P<third>" + vkeyPattern + ")\n", stderr: "retired $first\n"},
		{args: `key rotate --json` + at, stdout: `\{"key":"(?P<fourth>` + vkeyPattern + `)","former":"$third"\}` + "\n"},
		{args: `key new $new --origin a·b` + at, status: 2, stderr: "daybook: \"a b\" is not the name of a key.*\n"},
		{args: `key new $new` + at, stdout: "(?P<fifth>" + vkeyPattern + ")\n", stderr: "$new holds the new key.*\n"},
		{args: `key new $new` + at, status: 2, stderr: "daybook: $new exists .*\n"},
		{args: `key introduce $fifth --root-key $new` + at, status: 2, stderr: "daybook: .*no signer or root key.*\n"},
		{args: `key introduce $fifth --root-key $root --json` + at, stdout: `\{"statement":\{"number":9,"action":"introduce","key":"$fifth".*\}\}` + "\n"},
		{args: `key revoke $fifth --root-key $root --size 2` + at, stdout: "Retired $fifth with statement 10: its checkpoints of more than 2 events do not count\\.\n"},
		{args: `key revoke $fifth --root-key $root` + at, status: 2, stderr: "(?s)daybook: .*already retired: by statement 10, at 2 events.*"},
		{args: `key list` + at, stdout: "ROLE +KEY\nsigner, this server +$fourth\nroot +$rootkey\n\nNUMBER +ACTION +SIZE +ORIGIN +KEY\n0 +start +0 +$origin +$first\n1 +introduce [^\n]*\n(?s:.*)\n10 +retire +2 +$origin +$fifth\n"},
		{args: `key list --json` + at, stdout: `\{"origin":"$origin","keys":\["$fourth"\],"roots":\["$rootkey"\],"key":"$fourth",.*\}` + "\n"},
		{args: `verify --server $url --key $rootkey`, stdout: "(?s)INTACT.*"},
		{args: `verify --server $url --key $first`, stdout: "(?s)INTACT.*"},
		{args: `key introduce $another` + at, stdout: "Introduced $another .*\n"},
		{args: `key root $root --existing --json` + at, stdout: `\{\s*"key": "$rootkey",\s*"statements": \[.*"action": "introduce",\s*"key": "$another",.*\]\s*\}` + "\n"}, // a signer introduced it
		{args: `key root $root --existing --json` + at, stdout: `\{\s*"key": "$rootkey",\s*"statements": \[\]\s*\}\n`},
		{args: `key revoke $another` + at, stdout: "Retired $another .*\n"},
		{args: `volume seal` + at, stdout: "Sealed .*\n"},
		{args: `volume export 1 $data-1` + at, stdout: "(?s)Exported .*"},
		{args: `volume remove 1 --export $data-1 --key $rootkey` + at, stdout: "Removed .*\n"},
		{args: `key rotate` + at, stdout: "(?P<sixth>" + vkeyPattern + ")\n", stderr: "retired $fourth\n"},
	})
	if info, err := os.Stat(known["root"]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the root key: %v, %v", info, err)
	}
	closeServer(t, book)
	book = keeping(t, embed.Options{DataDir: dir})
	known["url"] = book.URL()
	play(t, known, []step{
		{args: `key rotate` + at, stdout: vkeyPattern + "\n", stderr: "retired $sixth\n"},
		{args: `verify --server $url --key $rootkey`, stdout: "(?s)INTACT.*"},
	})
	closeServer(t, book)
	play(t, known, []step{{args: `verify --data-dir $data --key $rootkey`, stdout: "(?s)INTACT.*"}})
}

// A root key introduces a key in place of a lost one, while the ledger is read-only.
func TestLostKey(t *testing.T) {
	t.Parallel()
	k := keepingKey(t)
	known := k.known
	k.restart(t, func() {
		if err := os.Remove(known["key"]); err != nil {
			t.Fatal(err)
		}
	})
	const answer = "The server is read-only.*Restart it with a key that signs\\.\n"
	play(t, known, []step{
		{eventually: true, args: `status` + at, status: 1, stdout: "(?s).*$key is missing.*key introduce --root-key.*"},
		{args: `status` + at, status: 1, stdout: "(?s).*\nWhat to do: put the file of a key that signs the ledger in the place of the present one, .*"},
		{args: `run -e 1` + at, status: 5, stderr: "(?s).*damaged.*; put the file of a key that signs the ledger in the place of the present one, .*"},
		{args: `key rotate` + at, status: 5, stderr: "(?s).*damaged.*"},
		{args: `key list` + at, stdout: "ROLE +KEY\nsigner, this server +$first\n(?s:.*)"},
		{args: `key new $key` + at, stdout: "(?P<second>" + vkeyPattern + ")\n", stderr: ".*"},
		{args: `key introduce $second` + at, status: 5, stderr: "(?s).*damaged.*"},
		{args: `key introduce $second --root-key $root` + at, stdout: "Introduced $second .*\n", stderr: answer},
		{args: `key revoke $first --root-key $root` + at, stdout: "Retired $first .*\n", stderr: answer},
	})
	k.restart(t, func() {})
	play(t, known, []step{
		{args: `run -e 2` + at, stdout: "2\n", stderr: ".*"},
		{args: `key list` + at, stdout: "ROLE +KEY\nsigner, this server +$second\n(?s:.*)"},
		{args: `verify --server $url --key $rootkey`, stdout: "(?s)INTACT.*"},
	})
	closeServer(t, k.book)
	play(t, known, []step{{args: `verify --data-dir $data --key $rootkey`, stdout: "(?s)INTACT.*"}})
}

// With damage besides the lost key, no statement is recorded.
func TestLostKeyOfADamagedLedger(t *testing.T) {
	t.Parallel()
	k := keepingKey(t)
	k.restart(t, func() {
		blocks, err := filepath.Glob(filepath.Join(k.opts.DataDir, "jetstream", "jetstream", "*", "streams", "LEDGER-0001", "msgs", "*.blk"))
		if err != nil || len(blocks) == 0 {
			t.Fatalf("no files of the ledger: %v", err)
		}
		raw, err := os.ReadFile(blocks[0])
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)/3] ^= 1
		if err := errors.Join(os.WriteFile(blocks[0], raw, 0o600), os.Remove(k.known["key"])); err != nil {
			t.Fatal(err)
		}
	})
	play(t, k.known, []step{
		{args: `key new $new` + at, stdout: "(?P<second>" + vkeyPattern + ")\n", stderr: ".*"},
		{args: `key introduce $second --root-key $root` + at, status: 5, stderr: "(?s).*damaged.*"},
		{args: `status` + at, status: 1, stdout: "(?s).*\nWhat to do: restore the data directory from a backup that has its newest events, or .*"},
		{args: `key list` + at, stdout: "(?s).*\n2 +introduce [^\n]*$first\n"}, // the last statement is that of key root
	})
}

// Runs are recorded while the key is rotated, and every checkpoint holds.
func TestRotateWhileRunsAreRecorded(t *testing.T) {
	t.Parallel()
	book := keeping(t, embed.Options{DataDir: t.TempDir()})
	known := map[string]string{"url": book.URL()}
	play(t, known, []step{{args: `run -e 1` + at, stdout: "1\n", stderr: ".*"}})
	known["first"] = book.AuditKey()
	done := make(chan struct{})
	t.Cleanup(func() { <-done }) // before the server is closed
	go func() {
		defer close(done)
		for range 20 {
			if a := daybook("", "run", "-e", "1", "--server", book.URL()); a.status != 0 {
				t.Errorf("a run: %+v", a)
			}
		}
	}()
	for running := true; running; {
		play(t, known, []step{{args: `key rotate` + at, stdout: vkeyPattern + "\n", stderr: "retired .*\n"}})
		select {
		case <-done:
			running = false
		default:
		}
	}
	play(t, known, []step{{args: `verify --server $url --key $first`, stdout: "(?s)INTACT.*"}})
}

// The key of a second server on one outside NATS server is introduced through the commands.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	ns, err := natsd.NewServer(&natsd.Options{Host: "127.0.0.1", Port: natsd.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	nats := embed.NATSOptions{URL: "nats://" + ns.Addr().String()}
	first := keeping(t, embed.Options{DataDir: t.TempDir(), NATS: nats})
	known := map[string]string{"url": first.URL(), "first": first.AuditKey(), "origin": strings.Split(first.AuditKey(), "+")[0]}
	play(t, known, []step{
		{args: `run -e 1` + at, stdout: "1\n", stderr: ".*"},
		{args: `key introduce $first` + at, stdout: "Introduced .*\n"}, // the origin has started
	})
	second := keeping(t, embed.Options{DataDir: t.TempDir(), NATS: nats})
	known["second_url"] = second.URL()
	play(t, known, []step{
		{eventually: true, args: `key list --server $second_url`, stdout: "ROLE +KEY\nthis server, no signer +(?P<second>$origin\\+" + `[0-9a-f]{8}\+[A-Za-z0-9+/=]+` + ")\nsigner +$first\n(?s:.*)"},
		{args: `status --server $second_url`, stdout: "(?s).*\nThis server signs no checkpoints: no statement introduces its key $second; run 'daybook key introduce' on a server that signs\\.\n.*"},
		{args: `key rotate --server $second_url`, status: 2, stderr: "daybook: this server does not sign the ledger.*root key\n"},
		{args: `key introduce $second` + at, stdout: "Introduced $second .*\n"},
		{eventually: true, args: `key list --server $second_url`, stdout: "ROLE +KEY\nsigner +$first\nsigner, this server +$second\n(?s:.*)"},
		{args: `key rotate --server $second_url`, stdout: "(?P<third>" + vkeyPattern + ")\n", stderr: "retired $second\n"},
		{eventually: true, args: `key list` + at, stdout: "ROLE +KEY\nsigner, this server +$first\nsigner +$third\n(?s:.*)"},
		{args: `status --server $second_url`, stdout: "No damage found in the ledger\\.\n(The scrub|Completed) [^\n]*\n"},
		{args: `run -e 2 --server $second_url`, stdout: "2\n", stderr: ".*"},
		{args: `verify --server $url --key $first`, stdout: "(?s)INTACT.*"},
	})
	signed := false
	for deadline := time.Now().Add(patience); !signed && time.Now().Before(deadline); {
		play(t, known, []step{{args: `run -e 1 --server $second_url`, stdout: "1\n", stderr: ".*"}})
		a := daybook("", "events", "tail", "--json", "--no-follow", "--type", string(events.TypeLedgerCheckpointed), "--server", second.URL())
		name, _, _ := strings.Cut(known["third"], "+")
		signed = a.status == 0 && strings.Count(a.stdout, name) > 0
	}
	if !signed {
		t.Error("the second server signs nothing")
	}
}

// A stolen key is retired at the size before the theft, and the ledger continues with another one.
func TestStolenKey(t *testing.T) {
	t.Parallel()
	k := keepingKey(t)
	known := k.known
	known["seen"] = filepath.Join(t.TempDir(), "seen")
	play(t, known, []step{
		{args: `run -e 2` + at, stdout: "2\n", stderr: ".*"},
		{args: `verify --server $url --key $rootkey --log $seen`, stdout: "(?s)INTACT.*"},
		{args: `key new $new` + at, stdout: "(?P<second>" + vkeyPattern + ")\n", stderr: ".*"},
		{args: `key introduce $second --root-key $root` + at, stdout: "Introduced $second .*\n"},
		{args: `key revoke $first --root-key $root --size 5` + at, stdout: "Retired $first .* more than 5 .*\n"},
		{eventually: true, args: `key rotate` + at, status: 5, stderr: "daybook: the ledger cannot be written: .* retires the key of this server, $first, .* put the key of a signer in the place of this one.*\n"},
	})
	k.restart(t, func() {
		if err := os.Rename(known["new"], known["key"]); err != nil {
			t.Fatal(err)
		}
	})
	play(t, known, []step{
		{args: `run -e 3` + at, stdout: "3\n", stderr: ".*"},
		{args: `key list` + at, stdout: "ROLE +KEY\nsigner, this server +$second\n(?s:.*)"},
		{args: `verify --server $url --key $rootkey`, stdout: "(?s)INTACT.*"},
		{args: `verify --server $url --key $first`, stdout: "(?s)INTACT.*"},
		{args: `verify --server $url --log $seen`, stdout: "(?s)INTACT.*"},
		{args: `verify --server $url --log $seen`, stdout: "(?s)INTACT.*"}, // the retirement was kept
		{args: `monitor --server $url --log $seen --once`, stdout: `\S+ INTACT .*`},
	})
	closeServer(t, k.book)
	play(t, known, []step{{args: `verify --data-dir $data --key $rootkey`, stdout: "(?s)INTACT.*"}})
}
