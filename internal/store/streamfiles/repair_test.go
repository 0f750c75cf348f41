package streamfiles_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/queue"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/internal/store/streamfiles"
)

const (
	second   = "LEDGER-0002"
	upcoming = "LEDGER-0003"
	blobs    = "OBJ_BLOBS"
)

// streamDir returns the directory of a stream.
func streamDir(dir, name string) string {
	return filepath.Join(dir, "jetstream", "$G", "streams", name)
}

// sealedOnce creates a directory with a sealed volume, an active one, a blob and a
// consumer in each volume. It returns the directory, the copies of the configurations
// and the last position.
func sealedOnce(t *testing.T) (dir, kept string, last uint64) {
	t.Helper()
	dir, kept = t.TempDir(), t.TempDir()
	server := storetest.StartServer(t, dir)
	var keeping sync.Mutex
	keep := func() error {
		keeping.Lock()
		defer keeping.Unlock()
		return streamfiles.BackupStreamConfigs(dir, kept)
	}
	store := storetest.Open(t, server, jetstream.Options{Client: jet.Options{Sync: keep}})
	ctx := t.Context()
	appendTo(t, store)
	if _, err := store.PutText(ctx, events.DefaultTenant, []byte("a text")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Rotate(ctx, stream.RotateOptions{Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	last = appendTo(t, store)
	if err := store.PrepareWork(ctx, events.DefaultPool, events.DefaultTenant); err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{ledger, second} {
		await(t, filepath.Join(streamDir(dir, v), "obs", queue.WorkConsumer(events.DefaultPool, events.DefaultTenant), "meta.sum"))
	}
	server.Close()
	return dir, kept, last
}

// appendTo appends a run request, which creates the consumer of its tenant, and another
// event. It returns the position of the latter.
func appendTo(t *testing.T, store *jetstream.Store) (seq uint64) {
	t.Helper()
	request := &events.ExecutionRequested{
		ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool,
		Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1"}}),
	}
	if _, err := store.Append(t.Context(), events.New(events.DefaultTenant, time.Now(), request), 0); err != nil {
		t.Fatal(err)
	}
	e := events.New(events.DefaultTenant, time.Now(), &events.HeapTagged{Heap: events.Hash(nil), Content: events.Plain(events.TagContent{})})
	seq, err := store.Append(t.Context(), e, -1)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// await waits until a file exists.
func await(t *testing.T, path string) {
	t.Helper()
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(late) {
			t.Fatal("there is no", path)
		}
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.RemoveAll(p); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A server that is killed at any moment leaves files from which the next one can
// continue, and no event is lost. A state that no crash can leave is not changed.
func TestRepair(t *testing.T) {
	t.Parallel()
	origin, keptOrigin, last := sealedOnce(t)
	empty := func([]byte) []byte { return nil }
	half := func(raw []byte) []byte { return raw[:len(raw)/2] }
	file := func(dir, name, file string) string { return filepath.Join(streamDir(dir, name), file) }
	seal := func(raw []byte) []byte {
		return bytes.Replace(raw, []byte(`"sealed":false`), []byte(`"sealed":true`), 1)
	}
	consumer := func(dir, file string) string {
		return filepath.Join(streamDir(dir, second), "obs", queue.WorkConsumer(events.DefaultPool, events.DefaultTenant), file)
	}
	for name, test := range map[string]struct {
		leave func(t *testing.T, dir, kept string)
		// want are the repairs, in order. damaged reports whether the configuration stays a
		// fault.
		want    []string
		damaged bool
	}{
		"nothing":        {func(*testing.T, string, string) {}, nil, false},
		"no copies":      {func(t *testing.T, _, kept string) { remove(t, kept) }, nil, false},
		"no index":       {func(t *testing.T, dir, _ string) { remove(t, file(dir, second, "msgs/index.db")) }, nil, false},
		"leftover files": {func(t *testing.T, dir, _ string) { write(t, file(dir, second, "meta.inf.tmp"), `{"na`) }, nil, false},
		"a stream on its way out": {func(t *testing.T, dir, _ string) {
			write(t, file(dir, ".LEDGER-0000", "msgs/1.blk"), "anything")
		}, nil, false},
		"no checksums": {func(t *testing.T, dir, _ string) {
			remove(t, file(dir, ledger, "meta.sum"), file(dir, second, "meta.sum"), file(dir, blobs, "meta.sum"))
		}, []string{"checksum", "checksum", "checksum"}, false},
		"empty checksum":  {func(t *testing.T, dir, _ string) { edit(t, file(dir, second, "meta.sum"), empty) }, []string{"checksum"}, false},
		"half a checksum": {func(t *testing.T, dir, _ string) { edit(t, file(dir, blobs, "meta.sum"), half) }, []string{"checksum"}, false},
		"no description":  {func(t *testing.T, dir, _ string) { remove(t, file(dir, second, "meta.inf")) }, []string{"restored"}, false},
		"empty descriptions": {func(t *testing.T, dir, _ string) {
			edit(t, file(dir, ledger, "meta.inf"), empty)
			edit(t, file(dir, blobs, "meta.inf"), empty)
		}, []string{"restored", "restored"}, false},
		"half a description": {func(t *testing.T, dir, _ string) { edit(t, file(dir, second, "meta.inf"), half) }, []string{"restored"}, false},
		"neither": {func(t *testing.T, dir, _ string) {
			remove(t, file(dir, second, "meta.inf"), file(dir, second, "meta.sum"))
		}, []string{"restored"}, false},
		"half a description, and none": {func(t *testing.T, dir, _ string) {
			edit(t, file(dir, second, "meta.inf"), half)
			remove(t, file(dir, second, "meta.sum"))
		}, []string{"restored"}, false},
		"sealing cut short": {func(t *testing.T, dir, _ string) { edit(t, file(dir, second, "meta.inf"), seal) }, []string{"restored"}, false},
		"sealing cut short, and no copies": {func(t *testing.T, dir, kept string) {
			edit(t, file(dir, second, "meta.inf"), seal)
			remove(t, kept)
		}, []string{"restored"}, false},
		"sealed, copied before": {func(t *testing.T, dir, kept string) {
			edit(t, filepath.Join(kept, ledger, "meta.inf"), func(raw []byte) []byte {
				return bytes.Replace(raw, []byte(`"sealed":true`), []byte(`"sealed":false`), 1)
			})
			edit(t, file(dir, ledger, "meta.sum"), empty)
			remove(t, filepath.Join(kept, ledger, "meta.sum"))
		}, nil, true}, // no crash truncates both a copy and a checksum
		"copying cut short": {func(t *testing.T, dir, kept string) {
			remove(t, filepath.Join(kept, second, "meta.sum"))
			edit(t, file(dir, second, "meta.inf"), empty)
		}, []string{"restored"}, false},
		"a bit of a description": {func(t *testing.T, dir, _ string) {
			edit(t, file(dir, second, "meta.inf"), func(raw []byte) []byte { raw[bytes.Index(raw, []byte("ledger."))] ^= 1; return raw })
		}, nil, true},
		"a bit of a checksum": {func(t *testing.T, dir, _ string) {
			edit(t, file(dir, second, "meta.sum"), func(raw []byte) []byte { raw[3] ^= 1; return raw })
		}, nil, true},
		"no checksum, and no copies": {func(t *testing.T, dir, kept string) {
			remove(t, file(dir, second, "meta.sum"), kept)
		}, nil, true},
		"a consumer without a checksum":        {func(t *testing.T, dir, _ string) { remove(t, consumer(dir, "meta.sum")) }, []string{"consumer's"}, false},
		"a consumer with half a description":   {func(t *testing.T, dir, _ string) { edit(t, consumer(dir, "meta.inf"), half) }, []string{"consumer's"}, false},
		"a consumer with an empty description": {func(t *testing.T, dir, _ string) { edit(t, consumer(dir, "meta.inf"), empty) }, []string{"consumer's"}, false},
		"a consumer without a description":     {func(t *testing.T, dir, _ string) { remove(t, consumer(dir, "meta.inf")) }, nil, false},
		"an empty consumer": {func(t *testing.T, dir, _ string) {
			remove(t, consumer(dir, ""))
			write(t, consumer(dir, "meta.inf.tmp"), "{")
		}, []string{"consumer was not"}, false},
		"the next volume, its directory only":   {func(t *testing.T, dir, _ string) { write(t, file(dir, upcoming, "_test_1"), "") }, []string{"removed"}, false},
		"the next volume, half a description":   {func(t *testing.T, dir, _ string) { write(t, file(dir, upcoming, "meta.inf"), `{"name":`) }, []string{"removed"}, false},
		"the next volume, an empty description": {func(t *testing.T, dir, _ string) { write(t, file(dir, upcoming, "meta.inf"), "") }, []string{"removed"}, false},
		"the next volume, no checksum": {func(t *testing.T, dir, _ string) {
			write(t, file(dir, upcoming, "meta.inf"), `{"name":"LEDGER-0003","first_seq":9}`)
		}, []string{"removed"}, false},
		"the next volume, an empty checksum": {func(t *testing.T, dir, _ string) {
			write(t, file(dir, upcoming, "meta.inf"), `{"name":"LEDGER-0003","first_seq":9}`)
			write(t, file(dir, upcoming, "meta.sum"), "")
		}, []string{"removed"}, false},
		"the next volume, with something in it": {func(t *testing.T, dir, _ string) {
			write(t, file(dir, upcoming, "meta.inf"), `{"name":"LEDGER-0003","first_seq":9}`)
			write(t, file(dir, upcoming, "msgs/1.blk"), "something that may have been an event")
		}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, kept := t.TempDir(), t.TempDir()
			for from, into := range map[string]string{origin: dir, keptOrigin: kept} {
				if err := os.CopyFS(into, os.DirFS(from)); err != nil {
					t.Fatal(err)
				}
			}
			test.leave(t, dir, kept)
			repaired, err := streamfiles.Repair(t.Context(), dir, kept)
			if err != nil || len(repaired) != len(test.want) {
				t.Fatalf("the repairs are %+v, %v; want %q", repaired, err, test.want)
			}
			for i, r := range repaired {
				if !strings.Contains(r.What, test.want[i]) {
					t.Errorf("repair %d is %+v, want %q", i, r, test.want[i])
				}
			}
			faults := 0
			for _, s := range check(t, dir, streamfiles.Options{}) {
				faults += len(s.Faults)
			}
			if (faults > 0) != test.damaged {
				t.Fatalf("%d faults are left", faults)
			}
			if test.damaged {
				return
			}
			for range 2 { // the files that the server writes are complete too
				server := storetest.StartServer(t, dir)
				store := storetest.Open(t, server, jetstream.Options{})
				if at, err := store.LastSeq(t.Context()); err != nil || at != last {
					t.Errorf("the ledger ends at %d, not %d, %v", at, last, err)
				}
				if text, err := store.Text(t.Context(), events.DefaultTenant, events.Hash([]byte("a text"))); err != nil || string(text) != "a text" {
					t.Errorf("the text is %q, %v", text, err)
				}
				if list, err := store.Volumes(t.Context()); err != nil || len(list) != 2 || !list[0].Sealed || list[1].Sealed {
					t.Errorf("the volumes are %+v, %v", list, err)
				}
				if err := store.PrepareWork(t.Context(), events.DefaultPool, events.DefaultTenant); err != nil {
					t.Error(err)
				}
				await(t, consumer(dir, "meta.sum"))
				server.Close()
				again, err := streamfiles.Repair(t.Context(), dir, kept)
				if err != nil || len(again) != 0 {
					t.Errorf("after the server ran there are repairs: %+v, %v", again, err)
				}
			}
		})
	}
}

// Nothing is left of a ledger whose creation was interrupted, and it is created again.
func TestRepairCreation(t *testing.T) {
	t.Parallel()
	for _, name := range []string{ledger, blobs} {
		for _, left := range []map[string]string{
			{"_test_1": ""},
			{"msgs/index.db": "", "obs/x": ""},
			{"meta.inf.tmp": "{"},
			{"meta.inf": ""},
			{"meta.inf": `{"name":"`},
			{"meta.inf": `{"name":"` + name + `"}`},
			{"meta.inf": `{"name":"` + name + `"}`, "meta.sum.tmp": "00"},
			{"meta.inf": `{"name":"` + name + `"}`, "meta.sum": ""},
		} {
			dir := t.TempDir()
			for file, content := range left {
				write(t, filepath.Join(streamDir(dir, name), file), content)
			}
			repaired, err := streamfiles.Repair(t.Context(), dir, t.TempDir())
			if err != nil || len(repaired) != 1 || repaired[0].Stream != name {
				t.Errorf("%s with %v: the repairs are %+v, %v", name, left, repaired, err)
			}
			if _, err := os.Stat(streamDir(dir, name)); !os.IsNotExist(err) {
				t.Errorf("%s with %v is still there, %v", name, left, err)
			}
		}
	}
}
