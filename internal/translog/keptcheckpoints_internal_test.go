package translog

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Reading the checkpoints of a directory takes no more memory if they are more, and if a person shuffled them.
func TestMemoryOfKeptCheckpoints(t *testing.T) { // not in parallel: it measures the heap
	const n = 100_000
	for name, order := range map[string][]int{"in order": nil, "shuffled": rand.New(rand.NewPCG(1, 2)).Perm(n)} {
		dir := t.TempDir()
		for i, file := range []string{"checkpoints.000001", "checkpoints.000002", "checkpoints"} {
			f, err := os.Create(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			out := bufio.NewWriter(f)
			for at := i * n / 3; at < (i+1)*n/3; at++ {
				size := at
				if order != nil {
					size = order[at]
				}
				fmt.Fprintf(out, "daybook/x\n%d\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u2014 daybook/x AAAAAAAA\n\n", size)
			}
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before, most, next := heap(), uint64(0), uint64(0)
		for c, err := range Dir(dir).Checkpoints() {
			if err != nil || c.Size != next {
				t.Fatalf("%s: the checkpoint of %d events is followed by one of %d, %v", name, next, c.Size, err)
			}
			if next++; next%(n/4) == 0 {
				most = max(most, heap()-min(heap(), before))
			}
		}
		if next != n || most > 2*placesInMemory {
			t.Errorf("%s: %d checkpoints of %d, in %d bytes of memory", name, next, n, most)
		}
	}
}
