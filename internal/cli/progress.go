package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// progress shows how far something has come, on a terminal only. It is safe for
// concurrent use.
type progress struct {
	out  io.Writer // nil when nobody watches
	what string

	mu    sync.Mutex
	shown time.Time
}

func newProgress(out io.Writer, what string) *progress {
	p := &progress{what: what}
	if f, ok := out.(*os.File); ok {
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
			p.out = f
		}
	}
	return p
}

// show tells that done of total is done.
func (p *progress) show(done, total uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil || total == 0 || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	fmt.Fprintf(p.out, "\r\x1b[K%s %d of %d events (%d %%)", p.what, done, total, done*100/total)
}

// clear removes what is shown.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out != nil && !p.shown.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
