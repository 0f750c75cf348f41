package v8_test

import (
	"testing"
	"time"

	"daybook/internal/v8"
)

func TestFirst(t *testing.T) {
	i, err := v8.New(v8.Config{HeapLimit: 64 << 20, Start: time.Unix(1700000000, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Dispose()
	r, err := i.Run([]byte("1+1"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Text == nil || *r.Text != "2" {
		t.Fatalf("%+v %v", r, r.Text)
	}
	b, err := i.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(len(b))
}
