package archive_test

import (
	"fmt"
	"testing"
)

// BenchmarkUnknown measures a lookup of a subject that is not in an archive.
func BenchmarkUnknown(b *testing.B) {
	parts, _ := write(b, history(3000))
	r := open(b, parts)
	subjects := make([]string, 1000)
	for i := range subjects {
		subjects[i] = fmt.Sprintf("ledger.0007.t.exec.unknown-%d", i)
	}
	i := 0
	for b.Loop() {
		i++
		if list, _, err := r.Next(b.Context(), subjects[i%len(subjects)], 0, 1, 0); err != nil || len(list) > 0 {
			b.Fatal(list, err)
		}
	}
}

// BenchmarkKnown measures a lookup of an execution of an archive whose frames are in the cache or not.
func BenchmarkKnown(b *testing.B) {
	parts, _ := write(b, history(3000))
	r := open(b, parts)
	i := 0
	for b.Loop() {
		i += 7
		if _, err := r.Last(b.Context(), fmt.Sprintf("ledger.0007.t.exec.id-%d", i%3000)); err != nil {
			b.Fatal(err)
		}
	}
}
