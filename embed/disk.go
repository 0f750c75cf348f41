package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"daybook/events"
	"daybook/internal/resources/exhausted"
)

const (
	// mostReserve is the largest default of the reserve of disk space, in bytes. The
	// default is also at most 1/reservePart of the file system.
	mostReserve = 256 << 20
	reservePart = 20
	// Below 1/floorPart of the reserve, nothing is recorded. That space is left for
	// files that must be written even then: the projections, the hashes and the files
	// of the embedded server.
	floorPart = 4
	// The ballast is a file that only a start deletes: it gives a start on a full disk
	// some space. A running server keeps it, because the program that fills the disk
	// would use that space too. Its size is 1/ballastPart of the reserve, from
	// leastBallast to mostBallast.
	ballastName               = "ballast"
	leastBallast, mostBallast = 1 << 20, 4 << 20
	ballastPart               = 16
	// diskEvery is the interval of checks of the disk while nothing is written.
	// diskFresh is the maximum age of the known free space when something is written.
	diskEvery = time.Second
	diskFresh = 20 * time.Millisecond
	// diskUnseen is the number of bytes that may be written until the disk is checked
	// again.
	diskUnseen = 1 << 20
	// emptyLogEvery is the interval at which the log of the projections is emptied
	// while space is short.
	emptyLogEvery = 10 * time.Second
	// probeBytes is the size of a test write that shows whether writes work again.
	probeBytes = 256 << 10
)

// disk watches the free space of the data directory. It is safe for concurrent use.
type disk struct {
	dir            string
	size           int64 // of the file system, at the start
	reserve, floor int64
	ballast        int64

	mu     sync.Mutex
	looked time.Time
	free   int64
	unseen int64 // bytes written, or about to be, since looked
	reads  bool  // the free space is being read
	low    bool  // below the reserve
	out    bool  // below the floor
}

// openDisk checks the disk before anything else is opened, and frees space if there is
// none.
func (d *Daybook) openDisk(ctx context.Context) error {
	size, free, err := diskSpace(d.opts.DataDir)
	if err != nil {
		return fmt.Errorf("read the free space of %s: %w", d.opts.DataDir, err)
	}
	k := &disk{dir: d.opts.DataDir, size: size, reserve: d.opts.Resources.DiskReserve}
	switch {
	case k.reserve < 0:
		return nil
	case k.reserve == 0:
		k.reserve = min(mostReserve, size/reservePart)
	}
	k.floor = k.reserve / floorPart
	k.ballast = min(max(k.reserve/ballastPart, leastBallast), mostBallast)
	d.disk = k
	_ = k.isLow() // reads the free space, which isOut and keepBallast use
	if k.isOut() != nil && k.dropBallast() {
		d.opts.Logger.WarnContext(ctx, "too little of the disk is free; the file that keeps space for this start was deleted", "file", ballastName, "free_bytes", free)
	}
	return k.keepBallast()
}

// diskSpace returns the size of the file system of a directory and the free space that
// this process may use, in bytes.
func diskSpace(dir string) (size, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	return int64(st.Blocks) * st.Bsize, int64(blocks) * st.Bsize, nil
}

// refresh reads the free space, unless it was read within diskFresh and little was
// written since. Once the free space was below a limit, it counts as below until it is an
// eighth above the limit. A file system can be slow to answer, so concurrent callers use
// the former value meanwhile. The caller MUST hold mu, which is released while the free
// space is read.
func (k *disk) refresh() {
	if !k.reads && (time.Since(k.looked) >= diskFresh || k.unseen >= diskUnseen) {
		before := k.unseen
		k.reads = true
		k.mu.Unlock()
		_, free, err := diskSpace(k.dir)
		k.mu.Lock()
		k.reads = false
		if err == nil { // after an error the former value is the best one
			k.looked, k.free, k.unseen = time.Now(), free, k.unseen-before
		}
	}
	left := k.free - k.unseen
	passed := func(limit int64, was bool) bool { return left < limit || was && left < limit+limit/8 }
	k.low, k.out = passed(k.reserve, k.low), passed(k.floor, k.out)
}

// addWritten counts bytes that are written to the disk, because the next reading of the
// free space may miss them. A nil disk counts nothing.
func (k *disk) addWritten(bytes int) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unseen += int64(bytes)
}

// isLow returns the reason why no new run is accepted or started, or nil. A nil disk
// always has space.
func (k *disk) isLow() error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refresh(); !k.low {
		return nil
	}
	return k.reason()
}

// isOut returns the reason why nothing is recorded, or nil.
func (k *disk) isOut() error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refresh(); !k.out {
		return nil
	}
	return k.reason()
}

// reason returns the error for free space below a limit. The caller MUST hold mu.
func (k *disk) reason() error {
	what := fmt.Sprintf("free some space: with %d MiB free the server takes writes again automatically; what was acknowledged is safe", ceilMiB(k.reserve+k.reserve/8))
	if k.reserve > k.size-k.size/reservePart {
		what = fmt.Sprintf("the whole disk has %d MiB: start the server with a smaller --disk-reserve, such as --disk-reserve 256", k.size>>20)
	}
	return &events.UnwritableError{
		What:   "the ledger",
		Reason: fmt.Sprintf("too little of the disk is free: %d MiB, and the reserve is %d MiB (--disk-reserve); %s", k.free>>20, ceilMiB(k.reserve), what),
		Passes: true,
	}
}

// ceilMiB returns bytes in MiB, rounded up. Messages round a reserve up and free space
// down, so free space below the reserve is never printed as more than the reserve.
func ceilMiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// keepBallast creates the ballast if it does not exist and there is plenty of space.
func (k *disk) keepBallast() error {
	k.mu.Lock()
	plenty := k.free > k.reserve+2*k.ballast
	k.mu.Unlock()
	path := filepath.Join(k.dir, ballastName)
	if info, err := os.Stat(path); !plenty || err == nil && info.Size() == k.ballast {
		return nil
	}
	err := makeBallast(path, k.ballast)
	if exhausted.Is(err) {
		return ignoreMissing(os.Remove(path)) // it is created again later
	}
	if err != nil {
		return fmt.Errorf("keep space on the disk in %s: %w", path, err)
	}
	return nil
}

func makeBallast(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = f.Write(make([]byte, size))
	}
	return errors.Join(err, f.Close())
}

// dropBallast deletes the ballast and reports whether it existed.
func (k *disk) dropBallast() bool {
	return os.Remove(filepath.Join(k.dir, ballastName)) == nil
}

// probe writes a file as the embedded server would, deletes it, and returns the error.
func (k *disk) probe() error {
	path := filepath.Join(k.dir, "probe")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(path))
}

// watchDisk logs when space runs out and when space is free again. If writes of the
// embedded server failed for lack of a resource, it restarts that server. While space is
// free, it creates a missing ballast and stores a base heap that the start could not
// store. While space is short, it empties the log of the projections. With an outside
// server it does nothing.
func (d *Daybook) watchDisk(ctx context.Context) error {
	if d.nats == nil {
		return nil
	}
	d.watchingDisk = startTask(ctx, func(ctx context.Context) {
		wasLow, failed := false, false
		var emptied time.Time
		tick := time.NewTicker(diskEvery)
		defer tick.Stop()
		for first := true; ; first = false {
			writable := d.nats.Writable()
			select {
			case <-deliverNow(first):
			case <-tick.C:
			case <-channelUnless(failed, writable.Done()):
			case <-ctx.Done():
				return
			}
			low := d.disk.isLow()
			if (low != nil) != wasLow {
				if wasLow = low != nil; wasLow {
					d.opts.Logger.WarnContext(ctx, "no new runs are accepted", "err", low)
				} else {
					d.opts.Logger.WarnContext(ctx, "there is space on the disk again: new runs are accepted")
				}
			}
			if low == nil && !failed {
				d.storeBaseHeap(ctx)
			}
			if d.disk != nil {
				if low != nil && time.Since(emptied) >= emptyLogEvery {
					emptied = time.Now()
					if err := d.projections.TruncateLog(ctx); err != nil {
						d.opts.Logger.DebugContext(ctx, "the log of the projections cannot be emptied", "err", err)
					}
				}
				if low == nil {
					if err := d.disk.keepBallast(); err != nil {
						d.opts.Logger.WarnContext(ctx, "the next start on a full disk may fail", "err", err)
					}
				}
			}
			if failed = writable.Err() != nil; failed && d.reopen(ctx, context.Cause(writable)) {
				failed = false
			}
		}
	})
	return nil
}

// storeBaseHeap stores the base heap if a start on a full disk could not store it. Until
// then heaps are stored complete.
func (d *Daybook) storeBaseHeap(ctx context.Context) {
	if d.baseHeapOf == "" {
		return
	}
	switch err := d.setBaseHeap(ctx, d.baseHeapOf); {
	case err == nil:
		d.baseHeapOf = ""
	case !isTransient(err) && ctx.Err() == nil:
		d.opts.Logger.WarnContext(ctx, "the base heap cannot be stored; heaps are stored complete until the next start", "err", err)
		d.baseHeapOf = ""
	}
}

// deliverNow returns a closed channel, or nil.
func deliverNow(deliver bool) <-chan struct{} {
	if !deliver {
		return nil
	}
	c := make(chan struct{})
	close(c)
	return c
}

// Unwritable returns the reason why nothing can be recorded now, or nil. Damage is
// permanent; a full disk is not.
func (d *Daybook) Unwritable() error {
	return cmp.Or(d.damage.ReadOnly(), d.disk.isLow(), d.store.Unwritable())
}

// channelUnless returns c, or nil if not is set. A nil channel never delivers.
func channelUnless(not bool, c <-chan struct{}) <-chan struct{} {
	if not {
		return nil
	}
	return c
}

// reopen restarts the embedded server if its writes failed for lack of a resource that
// is available again. It reports whether it restarted the server.
func (d *Daybook) reopen(ctx context.Context, cause error) bool {
	_, passes := exhausted.Of(cause)
	if !passes {
		_, passes = exhausted.In(cause.Error())
	}
	probing := d.disk
	if probing == nil {
		probing = &disk{dir: d.opts.DataDir}
	}
	if !passes || d.disk.isOut() != nil || exhausted.Descriptors() != nil || probing.probe() != nil {
		return false
	}
	if err := d.nats.Reopen(ctx); err != nil {
		d.opts.Logger.ErrorContext(ctx, "the ledger cannot be opened for writing again yet; the server tries again", slog.Any("error", err))
		return false
	}
	// Health returns an error until the ledger is usable, and events.ErrDamaged if an
	// acknowledged event is missing.
	for err := d.store.Health(ctx); err != nil; err = d.store.Health(ctx) {
		if errors.Is(err, events.ErrDamaged) || d.nats.Writable().Err() != nil || d.disk.isOut() != nil {
			d.opts.Logger.ErrorContext(ctx, "the ledger was opened for writing again and has failed", slog.Any("error", err))
			return true
		}
		select {
		case <-time.After(50 * time.Millisecond): // the connections are being restored
		case <-ctx.Done():
			return true
		}
	}
	d.opts.Logger.WarnContext(ctx, "the ledger takes writes again", slog.Any("after", cause))
	return true
}

// diskMetrics sends the metrics of disk space.
func (c *collector) diskMetrics(out chan<- prometheus.Metric) {
	if c.d.disk == nil {
		return
	}
	if _, free, err := diskSpace(c.d.disk.dir); err == nil {
		out <- prometheus.MustNewConstMetric(desc("disk_free_bytes", "Free space on the disk of the data directory."), prometheus.GaugeValue, float64(free))
	}
	out <- prometheus.MustNewConstMetric(desc("disk_reserve_bytes", "Space that is kept free: below it no new run is accepted."), prometheus.GaugeValue, float64(c.d.disk.reserve))
}
