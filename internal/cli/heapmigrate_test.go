package cli_test

import (
	"context"
	"testing"

	"daybook/embed"
	"daybook/internal/exec/worker"
)

// Heaps of an earlier version are migrated on request, with their tags where that is asked for.
func TestHeapMigrate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve := func(prelude string) (at string, stop func()) {
		t.Helper()
		ctx, end := context.WithTimeout(context.Background(), patience)
		defer end()
		book, err := embed.Start(worker.WithPrelude(ctx, prelude), embed.Options{
			DataDir: dir, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}, Slots: embed.SlotOptions{Total: 2},
		})
		if err != nil {
			t.Fatal(err)
		}
		stop = func() {
			if err := book.Close(); err != nil {
				t.Error(err)
			}
		}
		t.Cleanup(stop)
		return " --server " + book.URL(), stop
	}
	known := map[string]string{}
	left := func(name string) string {
		return "(?s:.*)heap: +(?P<" + name + ">[0-9a-f]{64})\n"
	}
	at, stop := serve("Math.cbrt = () => 3;")
	play(t, known, []step{
		{args: `run --tag kind=good -e var·n·=·1` + at, stderr: left("good")},
		{args: `run --tag kind=next --heap $good -e n·+=·1` + at, stdout: "2\n", stderr: left("next")},
		{args: `run --tag kind=bad -e var·root·=·Math.cbrt(8);console.log(root)` + at, stdout: "3\n(?s:.*)", stderr: left("bad")},
		{args: `run --session daily -e var·day·=·7` + at, stderr: left("daily")},
		{args: `heap migrate $good` + at, stdout: "$good  unchanged: the engine of the server made it\n"},
		{eventually: true, args: `session list` + at, stdout: "(?s:.*)daily(?s:.*)"},
	})
	stop()

	at, _ = serve("")
	play(t, known, []step{
		{args: `heap migrate --all-tagged` + at, status: 1, stdout: "$good  migrated to (?P<newgood>[0-9a-f]{64}), with 1 replay in .*\n(?s:.*)$bad  different: execution \\S+, output, line 1\n  recorded  3\n  replayed  2\n3 heaps: 2 migrated, 1 not migrated\n"},
		{args: `heap migrate --all-tagged --session-heads --parallel 3` + at, status: 1, stdout: "(?s:.*)4 heaps: 3 migrated, 1 not migrated\n"},
		{args: `heap tags $good` + at, stdout: "kind=good\n"},
		{args: `heap migrate $good --retag` + at, stdout: "$good  migrated to $newgood before; moved 1 tag\n"},
		{args: `heap migrate $good --retag` + at, stdout: "$good  migrated to $newgood before\n"},
		{eventually: true, args: `heap tags $newgood` + at, stdout: "kind=good\n"},
		{args: `heap tags $good` + at, stdout: ""},
		{args: `heap migrate $newgood --json` + at, stdout: `\{"heap":"$newgood","verdict":"unchanged",.*\}` + "\n"},
		{args: `run --heap $next -e n` + at, stdout: "2\n", stderr: "(?s:.*)"},
		{args: `run --session daily --continue -e day·+·1` + at, stdout: "8\n", stderr: "(?s:.*)"},
		{args: `exec show @last` + at, stdout: "(?s:.*)started attempt 1, from heap [0-9a-f]{12}, a migration of heap [0-9a-f]{12}\n(?s:.*)"},
		{args: `events tail --no-follow --type daybook.heap.migrated.v1` + at, stdout: "(?s:.*)heap.migrated +\\S+ migrated, by anonymous over http: to heap [0-9a-f]{12}, with 1 replay\n(?s:.*)different, by anonymous over http: execution \\S+, output, line 1\n(?s:.*)"},
		{args: `run --heap $bad -e root` + at, status: 2, stderr: "(?s:.*)cannot be migrated: the replay of execution \\S+ by this engine differs from the record: output, line 1; recorded \"3\", replayed \"2\"(?s:.*)"},
		{args: `heap migrate` + at, status: 2, stderr: "daybook: .*name the heaps to migrate.*\n(?s:.*)"},
		{args: `heap migrate $good --all-tagged` + at, status: 2, stderr: "daybook: .*not both.*\n(?s:.*)"},
		{args: `heap migrate 0000000000000000000000000000000000000000000000000000000000000000` + at, status: 2, stderr: "daybook: .*\n"},
		{args: `heap migrate $good --parallel 0` + at, status: 2, stderr: "daybook: .*--parallel is 0.*\n(?s:.*)"},
	})
}
