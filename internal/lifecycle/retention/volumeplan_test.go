package retention_test

import (
	"context"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/ledger"
)

// BenchmarkRemoveVolume plans and performs the removal of a volume of 100,000 events of
// 20,000 runs. One run in a hundred is kept.
func BenchmarkRemoveVolume(b *testing.B) {
	for range b.N {
		b.StopTimer()
		store := storetest.Start(b)
		at := time.Now()
		add := func(d events.Data) {
			if _, err := store.Append(b.Context(), events.New("default", at, d), ledger.AnyPosition); err != nil {
				b.Fatal(err)
			}
		}
		var facts retention.VolumeFacts
		for n := range 20_000 {
			id := events.NewID(at)
			add(&events.ExecutionRequested{ExecutionID: id, Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "console.log(1)"}})})
			add(&events.ExecutionStarted{ExecutionID: id, Attempt: 1, FirstLine: 1})
			for range 2 {
				add(&events.ExecutionOutput{ExecutionID: id, Attempt: 1, FirstLine: 1, Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: "a line of output"}}})})
			}
			add(events.NewEnding(events.StatusCompleted, events.Ending{ExecutionID: id, Attempt: 1, Heap: &events.HeapRecord{SHA256: events.Hash([]byte(id)), Size: 1}}))
			if n%100 == 0 {
				facts.FirstProducers = append(facts.FirstProducers, retention.ExecutionKey{Tenant: "default", ExecutionID: id})
			}
		}
		v, err := store.Rotate(b.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Close: func(_ context.Context, last uint64) (*events.ClosingCheckpoint, error) {
			return &events.ClosingCheckpoint{Size: last}, nil
		}})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		plan, err := retention.PlanVolume(b.Context(), store, v.Last, facts)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := store.Remove(b.Context(), stream.RemoveOptions{Volume: 1, Keep: plan.Keep}); err != nil {
			b.Fatal(err)
		}
		if plan.Kept != 200 || len(plan.Keep) != 1000 {
			b.Fatalf("%d runs and %d events are kept", plan.Kept, len(plan.Keep))
		}
	}
}
