package events_test

import (
	"testing"
	"time"

	"daybook/events"
)

// benchmarkEvents returns a small event, a larger one, and a chunk of output.
func benchmarkEvents() map[string]events.Event {
	lines := make([]events.Line, 100)
	for i := range lines {
		lines[i] = events.Line{Text: "line of output with a few words in it", TimeMillis: 1795253401125}
	}
	list := map[string]events.Event{}
	for name, d := range map[string]events.Data{
		"small":  &events.WebhookDeleted{WebhookID: webhook, Actor: client},
		"medium": &events.ExecutionRequested{ExecutionID: execution, Pool: "default", Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1 + 1"}}), Actor: client},
		"output": &events.ExecutionOutput{ExecutionID: execution, Attempt: 1, FirstLine: 1, Content: events.Plain(events.OutputContent{Lines: lines})},
	} {
		list[name] = events.New(events.DefaultTenant, time.UnixMilli(1795253401125), d)
	}
	return list
}

func BenchmarkEncode(b *testing.B) {
	for name, e := range benchmarkEvents() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := events.Encode(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, e := range benchmarkEvents() {
		m, err := events.Encode(e)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := events.Decode(1, m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
