package acp_test

import (
	"fmt"
	"os"
	"testing"

	"daybook/embed"
)

// BenchmarkThousandPrompts resumes a session of 1,000 prompts, each with a line of
// output and a result, on a Daybook that syncs to disk.
func BenchmarkThousandPrompts(b *testing.B) {
	book, err := embed.Start(waitContext(b), embed.Options{DataDir: b.TempDir(), Runs: embed.RunOptions{DrainWait: -1}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := book.Close(); err != nil {
			b.Error(err)
		}
	})
	p := connect(b, book).initialize()
	id := p.newSession()
	for i := range 1000 {
		p.prompt(id, fmt.Sprintf("console.log('line %d'); %d", i, i))
	}
	for _, method := range []string{"session/load", "session/resume"} {
		b.Run(method[len("session/"):], func(b *testing.B) {
			for b.Loop() {
				mark := p.mark()
				p.mustCall(method, obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
				b.ReportMetric(float64(len(p.messagesSince(mark))), "messages/op")
			}
		})
	}
	b.Run("prompt", func(b *testing.B) {
		for b.Loop() {
			p.prompt(id, "1")
		}
	})
}
