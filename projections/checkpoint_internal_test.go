package projections

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
)

// Pages move from the log to the file without a commit that does it.
func TestCheckpointsAreApartFromCommits(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "projections.db")})
	if err != nil {
		t.Fatal(err)
	}
	const size = 4 << 10
	var list feed
	for i := range 2 * checkpointPages / firstPages {
		list = append(list, events.Event{
			Seq: uint64(i + 1), ID: fmt.Sprint(i), Type: events.TypeExecutionRequested, Tenant: events.DefaultTenant, Time: time.Now(),
			Data: &events.ExecutionRequested{ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool,
				Content: events.Plain(events.RequestedContent{Source: events.Body{Text: strings.Repeat("x", size)}})},
		})
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, list) }()
	for {
		info, err := os.Stat(s.opts.Path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() >= checkpointPages/firstPages*size {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the file has %d bytes after %d events", info.Size(), s.Stats().Events)
		}
		time.Sleep(time.Millisecond) // polls the file
	}
	stop()
	<-ended
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
