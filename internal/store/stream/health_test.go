package stream_test

import (
	"testing"

	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// Readiness is requested often and by clients without a token.
func TestHealthDoesNotGrowWithVolumes(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	requests := func() uint64 {
		t.Helper()
		before := stream.Received(s.Ledger)
		if err := s.Health(t.Context()); err != nil {
			t.Fatal(err)
		}
		return stream.Received(s.Ledger) - before
	}
	fill(t, s, 1)
	few := requests()
	fill(t, s, 5)
	if many := requests(); many != few {
		t.Errorf("%d answers with two volumes, %d with seven", few, many)
	}
	before := stream.Received(s.Ledger)
	if err := s.HealthOfAll(t.Context()); err != nil || stream.Received(s.Ledger)-before != few+5 {
		t.Errorf("HealthOfAll needs %d answers, want %d; %v", stream.Received(s.Ledger)-before, few+5, err)
	}
	// Each stream is queried in turn.
	stream.DeleteStream(t, s.Ledger, "LEDGER-0003")
	if err := s.HealthOfAll(t.Context()); err == nil {
		t.Error("HealthOfAll misses no stream")
	}
	for n := 1; s.Health(t.Context()) == nil; n++ {
		if n == 6 {
			t.Fatal("none of six calls has queried the missing stream")
		}
	}
	for range 6 {
		if err := s.Health(t.Context()); err == nil {
			t.Error("a call after the one that missed a stream misses none")
		}
	}
}
