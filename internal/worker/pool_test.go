package worker_test

import (
	"context"
	"testing"
	"time"

	"daybook/internal/worker"
)

func TestRunEndToEnd(t *testing.T) {
	p := worker.New(worker.Options{})
	defer p.Close()
	var got []worker.Line
	o, err := p.Run(t.Context(), worker.Task{Tenant: "t", Code: []byte("console.log('hi', [1]); const x: number = 1; x+1"), Stateful: true,
		HeapLimitBytes: 64 << 20, ArrayBufferLimitBytes: 64 << 20, Timeout: 5 * time.Second, Start: time.Unix(1700000000, 0)},
		func(_ context.Context, l []worker.Line) error { got = append(got, l...); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if o.Result == nil || *o.Result != "2" {
		t.Fatalf("%+v", o)
	}
	l, err := p.Layers(t.Context())
	t.Log(len(o.Heap), got, o.WallTime, o.CPUTime, o.PeakHeapBytes, l, err)
}
