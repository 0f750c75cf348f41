package torture_test

import (
	"bytes"
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

// Shutting a file system down without flushing its journal is the nearest a
// machine comes to losing its power and living on: what was not synced is gone,
// and nothing can be written afterwards (ext4's EXT4_IOC_SHUTDOWN, the flag is
// EXT4_GOING_FLAGS_NOLOGFLUSH).
const (
	ext4Shutdown   = 0x8004587d
	withoutFlush   = 2
	diskBytes      = 1 << 30
	diskFileSystem = "ext4"
)

// TestPowerCut cuts the power of the disk under a loaded server at random
// moments, from its very first start on, and checks what TestKill does. It needs
// root, for a file system of its own.
func TestPowerCut(t *testing.T) {
	d := newDisk(t)
	setSeed()
	t.Logf("%d power cuts, -seed=%d", *powerCuts, *seed)
	random := rand.New(rand.NewPCG(*seed, 2))
	s := newServer(t)
	s.dir = filepath.Join(d.dir, "data")
	t.Cleanup(s.kill) // before the disk is unmounted: last in, first out
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
			// The server lives on over a disk that takes nothing more.
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
	s.kill()
	if out, err := exec.Command(s.bin, "verify", "--data-dir", s.dir).CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
	t.Logf("%d power cuts: %d executions, %d cancels and %d tag edits were acknowledged", *powerCuts, len(p.accepted), len(p.cancelled), len(p.edits))
}

// disk is a file system of its own on a loop device.
type disk struct {
	t          *testing.T
	image, dir string
	mounted    bool
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system to cut the power of")
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
		t.Skipf("no file system can be made here: %v\n%s", err, out)
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

// mount has the file system recover from its journal, as after a cut.
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
	// A process that was killed may take a moment to let go of its files.
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
	// Workers have mount namespaces of their own, and take a moment to be gone.
	// Until then the file system lives, and would be found dead by the next mount.
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

// cut takes the disk away: nothing more reaches it, and what had not is gone.
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
