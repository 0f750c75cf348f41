package jetstream_test

import (
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/stream"
)

func output(id string, line int64) events.Event {
	return events.New(tenant, time.Now(), &events.ExecutionOutput{ExecutionID: id, Attempt: 1, FirstLine: line})
}

func seal(t testing.TB, s *jetstream.Store) events.VolumeInfo {
	t.Helper()
	v, err := s.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Actor: testActor})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var testActor = events.Actor{Principal: "tester", Transport: "embed"}
