package v8_test

import (
	"bytes"
	"testing"
	"time"

	"daybook/internal/exec/v8"
)

// A prewarmed isolate gives the same results as one that is created for its run.
func TestAssign(t *testing.T) {
	cfg := v8.Config{HeapLimit: 64 << 20, Seed: [16]byte{1, 2, 3}, Start: time.UnixMilli(1_700_000_000_000)}
	const script = "globalThis.kept = [Math.random(), Date.now(), crypto.randomUUID()]; kept.join()"
	life := func(make func() (*v8.Isolate, error)) (string, []byte) {
		t.Helper()
		i, err := make()
		if err != nil {
			t.Fatal(err)
		}
		defer i.Dispose()
		r, err := i.Run(v8.Script{Source: []byte(script)})
		if err != nil || r.Status != v8.Completed {
			t.Fatalf("%+v, %v", r, err)
		}
		blob, err := i.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return *r.Text, bytes.Clone(blob)
	}
	text, blob := life(func() (*v8.Isolate, error) { return v8.New(cfg) })
	text2, blob2 := life(func() (*v8.Isolate, error) {
		i, err := v8.New(v8.Config{HeapLimit: cfg.HeapLimit, Seed: [16]byte{9}, Start: time.UnixMilli(1)})
		if err != nil {
			return nil, err
		}
		return i, i.Assign(cfg)
	})
	if text != text2 {
		t.Errorf("results differ: %s and %s", text, text2)
	}
	if !bytes.Equal(blob, blob2) {
		t.Error("heaps differ")
	}
}
