package blobs

import (
	"fmt"
	"maps"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/spill"
)

// The newest metadata of each blob is listed once, with what is known of earlier ones, also when
// the table is in a file.
func TestMetaTable(t *testing.T) {
	t.Parallel()
	const blobs = 3000
	for _, memory := range []int{metaTableMemory, 4 << 10} {
		table := &metaTable{table: spill.NewTable(metaKeyBytes, metaValueBytes, memory), numbers: map[string]uint32{}}
		defer table.close()
		want := map[string]listedMeta{}
		seq := uint64(0)
		add := func(name string, inline, deleted bool) {
			seq++
			e := blobMeta{seq: seq, at: time.Unix(int64(seq), 5).UTC(), ObjectInfo: natsjs.ObjectInfo{NUID: fmt.Sprint("id-", seq), Deleted: deleted, Chunks: uint32(seq % 7)}}
			e.Name, e.Metadata = name, map[string]string{metaCodec: codecZstd, metaSize: fmt.Sprint(seq)}
			if inline {
				e.Metadata[metaInline] = "AAAA"
			}
			l := listedMeta{name: name, seq: seq, at: e.at, size: int64(seq), deleted: deleted, isInline: inline, chunks: uint64(e.Chunks), isUnreadable: seq%5 == 0, owner: chunkOwnerOf(e.NUID)}
			if deleted {
				e.Metadata, l.size = nil, -1
			}
			if seq%11 == 0 && !deleted {
				e.Metadata[metaDamaged], l.isMarked = "its chunks are missing", true
			}
			if before, ok := want[name]; ok {
				l.replaced, l.replacedInline = before.replaced+1, before.replacedInline || before.isInline
			}
			want[name] = l
			table.add(e, !l.isUnreadable)
		}
		for i := range blobs {
			hash := events.Hash([]byte(fmt.Sprint(i)))
			add("heap/t/"+hash, i%2 == 0, false)
			add("text/t/"+hash, true, false)
			add("heap/u/"+hash, false, false)
			add(baseName(hash), false, false)
			if i%3 == 0 {
				add("heap/t/"+hash, false, i%6 == 0)
				add("text/t/"+hash, false, true)
			}
		}
		add(purgeCounterName, false, false)
		add(purgeCounterName, false, false)
		got := map[string]listedMeta{}
		err := table.each(func(l listedMeta) error {
			if _, ok := got[l.name]; ok {
				t.Errorf("%s is listed twice", l.name)
			}
			got[l.name] = l
			return nil
		})
		if err != nil || !maps.Equal(want, got) {
			t.Errorf("with %d bytes: %d blobs, error %v; want %d, or others", memory, len(got), err, len(want))
		}
		for name, l := range want {
			if found, ok := table.get(name); !ok || found != l {
				t.Fatalf("%s is %+v, %t, want %+v", name, found, ok, l)
			}
		}
		if found, ok := table.get("heap/unknown/" + events.Hash(nil)); ok {
			t.Errorf("a blob that is not in the table: %+v", found)
		}
		owned, err := table.owners()
		if err != nil {
			t.Fatal(err)
		}
		defer owned.Close()
		for name, l := range want {
			if has := owned.Get(l.owner[:]) != nil; has == l.deleted {
				t.Errorf("the chunks of %s belong to a blob: %v, it is deleted: %v", name, has, l.deleted)
			}
		}
	}
}
