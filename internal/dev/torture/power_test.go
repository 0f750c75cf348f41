package torture_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"daybook/internal/dev/tier"
)

var powerCuts = flag.Int("power-cuts", tier.Choose(1, 2), "how often to cut the power of the disk")

// The shutdown of a file system without a flush of its journal simulates a power cut on a
// machine that continues to run: data that was not synced is lost, and later writes fail.
// It is the ioctl EXT4_IOC_SHUTDOWN of ext4 with EXT4_GOING_FLAGS_NOLOGFLUSH.
const (
	ext4Shutdown   = 0x8004587d
	withoutFlush   = 2
	diskBytes      = 1 << 30
	diskFileSystem = "ext4"
)

// TestPowerCut cuts the power of the disk under a loaded server at random times, from its
// first start on, and checks what TestKill checks. It needs root to mount a file system.
func TestPowerCut(t *testing.T) {
	d := newDisk(t)
	setSeed()
	t.Logf("%d power cuts, -seed=%d", *powerCuts, *seed)
	random := rand.New(rand.NewPCG(*seed, 2))
	s := newServer(t)
	s.dir = filepath.Join(d.dir, "data")
	s.flags = append(s.flags, "--seal-executions", "20") // starts seal volumes, and archive them under the load
	t.Cleanup(s.kill)                                    // runs before the cleanup that unmounts the disk
	p := newPromises()
	for n := range *powerCuts {
		d.mount()
		s.start()
		if n == 0 {
			p.makeHeaps(t, s)
		}
		p.round(s, random, func() {
			p.mu.Lock()
			p.began = time.Now()
			p.mu.Unlock()
			d.cut()
			p.mu.Lock()
			p.done = time.Now()
			p.mu.Unlock()
			// The server continues for a time on a disk that accepts no writes.
			time.Sleep(time.Duration(random.Int64N(int64(50 * time.Millisecond))))
			s.kill()
		})
		d.unmount()
		p.began, p.done = time.Time{}, time.Time{}
	}
	d.mount()
	s.start()
	p.settle(t, s)
	p.check(t, s)
	volumes, archives := s.volumes()
	t.Logf("%d volumes, %d of them archives", volumes, archives)
	s.kill()
	out, err := exec.Command(s.bin, "verify", "--data-dir", s.dir, "--key", filepath.Join(s.dir, "audit", "vkey")).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 8 {
		err = nil // INTACT UP TO n: the last events before the kill are not signed
	}
	if err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
	t.Logf("%d power cuts: %d executions, %d cancels and %d tag edits were acknowledged", *powerCuts, len(p.accepted), len(p.cancelled), len(p.edits))
}

// disk is a file system on a loop device.
type disk struct {
	t          *testing.T
	image, dir string
	mounted    bool
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount the file system whose power is cut")
	}
	d := &disk{t: t, image: filepath.Join(t.TempDir(), "image"), dir: filepath.Join(t.TempDir(), "disk")}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, diskBytes); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs."+diskFileSystem, "-q", d.image).CombinedOutput(); err != nil {
		t.Skipf("no file system can be created here: %v\n%s", err, out)
	}
	if out, err := d.tryMount(); err != nil {
		t.Skipf("no loop device can be mounted here: %v\n%s", err, out)
	}
	t.Cleanup(d.unmount)
	d.unmount()
	return d
}

func (d *disk) tryMount() ([]byte, error) {
	out, err := exec.Command("mount", "-t", diskFileSystem, "-o", "loop", d.image, d.dir).CombinedOutput()
	d.mounted = err == nil
	return out, err
}

// mount mounts the file system, which recovers from its journal.
func (d *disk) mount() {
	d.t.Helper()
	if out, err := d.tryMount(); err != nil {
		d.t.Fatalf("mount: %v\n%s", err, out)
	}
}

func (d *disk) unmount() {
	d.t.Helper()
	if !d.mounted {
		return
	}
	// A killed process may take a short time to close its files.
	deadline := time.Now().Add(30 * time.Second)
	for {
		out, err := exec.Command("umount", d.dir).CombinedOutput()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("unmount: %v\n%s", err, out)
		}
		time.Sleep(10 * time.Millisecond) // polling the kernel
	}
	d.mounted = false
	// Workers have their own mount namespaces and take a short time to end. Until then
	// the file system stays mounted, and the next mount would get the file system that
	// was shut down, without a recovery from its journal.
	for {
		out, err := exec.Command("losetup", "--associated", d.image).CombinedOutput()
		if err != nil {
			d.t.Fatalf("list loop devices: %v\n%s", err, out)
		}
		if len(bytes.TrimSpace(out)) == 0 {
			return
		}
		time.Sleep(time.Millisecond) // polling the kernel
	}
}

// cut shuts the file system down: data that was not synced is lost, and writes fail.
func (d *disk) cut() {
	d.t.Helper()
	f, err := os.Open(d.dir)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), ext4Shutdown, withoutFlush)
		f.Close()
	}
	if err != nil {
		d.t.Error(fmt.Errorf("cut the power: %w", err))
	}
}
