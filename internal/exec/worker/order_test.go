package worker_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
)

// rules is a second, simple implementation of the order of frames: the acceptance, lines, one end,
// and bodies of exactly the announced sizes. A data frame holds bytes of one body only.
type rules struct {
	accepted, ended bool
	text, heap      int // bytes that are still missing

	made, coming, pending int // calls, missing bytes of arguments, calls without an answer
	waiting               bool
}

// allows reports whether the frame may come next, and processes it.
func (o *rules) allows(frame byte, size, text, heap int) bool {
	switch {
	case o.ended && o.text == 0 && o.heap == 0:
		return false // complete
	case frame == 'A':
		ok := !o.accepted && size == 0
		o.accepted = o.accepted || ok
		return ok
	case !o.accepted:
		return false
	case o.coming > 0:
		ok := frame == 'D' && size > 0 && size <= o.coming
		if ok {
			o.coming -= size
		}
		return ok
	case o.waiting && !o.ended && frame != 'E':
		return false
	case frame == 'C':
		ok := !o.ended && text > 0 && heap == o.made+1 && o.pending < 16
		if ok {
			o.made, o.coming, o.pending = o.made+1, text, o.pending+1
		}
		return ok
	case frame == 'W':
		ok := !o.ended && o.pending > 0
		o.waiting = o.waiting || ok
		return ok
	case frame == 'L':
		return !o.ended
	case frame == 'E':
		ok := !o.ended && text > 0
		if ok {
			o.ended, o.text, o.heap = true, text, heap
		}
		return ok
	case frame == 'D' && o.ended && size > 0:
		left := &o.heap
		if o.text > 0 {
			left = &o.text
		}
		if size > *left {
			return false
		}
		*left -= size
		return true
	default:
		return false
	}
}

// FuzzOrder sends frames that are well-formed one by one, in any order. The state machine must accept
// exactly the sequences that rules allows.
func FuzzOrder(f *testing.F) {
	for _, seed := range []string{"ALE5D2D3", "ALLE91D9D1", "E", "AA", "ADE", "AE1D1D1", "AE1D1L", "AE0", "LA", "aZRTHX", "AE12D1D1D1", "AE21D2D1", "AE21D3", "AC3D3WNE1D1", "AC3D1D2C1D1WNWNWE", "AC3L", "AC2D3", "AC0", "AW", "AcD1", "AC1D1WL", "AC1D1WC", "AC1D1E1D1", "AC1D1WEN", "AC1D1WWN", "AC1D1NW"} {
		f.Add([]byte(seed))
	}
	line := worker.AppendLine(nil, worker.LevelNumber(events.LevelLog), time.Unix(1, 0).UnixMicro(), false, []byte("x"))
	f.Fuzz(func(t *testing.T, script []byte) {
		c, o := worker.NewCallingFrameChecker(1<<20), rules{}
		for i := 0; i < len(script); i++ {
			digit := func() int {
				if i+1 < len(script) && script[i+1] >= '0' && script[i+1] <= '9' {
					i++
					return int(script[i] - '0')
				}
				return 0
			}
			frame, text, heap := script[i], 0, 0
			var payload []byte
			switch frame {
			case 'L':
				payload = line
			case 'E':
				text, heap = digit(), digit()
				payload = fmt.Appendf(nil, `{"end":"exception","has_text":true,"text_size":%d,"heap_size":%d,"transpiled_sha256":%q}`, text, heap, strings.Repeat("ab", 32))
			case 'D':
				payload = bytes.Repeat([]byte("d"), digit())
			case 'C', 'c': // c has another number than expected
				text, heap = digit(), o.made+1
				if frame == 'c' {
					frame, heap = 'C', o.made+2
				}
				payload = fmt.Appendf(nil, `{"number":%d,"server":"s","tool":"t","size":%d}`, heap, text)
			case 'W':
				payload = []byte(`{"timed":false,"due_micros":0}`)
			case 'N':
				if !o.waiting || o.ended {
					continue // the host answers only when it is asked
				}
				if err := c.Reply(o.made - o.pending + 1); err != nil {
					t.Fatalf("%q: %v", script, err)
				}
				o.pending, o.waiting = o.pending-1, false
				continue
			case 'a':
				frame, payload = 'A', []byte("x") // an acceptance with a payload
			}
			want := o.allows(frame, len(payload), text, heap)
			_, err := c.Take(frame, payload)
			if want != (err == nil) || err != nil && !errors.Is(err, worker.ErrProtocol) {
				t.Fatalf("%q: frame %c after %q: %v, allowed %t", script, frame, script[:i], err, want)
			}
			if err != nil {
				return // the worker is killed
			}
			if number, size := c.Called(); number != 0 && (o.coming > 0 || number != o.made || size == 0) {
				t.Fatalf("%q: call %d of %d bytes after %q", script, number, size, script[:i])
			}
			if done := o.ended && o.text == 0 && o.heap == 0; done != c.Complete() {
				t.Fatalf("%q: complete %t, want %t", script, c.Complete(), done)
			}
		}
	})
}

// The pipe may divide the bytes of frames in any way: the decoded frames are the same, and a pipe that
// ends early is an error.
func TestFramesInPieces(t *testing.T) {
	t.Parallel()
	var pipe bytes.Buffer
	for _, payload := range []string{"", "x", strings.Repeat("y", 70_000), strings.Repeat("z", worker.MaxPayload)} {
		if err := worker.WriteFrame(&pipe, 'L', []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	whole := pipe.Bytes()
	for _, piece := range []int{1, 3, 4, 5, 4096, len(whole)} {
		var r worker.FrameReader
		r.Reset(&pieces{data: whole, size: piece})
		var sizes []int
		for {
			_, payload, err := r.Next()
			if err != nil {
				if err != io.EOF {
					t.Errorf("in pieces of %d: %v", piece, err)
				}
				break
			}
			sizes = append(sizes, len(payload))
		}
		if fmt.Sprint(sizes) != fmt.Sprint([]int{0, 1, 70_000, worker.MaxPayload}) {
			t.Errorf("in pieces of %d: frames of %v", piece, sizes)
		}
	}
	for _, cut := range []int{1, 4, 8, 12, 100, len(whole) - 1} {
		var r worker.FrameReader
		r.Reset(&pieces{data: whole[:cut], size: 4096})
		var err error
		for err == nil {
			_, _, err = r.Next()
		}
		if err != io.ErrUnexpectedEOF {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
}

// pieces returns a few bytes of data per Read.
type pieces struct {
	data []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.data)
	p.data = p.data[n:]
	return n, nil
}
