package embed

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/archive"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/internal/store/streamfiles"
)

// storedParts stores the parts of an archive in the stream of archives.
type storedParts struct {
	js     natsjs.JetStream
	volume events.Volume
}

func (p storedParts) Put(ctx context.Context, name string, part []byte) error {
	_, err := p.js.Publish(ctx, "archive."+p.volume.Stream()[len("LEDGER-"):]+"."+name, part)
	return err
}

func (storedParts) Get(context.Context, string) ([]byte, error) { return nil, events.ErrNotFound }

// writtenArchives returns a directory with the archives of two volumes of 40 events each, in several blocks.
func writtenArchives(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	conn, err := server.Conn("archives")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: stream.ArchiveStream, Subjects: []string{"archive.>"}, Storage: natsjs.FileStorage}); err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{})
	for v := events.Volume(1); v <= 2; v++ {
		first := uint64(v)*40 - 39
		parts := storedParts{js, v}
		w := archive.NewWriter(parts, archive.Info{Volume: v, First: first, Last: first + 39, Began: time.Now(), Ended: time.Now()})
		defer w.Close()
		for at := first; at < first+40; at++ {
			body := make([]byte, 300<<10)
			_, _ = random.Read(body)
			if err := w.Add(t.Context(), events.Stored{Seq: at, Subject: "ledger.0001.t.exec.a", Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		m, err := w.Finish(t.Context())
		if err == nil {
			err = archive.Commit(t.Context(), parts, m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	server.Close()
	return dir
}

// What is recorded of archives holds only while all blocks of them are the recorded ones: a block with a
// fault is not among those, and may hold archives.
func TestRecordedArchivesAndOtherBlocks(t *testing.T) {
	t.Parallel()
	dir := writtenArchives(t)
	check := func(c checkedFiles) (checkedFiles, map[string]streamfiles.Stream) {
		t.Helper()
		seen := newFileScan()
		list, err := c.check(t.Context(), dir, streamfiles.Options{}, seen)
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]streamfiles.Stream{}
		for _, s := range list {
			byName[s.Name] = s
		}
		return c.next(list, seen), byName
	}
	complete := func(when string, found map[string]streamfiles.Stream) {
		t.Helper()
		for v, first := range map[events.Volume]uint64{1: 1, 2: 41} {
			if s := found[v.Stream()]; s.First != first || s.Last != first+39 || len(s.Gaps) > 0 || len(s.Faults) > 0 {
				t.Errorf("%s, volume %d has positions %d to %d with gaps %v and faults %v", when, v, s.First, s.Last, s.Gaps, s.Faults)
			}
		}
	}
	full, found := check(checkedFiles{})
	complete("at first", found)
	if again, found := check(full); len(again.Archives) != 2 || found[stream.ArchiveStream].Bytes != 0 {
		t.Errorf("%d archives are recorded after %d bytes were read", len(again.Archives), found[stream.ArchiveStream].Bytes)
	} else {
		complete("with the record", found)
	}

	last := filepath.Join(dir, "jetstream", "$G", "streams", stream.ArchiveStream, "msgs")
	blocks, err := filepath.Glob(filepath.Join(last, "*.blk"))
	if err != nil || len(blocks) < 3 {
		t.Fatalf("blocks %v, %v", blocks, err)
	}
	last = blocks[len(blocks)-1]

	// A kill leaves a part of a message at the end of the newest block. The record is from before that block.
	raw, err := os.ReadFile(last)
	if err == nil {
		err = os.WriteFile(last, append(raw, raw[:100]...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	older := checkedFiles{Blocks: streamfiles.Checked{stream.ArchiveStream: {}}, Archives: full.Archives[:1]}
	for name, b := range full.Blocks[stream.ArchiveStream] {
		if name != filepath.Base(last) {
			older.Blocks[stream.ArchiveStream][name] = b
		}
	}
	torn, found := check(older)
	complete("with a torn end", found)
	if len(torn.Blocks[stream.ArchiveStream]) > 0 || len(torn.Archives) > 0 {
		t.Errorf("archives in a block with a fault are recorded: %v", torn.Archives)
	}

	if err := os.Remove(last); err != nil {
		t.Fatal(err)
	}
	_, found = check(torn)
	if s := found[events.Volume(1).Stream()]; len(s.Gaps)+len(s.Faults) > 0 {
		t.Errorf("without the last block, volume 1 has gaps %v and faults %v", s.Gaps, s.Faults)
	}
	if s := found[events.Volume(2).Stream()]; len(s.Faults) == 0 {
		t.Errorf("without the last block, volume 2 has positions %d to %d, gaps %v and no fault", s.First, s.Last, s.Gaps)
	}
}
