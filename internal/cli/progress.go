package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// progress shows how much of a task is done, and how long the rest will take, on
// a terminal only. It is safe for concurrent use.
type progress struct {
	out  *screen // nil where nothing is shown
	what string
	unit string // what is counted
	now  func() time.Time

	mu    sync.Mutex
	began time.Time // of the first report, which may come late
	first uint64    // what was done then
	shown time.Time
}

func newProgress(out *screen, what string) *progress {
	p := &progress{what: what, unit: "events", now: time.Now}
	if out.terminal {
		p.out = out
	}
	return p
}

const (
	// progressPause is the least time between two reports.
	progressPause = 100 * time.Millisecond
	// estimateAfter is how long a task runs before the rest is estimated.
	estimateAfter = 2 * time.Second
	barWidth      = 20
)

// show reports that done of total are done.
func (p *progress) show(done, total uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.began.IsZero() {
		p.began, p.first = now, done
	}
	if p.out == nil || total == 0 || now.Sub(p.shown) < progressPause {
		return
	}
	p.shown = now
	done = min(done, total)
	filled := int(done * barWidth / total)
	line := fmt.Sprintf("%s [%s%s] %d of %d %s, %d %%%s", p.what, strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), done, total, p.unit, done*100/total, p.rest(now, done, total))
	p.out.printf("\r\x1b[K%s", cut(p.out, line, 1))
}

// rest estimates the time that is left from the speed so far, or is empty.
func (p *progress) rest(now time.Time, done, total uint64) string {
	elapsed := now.Sub(p.began)
	if elapsed < estimateAfter || done <= p.first || done == total {
		return ""
	}
	left := time.Duration(float64(elapsed) * float64(total-done) / float64(done-p.first))
	return ", about " + took(max(left, time.Second).Round(time.Second)) + " left"
}

// clear removes what is shown.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out != nil && !p.shown.IsZero() {
		p.out.printf("\r\x1b[K")
	}
}
