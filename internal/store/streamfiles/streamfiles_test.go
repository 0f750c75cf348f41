package streamfiles_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/spans"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/streamfiles"
)

const ledger = "LEDGER-0001"

// count is the number of events in a store and bodySize their size in bytes: enough for
// three blocks of 8 MiB.
const (
	count    = 90
	bodySize = 200_000
)

// written creates a directory that a server wrote and closed.
func written(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	store := storetest.Open(t, server, jetstream.Options{})
	for i := range count {
		e := events.New(events.DefaultTenant, time.Now(), &events.HeapTagged{
			Heap:    events.Hash([]byte{byte(i)}),
			Content: events.Plain(events.TagContent{Tags: map[string]string{"n": strings.Repeat("x", bodySize)}}),
		})
		if _, err := store.Append(t.Context(), e, -1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.PutText(t.Context(), events.DefaultTenant, []byte("a text")); err != nil {
		t.Fatal(err)
	}
	server.Close()
	return dir
}

func block(dir string, n string) string {
	return filepath.Join(dir, "jetstream", "$G", "streams", ledger, "msgs", n+".blk")
}

func check(t testing.TB, dir string, opts streamfiles.Options) map[string]streamfiles.Stream {
	t.Helper()
	list, err := streamfiles.Check(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]streamfiles.Stream{}
	for _, s := range list {
		byName[s.Name] = s
	}
	return byName
}

// edit changes a file.
func edit(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(raw), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// third returns the offset of the third record of a block.
func third(raw []byte) int {
	at := 0
	for range 2 {
		at += int(binary.LittleEndian.Uint32(raw[at:]) &^ (1 << 31))
	}
	return at
}

func TestCheckAndSalvage(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow under the race detector: twelve servers start, and one goroutine does all else")
	}
	t.Parallel()
	for name, test := range map[string]struct {
		damage func(t *testing.T, dir string)
		// lost are the positions that cannot be read; all others must be in the salvage
		// copy. ends is the last position.
		lost   []spans.Span
		ends   uint64
		faults []string
	}{
		"nothing": {func(*testing.T, string) {}, nil, count, nil},
		"no index": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(filepath.Dir(block(dir, "1")), "index.db")); err != nil {
				t.Fatal(err)
			}
		}, nil, count, nil},
		"a bit of a body": {func(t *testing.T, dir string) {
			edit(t, block(dir, "1"), func(raw []byte) []byte { raw[third(raw)+1000] ^= 4; return raw })
		}, []spans.Span{{From: 3, To: 3}}, count, []string{"checksum"}},
		"a position": {func(t *testing.T, dir string) {
			edit(t, block(dir, "1"), func(raw []byte) []byte { raw[third(raw)+9] ^= 64; return raw })
		}, []spans.Span{{From: 3, To: 3}}, count, []string{"checksum"}},
		"a length": {func(t *testing.T, dir string) {
			edit(t, block(dir, "1"), func(raw []byte) []byte { raw[third(raw)+1] ^= 1; return raw })
		}, []spans.Span{{From: 3, To: 3}}, count, []string{"checksum"}},
		"the length of a header": {func(t *testing.T, dir string) {
			edit(t, block(dir, "1"), func(raw []byte) []byte {
				at := third(raw)
				raw[at+22+int(binary.LittleEndian.Uint16(raw[at+20:]))] ^= 1
				return raw
			})
		}, []spans.Span{{From: 3, To: 3}}, count, []string{"length of a header"}},
		"a removed block": {func(t *testing.T, dir string) {
			if err := os.Remove(block(dir, "2")); err != nil {
				t.Fatal(err)
			}
		}, []spans.Span{{From: 42, To: 82}}, count, nil},
		"the end": {func(t *testing.T, dir string) {
			edit(t, block(dir, "3"), func(raw []byte) []byte { return raw[:len(raw)-10] })
		}, nil, count - 1, []string{"cut short"}},
		"the description": {func(t *testing.T, dir string) {
			edit(t, filepath.Join(filepath.Dir(block(dir, "")), "..", "meta.inf"), func(raw []byte) []byte { raw[20] ^= 1; return raw })
		}, nil, count, []string{"configuration"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, kept := written(t), t.TempDir()
			if err := streamfiles.BackupStreamConfigs(dir, kept); err != nil {
				t.Fatal(err)
			}
			test.damage(t, dir)
			before := contents(t, dir)
			got := check(t, dir, streamfiles.Options{})[ledger]
			if diff := cmp.Diff(test.lost, got.Gaps); diff != "" || got.First != 1 || got.Last != test.ends {
				t.Errorf("positions %d to %d without (-want +got):\n%s", got.First, got.Last, diff)
			}
			if len(got.Faults) != len(test.faults) {
				t.Fatalf("faults: %v, want %q", got.Faults, test.faults)
			}
			for i, f := range got.Faults {
				if !strings.Contains(f.String(), test.faults[i]) {
					t.Errorf("fault %d is %s, want %q", i, f, test.faults[i])
				}
				if f.IsTorn != (name == "the end") {
					t.Errorf("%s: at the end is %t", f, f.IsTorn)
				}
			}

			into := filepath.Join(t.TempDir(), "sound")
			if err := streamfiles.Salvage(t.Context(), dir, into, kept, streamfiles.SalvageOptions{}); err != nil {
				t.Fatal(err)
			}
			again := check(t, into, streamfiles.Options{})[ledger]
			if diff := cmp.Diff(test.lost, again.Gaps); diff != "" || len(again.Faults) != 0 || again.Last != test.ends {
				t.Errorf("the salvaged files end at %d with the faults %v, and without (-want +got):\n%s", again.Last, again.Faults, diff)
			}
			// The server finds the same content, and does not change the first directory.
			server := storetest.StartServer(t, into)
			lost := test.lost != nil
			if store := openStore(t, server); (store == nil) != lost {
				t.Errorf("the salvaged streams open: %t", store != nil)
			} else if store != nil {
				if _, err := store.Append(t.Context(), events.New(events.DefaultTenant, time.Now(), &events.HeapTagged{Heap: events.Hash(nil), Content: events.Plain(events.TagContent{})}), -1); err != nil {
					t.Error(err)
				}
			}
			server.Close()
			if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
				t.Errorf("files that must not change (-before +after):\n%s", diff)
			}
		})
	}
}

// openStore opens the ledger. It returns nil if the ledger is damaged.
func openStore(t *testing.T, server interface {
	Conn(string) (*jet.Conn, error)
}) *jetstream.Store {
	t.Helper()
	conn, err := server.Conn("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	store, err := jetstream.Open(t.Context(), conn, conn, jetstream.Options{Client: jet.Options{ReadExisting: true, Logger: storetest.Logger(t)}})
	if err != nil {
		return nil
	}
	return store
}

// contents returns the hashes of all files.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		all[path] = events.Hash(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Old blocks can be skipped.
func TestOnlyTheNewest(t *testing.T) {
	t.Parallel()
	dir := written(t)
	edit(t, block(dir, "1"), func(raw []byte) []byte { raw[1000] ^= 1; return raw })
	var paced int64
	s := check(t, dir, streamfiles.Options{Newest: 10 << 20, Pace: func(_ context.Context, n int64) error { paced += n; return nil }})
	l := s[ledger]
	if l.Blocks != 3 || l.Skipped != 1 || len(l.Faults) != 0 || l.Last != count || l.First != 42 {
		t.Errorf("read from %d to %d, %d of %d blocks skipped, %v", l.First, l.Last, l.Skipped, l.Blocks, l.Faults)
	}
	if want := l.Bytes + s["OBJ_BLOBS"].Bytes; paced != want {
		t.Errorf("paced %d bytes of %d", paced, want)
	}
}

// A message that is not what was recorded keeps its position, which is not assigned
// again.
func TestInvalidRecordKeepsItsPosition(t *testing.T) {
	t.Parallel()
	s := check(t, written(t), streamfiles.Options{IsValid: func(_ string, r streamfiles.Record) bool { return r.Seq <= count-2 }})[ledger]
	if s.Last != count-2 || s.Highest != count || len(s.Faults) != 2 {
		t.Errorf("sound up to %d, and %d is the highest position of %d with %d faults", s.Last, s.Highest, count, len(s.Faults))
	}
	if first, second := s.Faults[0], s.Faults[1]; first.File == second.File && first.Offset >= second.Offset {
		t.Errorf("the faults are at bytes %d and %d of %s", first.Offset, second.Offset, first.File)
	}
}

// A server writes the configuration of a volume and its checksum one after the other. While it runs,
// that they do not match is damage only if they still do not once the change is completed.
func TestConfigurationThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	dir, _, _ := sealedOnce(t)
	sum := filepath.Join(streamDir(dir, second), "meta.sum")
	complete, err := os.ReadFile(sum)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		settle func() error
		there  bool
		faults int
	}{
		{"it stays", func() error { return nil }, true, 1},
		{"completed", func() error { return os.WriteFile(sum, complete, 0o600) }, true, 0},
		{"removed", func() error { return os.RemoveAll(streamDir(dir, second)) }, false, 0},
	} {
		write(t, sum, "0123456789abcdef")
		settled := 0
		streams := check(t, dir, streamfiles.Options{SkipNewest: true, Settle: func(context.Context) error { settled++; return tt.settle() }})
		s, there := streams[second]
		if there != tt.there || len(s.Faults) != tt.faults || there && s.HasConfig != (tt.faults == 0) || settled != 1 || len(streams[ledger].Faults) != 0 {
			t.Errorf("%s: %+v, settled %d times", tt.name, s, settled)
		}
	}
}

// The first message is returned, because it may be the reason why a volume begins where
// it does.
func TestOpening(t *testing.T) {
	t.Parallel()
	o := check(t, written(t), streamfiles.Options{})[ledger].Opening
	if o.Seq != 1 || !strings.HasPrefix(string(o.Subject), "ledger.0001.") || !bytes.HasPrefix(o.Header, []byte("NATS/1.0")) || len(o.Body) < bodySize {
		t.Errorf("the first message is at %d under %s", o.Seq, o.Subject)
	}
}

func BenchmarkCheck(b *testing.B) {
	dir := written(b)
	var n int64
	for b.Loop() {
		n = check(b, dir, streamfiles.Options{})[ledger].Bytes
	}
	b.SetBytes(n)
}
