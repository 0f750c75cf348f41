package cli_test

import (
	"context"
	"testing"

	"daybook/embed"
)

// Heaps of this test are too new for every retention rule.
func TestHeapCollect(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	book, err := embed.Start(ctx, embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}, Slots: embed.SlotOptions{Total: 1}, Content: embed.ContentOptions{HeapRetention: 1 << 50}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	play(t, map[string]string{"url": book.URL()}, []step{
		{args: `run -e 1` + at, stdout: "1\n", stderr: ".*"},
		{args: `heap collect --dry-run --older-than 1h --keep-entries 0` + at,
			stdout: "Would collect 0 of 1 heap, 0 bytes before compression; 0 orphans; 0 removals of an earlier pass finished.\n"},
		{args: `heap collect --json` + at, stdout: `.*"heaps": ?1, ?"collected": ?0.*` + "\n"},
		{args: `heap collect --older-than 59m` + at, status: 2, stderr: "daybook: --older-than is 59m0s: it must be 1h0m0s or more.*\n"},
	})
}
