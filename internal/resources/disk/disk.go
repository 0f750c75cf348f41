// Package disk decides whether the disk of a data directory has enough free space for new
// runs, and for anything at all. It keeps a file that gives a start on a full disk some
// space. Only package embed uses it.
package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"daybook/events"
	"daybook/internal/resources/exhausted"
)

// BallastName is the name of the ballast in the data directory. The ballast is a file whose
// space a start on a full disk can use: that start deletes the ballast. A server that runs
// when the disk becomes full keeps it, because the program that fills the disk would use that
// space too.
const BallastName = "ballast"

const (
	// mostReserve is the largest default of the reserve of disk space, in bytes. The
	// default is also at most 1/reservePart of the file system.
	mostReserve = 256 << 20
	reservePart = 20
	// Below 1/floorPart of the reserve, nothing is recorded. That space is left for
	// files that must be written even then: the projections, the hashes and the files
	// of the embedded server.
	floorPart = 4
	// The size of the ballast is 1/ballastPart of the reserve, from leastBallast to
	// mostBallast.
	leastBallast, mostBallast = 1 << 20, 4 << 20
	ballastPart               = 16
	// fresh is the time for which Low and Out use the free space that was read last.
	fresh = 20 * time.Millisecond
	// mostUnseen is the number of written bytes after which Low and Out read the free space
	// again, also within fresh.
	mostUnseen = 1 << 20
	// probeBytes is the size of a test write that shows whether writes work again.
	probeBytes = 256 << 10
)

// Space watches the free space of the data directory. It is safe for concurrent use.
type Space struct {
	dir     string
	size    int64 // of the file system, at the start
	ballast int64

	mu             sync.Mutex
	reserve, floor int64
	looked         time.Time
	free           int64
	unseen         int64 // bytes written, or about to be, since looked
	reads          bool  // the free space is being read
	low            bool  // below the reserve
	out            bool  // below the floor
}

// Open returns the Space of a data directory. reserve is in bytes: 0 selects the default,
// and for a negative reserve Open returns nil, which always has space.
func Open(dir string, reserve int64) (*Space, error) {
	size, _, err := spaceOf(dir)
	if err != nil {
		return nil, fmt.Errorf("read the free space of %s: %w", dir, err)
	}
	if reserve < 0 {
		return nil, nil
	}
	if reserve == 0 {
		reserve = min(mostReserve, size/reservePart)
	}
	s := &Space{dir: dir, size: size, ballast: min(max(reserve/ballastPart, leastBallast), mostBallast)}
	s.SetReserve(reserve)
	_ = s.Low() // reads the free space, which KeepBallast uses
	return s, nil
}

// SetReserve changes the reserve, in bytes. The next call of Low or Out reads the free space.
// The size of the ballast stays.
func (s *Space) SetReserve(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserve, s.floor = bytes, bytes/floorPart
	s.looked, s.low, s.out = time.Time{}, false, false
}

// Reserve returns the reserve in bytes.
func (s *Space) Reserve() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserve
}

// Free reads the free space of the disk, in bytes.
func (s *Space) Free() (int64, error) {
	_, free, err := spaceOf(s.dir)
	return free, err
}

// spaceOf returns the size of the file system of a directory and the free space that
// this process may use, in bytes.
func spaceOf(dir string) (size, free int64, err error) {
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

// refresh decides whether the free space is below the limits. It first reads the free space
// if the last reading is older than fresh, or if mostUnseen bytes were written since. Once
// the free space was below a limit, it counts as below until it is an eighth above the
// limit. A file system can be slow to answer, so concurrent callers use the former value
// meanwhile. The caller MUST hold mu, which is released while the free space is read.
func (s *Space) refresh() {
	if !s.reads && (time.Since(s.looked) >= fresh || s.unseen >= mostUnseen) {
		before := s.unseen
		s.reads = true
		s.mu.Unlock()
		_, free, err := spaceOf(s.dir)
		s.mu.Lock()
		s.reads = false
		if err == nil { // after an error the former value is the best one
			s.looked, s.free, s.unseen = time.Now(), free, s.unseen-before
		}
	}
	left := s.left()
	passed := func(limit int64, was bool) bool { return left < limit || was && left < limit+limit/8 }
	s.low, s.out = passed(s.reserve, s.low), passed(s.floor, s.out)
}

// left returns the known free space without the bytes that were written since. The caller
// MUST hold mu.
func (s *Space) left() int64 { return s.free - s.unseen }

// AddWritten counts bytes that are about to be written to the disk. They are subtracted from
// the known free space until a reading that starts after the call. A nil Space counts nothing.
func (s *Space) AddWritten(bytes int) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen += int64(bytes)
}

// Low returns the reason why no new run is accepted or started, or nil. A nil Space
// always has space.
func (s *Space) Low() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refresh(); !s.low {
		return nil
	}
	return s.reason()
}

// Out returns the reason why nothing is recorded, or nil.
func (s *Space) Out() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refresh(); !s.out {
		return nil
	}
	return s.reason()
}

// reason returns the error for free space below a limit. The caller MUST hold mu.
func (s *Space) reason() error {
	what := fmt.Sprintf("free some space: with %d MiB free the server takes writes again automatically; what was acknowledged is safe", ceilMiB(s.reserve+s.reserve/8))
	if s.reserve > s.size-s.size/reservePart {
		what = fmt.Sprintf("the whole disk has %d MiB: start the server with a smaller --disk-reserve, such as --disk-reserve 256", s.size>>20)
	}
	left := s.left()
	limit := "the reserve is %d MiB"
	if left >= s.reserve {
		limit = "before there was less than the reserve of %d MiB"
	}
	return &events.UnwritableError{
		What:   "the ledger",
		Reason: fmt.Sprintf("too little of the disk is free: %d MiB, and "+limit+" (--disk-reserve); %s", max(left, 0)>>20, ceilMiB(s.reserve), what),
		Passes: true,
	}
}

// ceilMiB returns bytes in MiB, rounded up. Messages round limits up and free space down, so
// that free space below a limit is never printed as more than the limit.
func ceilMiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// KeepBallast creates the ballast, with its full size, if there is plenty of space and no
// ballast of that size. If the space runs out meanwhile, it deletes the ballast; the next
// call tries again.
func (s *Space) KeepBallast() error {
	s.mu.Lock()
	plenty := s.free > s.reserve+2*s.ballast
	s.mu.Unlock()
	path := filepath.Join(s.dir, BallastName)
	if info, err := os.Stat(path); !plenty || err == nil && info.Size() == s.ballast {
		return nil
	}
	err := makeBallast(path, s.ballast)
	if exhausted.Is(err) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil // the next call tries again
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

// DropBallast deletes the ballast and reports whether it did.
func (s *Space) DropBallast() bool {
	return os.Remove(filepath.Join(s.dir, BallastName)) == nil
}

// Probe writes a file in a directory as the embedded server would, deletes it, and returns
// the error.
func Probe(dir string) error {
	path := filepath.Join(dir, "probe")
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
