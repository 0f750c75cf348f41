package cli_test

import (
	"context"
	"testing"

	"daybook/embed"
)

func TestSessionShred(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	book, err := embed.Start(ctx, embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}, Slots: embed.SlotOptions{Total: 1}, Content: embed.ContentOptions{Erasable: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	play(t, map[string]string{"url": book.URL()}, []step{
		{args: `run -e globalThis.a=1 --session mine` + at, stdout: "1\n", stderr: ".*"},
		{args: `run -e globalThis.a=2 --session yours` + at, stdout: "2\n", stderr: ".*"},
		{args: `session shred unknown` + at, status: 2, stderr: `daybook: Session 'unknown' not found` + "\n"},
		{args: `session shred mine` + at, stdout: `Shredded the content of 1 run and 1 heap on \S+, by event \d+\.` + "\n"},
		{args: `session shred --force --json yours` + at, stdout: `.*"executions": ?1, ?"heaps": ?1, ?"kept": ?0.*` + "\n"},
		{args: `session shred` + at, status: 2, stderr: `daybook: the name of the session is empty.*`},
	})
}
