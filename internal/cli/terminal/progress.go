package terminal

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Progress shows on a terminal how much of a task is done, and the estimated time that
// is left. It is safe for concurrent use.
type Progress struct {
	Out  *Screen // nil if nothing is shown
	what string
	Unit string // the noun for the counts
	now  func() time.Time

	mu    sync.Mutex
	began time.Time // time of the first report, which may come long after the start
	first uint64    // the count of the first report
	shown time.Time
}

// NewProgress returns the progress of a task, such as "rebuilt". It counts events, and shows
// nothing if out is not a terminal.
func NewProgress(out *Screen, what string) *Progress {
	p := &Progress{what: what, Unit: "events", now: time.Now}
	if out.Terminal {
		p.Out = out
	}
	return p
}

const (
	// progressPause is the minimum time between two updates on the terminal.
	progressPause = 100 * time.Millisecond
	// estimateAfter is the time after which the end is estimated.
	estimateAfter = 2 * time.Second
	barWidth      = 20
)

// Show reports that done of total units of the task are done. It rarely writes, so that each
// unit may be reported.
func (p *Progress) Show(done, total uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.began.IsZero() {
		p.began, p.first = now, done
	}
	if p.Out == nil || total == 0 || now.Sub(p.shown) < progressPause {
		return
	}
	p.shown = now
	done = min(done, total)
	filled := int(done * barWidth / total)
	line := fmt.Sprintf("%s [%s%s] %d of %d %s, %d %%%s", p.what, strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), done, total, p.Unit, done*100/total, p.remaining(now, done, total))
	p.Out.Printf("\r\x1b[K%s", Cut(p.Out, line, 1))
}

// remaining estimates the time that is left from the speed so far. It may return an
// empty text.
func (p *Progress) remaining(now time.Time, done, total uint64) string {
	elapsed := now.Sub(p.began)
	if elapsed < estimateAfter || done <= p.first || done == total {
		return ""
	}
	left := time.Duration(float64(elapsed) * float64(total-done) / float64(done-p.first))
	return ", about " + FormatDuration(max(left, time.Second).Round(time.Second)) + " left"
}

// Clear removes the progress from the terminal.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Out != nil && !p.shown.IsZero() {
		p.Out.Printf("\r\x1b[K")
	}
}
