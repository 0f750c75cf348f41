package runner

import (
	"context"
	"encoding/json"
	"math"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/resources/fairness"
)

// outputPace makes scripts wait before their output is accepted, so that all of a
// runner together record no more bytes in a second than its rate. It is safe for
// concurrent use. A nil outputPace admits everything at once.
type outputPace struct {
	piece int64 // bytes that a request for space in the rate has, at most

	mu    sync.Mutex // guards what follows
	pace  *fairness.Pace
	wakes map[*fairness.Claim]chan struct{}
	timer *time.Timer // runs admit when more may be admitted
}

func newOutputPace(r fairness.Rate) *outputPace {
	if r.PerSecond == 0 {
		return nil
	}
	piece := int64(math.MaxInt64)
	if r.Reserve > 1 {
		piece = r.Reserve / 2 // the rest of the reserve stays free for tenants with little output
	}
	return &outputPace{piece: piece, pace: fairness.NewPace(r), wakes: map[*fairness.Claim]chan struct{}{}}
}

// wait returns once a tenant may record n bytes, or the cause of ctx's end. Then the
// pieces that were admitted are lost to the rate. After ctx's end it admits what needs
// not wait.
func (o *outputPace) wait(ctx context.Context, tenant string, n int64) error {
	if o == nil {
		return nil
	}
	for n > 0 {
		piece := min(n, o.piece)
		if err := o.waitPiece(ctx, tenant, piece); err != nil {
			return err
		}
		n -= piece
	}
	return nil
}

func (o *outputPace) waitPiece(ctx context.Context, tenant string, n int64) error {
	admitted := make(chan struct{})
	o.mu.Lock()
	c := o.pace.Ask(tenant, n, time.Now())
	o.wakes[c] = admitted
	o.admitLocked()
	o.mu.Unlock()
	select {
	case <-admitted:
		return nil
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.pace.Withdraw(c) {
		return nil // it was admitted at the same time
	}
	delete(o.wakes, c)
	o.admitLocked() // it may have been in the way of another one
	return context.Cause(ctx)
}

func (o *outputPace) admit() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.admitLocked()
}

// The caller must hold mu.
func (o *outputPace) admitLocked() {
	for {
		c, pause := o.pace.Next(time.Now())
		if c != nil {
			close(o.wakes[c])
			delete(o.wakes, c)
			continue
		}
		switch {
		case pause == 0:
			if o.timer != nil {
				o.timer.Stop()
			}
		case o.timer == nil:
			o.timer = time.AfterFunc(pause, o.admit)
		default:
			o.timer.Reset(pause)
		}
		return
	}
}

// lineOverhead is about what a line takes in an event beside its text, in bytes, and
// chunkOverhead what the event takes.
const (
	lineOverhead  = 48
	chunkOverhead = 512
)

// recordedBytes is about how many bytes lines take in the ledger: JSON makes up to six
// bytes of one, and encryption four of three.
func recordedBytes(lines []events.Line, encrypted bool) int64 {
	n := int64(chunkOverhead * (1 + len(lines)/events.OutputMaxLines))
	for _, l := range lines {
		n += lineOverhead
		for i := range len(l.Text) {
			n += int64(jsonBytes[l.Text[i]])
		}
	}
	if encrypted {
		n += n / 3
	}
	return n
}

// jsonBytes is how many bytes JSON makes of each byte of a text, at most.
var jsonBytes = func() (sizes [256]uint8) {
	for b := range sizes {
		sizes[b] = 1
		if b < 0x80 {
			s, _ := json.Marshal(string(rune(b))) // never fails for a string
			sizes[b] = uint8(len(s) - len(`""`))
		}
	}
	sizes[0xE2] = 4 // U+2028 and U+2029 are escaped: six bytes for three
	return sizes
}()
