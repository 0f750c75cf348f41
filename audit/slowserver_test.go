package audit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"daybook/audit"
	"daybook/proof"
)

// dripping is an answer that sends pieces of bytes with pauses between them, as long as ctx allows. It ends after all
// bytes.
type dripping struct {
	ctx         context.Context
	piece, left int
	pause       time.Duration
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(d.pause):
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
	n := min(d.piece, d.left, len(p))
	for i := range n {
		p[i] = ' '
	}
	d.left -= n
	return n, nil
}

func (*dripping) Close() error { return nil }

// A verification of a server that answers nothing, or too slowly, ends without a verdict. A slow answer that arrives is
// read to its end, however long it takes.
func TestSlowServers(t *testing.T) {
	t.Parallel()
	hour := time.Hour
	for name, c := range map[string]struct {
		silent      bool
		piece, left int
		pause, most time.Duration
		end         string
	}{
		"no answer":                {silent: true, most: hour, end: "the server sent less than 64 KiB in 15m0s"},
		"no body":                  {piece: 1, left: 1, pause: 24 * hour, most: hour, end: "the server sent less than 64 KiB in 15m0s"},
		"a byte per second":        {piece: 1, left: 1 << 20, pause: time.Second, most: hour, end: "the server sent less than 64 KiB in 15m0s"},
		"a little more at a time":  {piece: 4 << 10, left: 1 << 20, pause: time.Minute, most: hour, end: "the server sent less than 64 KiB in 15m0s"},
		"64 KiB in 14 minutes":     {piece: 64 << 10, left: 1 << 20, pause: 14 * time.Minute, most: 5 * hour, end: "EOF"},
		"8 KiB in a minute, ended": {piece: 8 << 10, left: 1 << 20, pause: time.Minute, most: 3 * hour, end: "EOF"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 48*hour)
			defer stop()
			r := audit.NewRemote(func(ctx context.Context, _ string, _ ...string) (*http.Response, error) {
				if c.silent {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return &http.Response{StatusCode: http.StatusOK, Body: &dripping{ctx, c.piece, c.left, c.pause}}, nil
			}, nil)
			began := time.Now()
			err := r.Lines(ctx, proof.Checkpoint{Size: 9}, proof.ExportSelection{From: 1, To: 1}, 0, nil)
			took := time.Since(began)
			answer, ok := errors.AsType[*audit.AnswerError](err)
			if !ok || took > c.most {
				t.Fatalf("%s: %v after %v", name, err, took)
			}
			if c.end != "EOF" && !strings.Contains(answer.Error(), c.end) || c.end == "EOF" && !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}
