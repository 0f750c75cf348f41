package worker_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

func TestFramesRoundTrip(t *testing.T) {
	t.Parallel()
	var pipe bytes.Buffer
	big := bytes.Repeat([]byte("ab"), worker.MaxPayload)
	if err := worker.WriteBody(&pipe, []byte("x"), nil, big); err != nil {
		t.Fatal(err)
	}
	if err := worker.WriteFrame(&pipe, 'X', nil); err != nil {
		t.Fatal(err)
	}
	if err := worker.WriteFrame(&pipe, 'X', big); err == nil {
		t.Error("a frame that is too large was written")
	}
	var r worker.FrameReader
	r.Reset(&pipe)
	var sizes []int
	var body []byte
	for {
		frame, payload, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if frame == 'D' {
			body = append(body, payload...)
		}
		sizes = append(sizes, len(payload))
	}
	if want := []int{1, worker.MaxPayload, worker.MaxPayload, 0}; !slices.Equal(sizes, want) {
		t.Errorf("frames of %v bytes, want %v", sizes, want)
	}
	if !bytes.Equal(body, append([]byte("x"), big...)) {
		t.Error("the body came out changed")
	}
}

// FuzzFrames passes any bytes to the decoder. It must return an error or reach the end, and must
// never allocate more than a frame.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'A'})
	f.Add([]byte{0, 0, 0, 0, 'A'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 'A'})
	f.Add([]byte{0, 0, 0, 3, 'L', 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		var r worker.FrameReader
		r.Reset(bytes.NewReader(data))
		taken := 0
		for {
			_, payload, err := r.Next()
			if err != nil {
				if err != io.EOF && err != io.ErrUnexpectedEOF && !errors.Is(err, worker.ErrProtocol) {
					t.Fatalf("unexpected error %v", err)
				}
				return
			}
			if taken += 5 + len(payload); taken > len(data) || len(payload) > worker.MaxPayload {
				t.Fatalf("%d bytes of frames from %d", taken, len(data))
			}
		}
	})
}

// FuzzFrameChecker passes any frames of a hostile worker to the checker. An Outcome of accepted
// frames must have all properties that the documentation of Outcome promises.
func FuzzFrameChecker(f *testing.F) {
	frames := func(parts ...string) []byte {
		var b bytes.Buffer
		for _, p := range parts {
			var one bytes.Buffer
			if err := worker.WriteFrame(&one, 'X', []byte(p[1:])); err != nil {
				f.Fatal(err)
			}
			raw := one.Bytes()
			raw[4] = p[0]
			b.Write(raw)
		}
		return b.Bytes()
	}
	line := string(worker.AppendLine(nil, worker.LevelNumber(events.LevelWarn), time.Now().UnixMicro(), true, []byte("text")))
	hash := strings.Repeat("0a", 32)
	f.Add(true, frames("A", "L"+line+line, `E{"end":"completed","has_text":true,"text_size":1,"heap_size":2,"transpiled_sha256":"`+hash+`"}`, "Dx", "Dhp"))
	f.Add(false, frames("A", `E{"end":"syntax_error","has_text":true,"text_size":1}`, "Dx"))
	f.Add(true, frames("A", `E{"end":"terminated","transpiled_sha256":"`+hash+`"}`))
	f.Add(true, frames("L"+line))
	f.Fuzz(func(t *testing.T, stateful bool, data []byte) {
		maxHeap := int64(0)
		if stateful {
			maxHeap = 1 << 16
		}
		c := worker.NewFrameChecker(maxHeap)
		var r worker.FrameReader
		r.Reset(bytes.NewReader(data))
		for !c.Complete() {
			frame, payload, err := r.Next()
			if err != nil {
				return
			}
			lines, err := c.Take(frame, payload)
			if err != nil {
				if !errors.Is(err, worker.ErrProtocol) {
					t.Fatalf("unexpected error %v", err)
				}
				return
			}
			for _, l := range lines {
				if !utf8.ValidString(l.Text) || strings.Contains(l.Text, "\n") || len(l.Text) > worker.MaxLineText || l.Level == "" {
					t.Fatalf("accepted line %+v", l)
				}
			}
		}
		o := c.Outcome()
		checkShape2(t, o, stateful)
		if int64(len(o.Heap)) > maxHeap {
			t.Fatalf("accepted a heap of %d bytes", len(o.Heap))
		}
		if _, err := c.Take('L', []byte(line)); err == nil {
			t.Fatal("accepted a line after the end")
		}
	})
}

func checkShape2(t *testing.T, o runner.Outcome, stateful bool) {
	t.Helper()
	if stateful {
		checkShape(t, o)
	}
	if o.Result != nil && !utf8.ValidString(*o.Result) || !utf8.ValidString(o.Error) || o.CPUTime < 0 || o.PeakHeapBytes < 0 {
		t.Fatalf("outcome %+v", o)
	}
	if o.TranspiledSHA256 != "" && (len(o.TranspiledSHA256) != 64 || strings.ToLower(o.TranspiledSHA256) != o.TranspiledSHA256) {
		t.Fatalf("hash %q", o.TranspiledSHA256)
	}
}

func TestLineSink(t *testing.T) {
	t.Parallel()
	at := time.Unix(5, 0).UTC()
	long := strings.Repeat("x", worker.MaxLineText-1) + "\u4e16" + "end" // a rune across the cut
	for _, test := range []struct {
		name, text string
		want       []string // "+" marks a line that continues in the next one
	}{
		{"one", "a", []string{"a"}},
		{"empty", "", []string{""}},
		{"several", "a\n\nb\n", []string{"a", "", "b", ""}},
		{"long", long, []string{"+" + strings.Repeat("x", worker.MaxLineText-1), "\u4e16end"}},
		{"exactly full", strings.Repeat("y", worker.MaxLineText), []string{strings.Repeat("y", worker.MaxLineText)}},
	} {
		var got []string
		sink := worker.NewLineSink(func(b []byte) error {
			if len(b) > worker.MaxPayload {
				t.Errorf("a frame of %d bytes", len(b))
			}
			lines, err := worker.ParseLines(b)
			if err != nil {
				t.Error(err)
			}
			for _, l := range lines {
				if l.TimeMillis != at.UnixMilli() || l.Level != events.LevelError {
					t.Errorf("line %+v", l)
				}
				if l.Continued {
					l.Text = "+" + l.Text
				}
				got = append(got, l.Text)
			}
			return nil
		})
		if err := sink.WriteMessage(worker.LevelNumber(events.LevelError), at, []byte(test.text)); err != nil {
			t.Fatal(err)
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %.80q, want %.80q", test.name, got, test.want)
		}
	}
}

// A script that is far ahead of a slow reader waits. It gets an error when the reader has ended.
func TestLineSinkHoldsBack(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	gone := errors.New("gone")
	sink := worker.NewLineSink(func([]byte) error { <-release; return gone })
	written := make(chan error)
	go func() {
		text := bytes.Repeat([]byte("z"), 100<<10)
		for {
			if err := sink.WriteMessage(0, time.Unix(0, 0), text); err != nil {
				written <- err
				return
			}
		}
	}()
	select {
	case err := <-written:
		t.Fatalf("stopped early: %v", err)
	case <-time.After(50 * time.Millisecond): // the script waits: filling a few chunks takes far less
	}
	close(release)
	if err := <-written; !errors.Is(err, gone) {
		t.Errorf("stopped with %v", err)
	}
	if err := sink.Close(); !errors.Is(err, gone) {
		t.Errorf("closed with %v", err)
	}
}
