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

// outputPace delays output of scripts before it is accepted, so that all runs of a
// runner together record at most its rate in bytes per second. It is safe for
// concurrent use. A nil outputPace admits all output immediately.
type outputPace struct {
	maxPiece int64 // largest number of bytes of one claim

	mu      sync.Mutex // guards the fields below
	pace    *fairness.Pace
	waiters map[*fairness.Claim]chan struct{}
	timer   *time.Timer // calls admit when more may be admitted
}

func newOutputPace(r fairness.Rate) *outputPace {
	if r.PerSecond == 0 {
		return nil
	}
	piece := int64(math.MaxInt64)
	if r.Reserve > 1 {
		piece = r.Reserve / 2 // the other half of the reserve stays free for tenants with little output
	}
	return &outputPace{maxPiece: piece, pace: fairness.NewPace(r), waiters: map[*fairness.Claim]chan struct{}{}}
}

// wait blocks until a tenant may record n bytes, and then returns nil. It returns the
// cause of ctx's end if that comes first; pieces that were already admitted then still
// count against the rate. After ctx's end it admits output that need not wait.
func (o *outputPace) wait(ctx context.Context, tenant string, n int64) error {
	if o == nil {
		return nil
	}
	for n > 0 {
		piece := min(n, o.maxPiece)
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
	o.waiters[c] = admitted
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
	delete(o.waiters, c)
	o.admitLocked() // c may have blocked another claim
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
			close(o.waiters[c])
			delete(o.waiters, c)
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

// lineOverhead is about the number of bytes that a line takes in an event in addition
// to its text. chunkOverhead is about the number that the event takes.
const (
	lineOverhead  = 48
	chunkOverhead = 512
)

// recordedBytes estimates the number of bytes that lines take in the ledger. JSON
// encodes one byte in up to six, and encryption encodes three in four.
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

// jsonBytes holds, for each byte of a text, the largest number of bytes that it takes in
// JSON.
var jsonBytes = func() (sizes [256]uint8) {
	for b := range sizes {
		sizes[b] = 1
		if b < 0x80 {
			s, _ := json.Marshal(string(rune(b))) // never fails for a string
			sizes[b] = uint8(len(s) - len(`""`))
		}
	}
	sizes[0xE2] = 4 // U+2028 and U+2029 are escaped: three bytes become six
	return sizes
}()
