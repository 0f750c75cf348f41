package embed

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A server that started on a full disk stores the base heap once there is space, without a
// restart. From then on heaps take little space.
func TestBaseHeapIsStoredLater(t *testing.T) {
	t.Parallel()
	book, err := Start(t.Context(), Options{DataDir: t.TempDir(), Resources: ResourceOptions{DiskReserve: 1 << 50}, NATS: NATSOptions{NoSync: true}, Runs: RunOptions{DrainWait: -1}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := book.Close(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := book.nats.Conn("test")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := js.ObjectStore(t.Context(), "BLOBS")
	if err != nil {
		t.Fatal(err)
	}
	sizes := func(prefix string) (list []uint64) {
		infos, err := blobs.List(t.Context())
		if err != nil && !strings.Contains(err.Error(), "no objects found") {
			t.Fatal(err)
		}
		for _, info := range infos {
			if strings.HasPrefix(info.Name, prefix) {
				list = append(list, info.Size)
			}
		}
		return list
	}
	if base := sizes("base/"); len(base) != 0 {
		t.Errorf("a full disk took base heaps of %d bytes", base)
	}
	book.disk.mu.Lock()
	book.disk.reserve, book.disk.floor, book.disk.looked = 1, 1, time.Time{}
	book.disk.low, book.disk.out = false, false
	book.disk.mu.Unlock()
	late := time.Now().Add(40 * time.Second)
	for len(sizes("base/")) == 0 {
		if time.Now().After(late) {
			t.Fatal("the base heap is not stored")
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := book.Run(t.Context(), Script{Code: "var kept = 1"}); err != nil {
		t.Fatal(err)
	}
	if heaps := sizes("heap/"); len(heaps) != 1 || heaps[0] > 64<<10 {
		t.Errorf("the heap of a run takes %d bytes", heaps)
	}
}

// The error about a low disk never prints a reserve that is below the free space.
func TestLowDiskNamesSizesThatDiffer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		k     *disk
		words string
	}{
		{&disk{size: 24 << 20, reserve: 24 << 20 / 20, free: 1100 << 10}, "too little of the disk is free: 1 MiB, and the reserve is 2 MiB (--disk-reserve); free some space: with 2 MiB free"},
		{&disk{size: 1 << 40, reserve: 256 << 20, free: 256<<20 - 1}, "too little of the disk is free: 255 MiB, and the reserve is 256 MiB (--disk-reserve); free some space: with 288 MiB free"},
	} {
		if err := test.k.reason(); !strings.Contains(err.Error(), test.words) {
			t.Errorf("%v: want %q", err, test.words)
		}
	}
}
