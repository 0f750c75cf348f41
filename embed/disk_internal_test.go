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
	book.disk.SetReserve(1)
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
