package projections_test

import (
	"strings"
	"testing"

	"daybook/events"
	"daybook/projections"
)

func TestHead(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 1023) + "\n"
	for name, tc := range map[string]struct {
		text string
		want projections.OutputHead
	}{
		"nothing":           {"", projections.OutputHead{NextLineOffset: 1}},
		"all of it":         {"one\ntwo", projections.OutputHead{Output: "one\ntwo", NextLineOffset: 3, NextByteOffset: 7}},
		"whole lines":       {"a" + strings.Repeat(line, 17), projections.OutputHead{Output: "a" + strings.Repeat(line, 15), NextLineOffset: 16, NextByteOffset: 15<<10 + 1, HasMore: true}},
		"lines that fit":    {strings.Repeat(line, 17), projections.OutputHead{Output: strings.Repeat(line, 16), NextLineOffset: 17, NextByteOffset: 16 << 10, HasMore: true}},
		"a long first line": {strings.Repeat("é", 9<<10), projections.OutputHead{Output: strings.Repeat("é", 8<<10), NextLineOffset: 1, NextByteOffset: 16 << 10, HasMore: true}},
	} {
		s := printed(t, tc.text, 700, ended(1, events.StatusCompleted))
		page, err := s.Output(t.Context(), tenant, id(1), projections.HeadQuery())
		if err != nil {
			t.Fatal(err)
		}
		if got := projections.HeadOf(page); got != tc.want {
			t.Errorf("%s: %d bytes, next line %d, next byte %d, more %t; want %d, %d, %d, %t", name,
				len(got.Output), got.NextLineOffset, got.NextByteOffset, got.HasMore, len(tc.want.Output), tc.want.NextLineOffset, tc.want.NextByteOffset, tc.want.HasMore)
		}
		d, err := s.Execution(t.Context(), tenant, id(1))
		if err != nil {
			t.Fatal(err)
		}
		if got, without := projections.HeadWithoutOutput(d); without != (tc.text == "") || without && got != tc.want {
			t.Errorf("%s: the execution alone says head %+v, without output: %t", name, got, without)
		}
		d.Shredded = &projections.Shredded{}
		if _, without := projections.HeadWithoutOutput(d); without {
			t.Errorf("%s: shredded content counts as no output", name)
		}
	}
}

// A watcher of the end is not signalled by starts and output.
func TestWatchEnd(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	follow(t, s, b)
	mine, stop := s.WatchEnd(tenant, id(1))
	defer stop()
	other, stopOther := s.WatchEnd(tenant, id(2))
	defer stopOther()
	signalled := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	b.add(requested(1), started(1, 1, fresh, ""))
	b.print(1, "a line\n", 100)
	if err := s.Wait(t.Context(), b.add(requested(2))); err != nil {
		t.Fatal(err)
	}
	if signalled(mine) || signalled(other) {
		t.Error("signalled before the end")
	}
	if err := s.Wait(t.Context(), b.add(ended(1, events.StatusCompleted))); err != nil {
		t.Fatal(err)
	}
	if !signalled(mine) {
		t.Error("the end was not signalled")
	}
	if signalled(other) {
		t.Error("the end of another run was signalled")
	}
}
