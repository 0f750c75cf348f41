package natsserver_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// TestFullDiskAtANewBlock: if the disk has no space for the first message of a block,
// the message takes no position once the streams are opened again.
func TestFullDiskAtANewBlock(t *testing.T) {
	const patience = 2 * time.Minute
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("a full disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	server := listening(t, dir)
	store := storetest.Open(t, server, jetstream.Options{Client: jet.Options{Writable: server.Writable}, OnVolumeOpened: server.ExposeStream})
	record(t, store, 3)
	conn, err := server.Conn("test")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	publish := func(within time.Duration) error {
		_, err := conn.RequestMsg(&nats.Msg{Subject: "ledger.0001.default.out.x", Data: []byte(strings.Repeat("x", 100<<10))}, within)
		return err
	}
	const block = 8 << 20
	first := filepath.Join(dir, "jetstream/$G/streams/LEDGER-0001/msgs/1.blk")
	for {
		info, err := os.Stat(first)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > block-110<<10 {
			break
		}
		if err := publish(patience); err != nil {
			t.Fatal(err)
		}
	}
	last, err := store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, disk.Bavail*uint64(disk.Bsize)), 0o600); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := publish(100 * time.Millisecond); err == nil {
		t.Fatal("a full disk takes a message")
	}
	select {
	case <-server.Writable().Done():
	case <-time.After(patience):
		t.Fatal("the server does not notice the full disk")
	}
	if info, err := os.Stat(filepath.Join(filepath.Dir(first), "2.blk")); err != nil || info.Size() > 0 {
		t.Fatalf("the new block: %+v, %v", info, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := server.Reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); store.Health(t.Context()) != nil && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	seq, err := store.Append(t.Context(), requested(), 0)
	if err != nil || seq != last+1 {
		t.Errorf("after event %d the next one is event %d, %v", last, seq, err)
	}
}
