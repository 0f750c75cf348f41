package artifacts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/artifacts"
	"daybook/projections"
)

// stored is a read side with the artifacts of one execution, and their bytes by number.
type stored struct {
	list  []projections.Artifact
	bytes map[int][]byte
	err   error
}

func (s *stored) add(mime string, b []byte) *projections.Artifact {
	n := len(s.list) + 1
	if s.bytes == nil {
		s.bytes = map[int][]byte{}
	}
	s.bytes[n] = b
	s.list = append(s.list, projections.Artifact{Number: n, Name: fmt.Sprint(n), MIME: mime, Size: int64(len(b))})
	return &s.list[n-1]
}

func (s *stored) Artifacts(context.Context, string, string) ([]projections.Artifact, error) {
	return s.list, s.err
}

func (s *stored) ArtifactBytes(ctx context.Context, _ string, f projections.Artifact) ([]byte, error) {
	if b, ok := s.bytes[f.Number]; ok {
		return b, ctx.Err()
	}
	return nil, events.ErrDamaged
}

// read returns each artifact as its number and kind, with + if its bytes are in the answer.
func read(t *testing.T, s *stored, others bool) (list []string, left int, unreadable []int) {
	t.Helper()
	all, left, err := artifacts.Reader{Queries: s, WithOthers: others, OnUnreadable: func(f projections.Artifact, _ error) { unreadable = append(unreadable, f.Number) }}.Read(t.Context(), "id")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		text := fmt.Sprintf("%d %s", f.Number, f.Kind)
		if f.Inline {
			text += "+"
			if !bytes.Equal(f.Bytes, s.bytes[f.Number]) {
				t.Errorf("artifact %d has other bytes", f.Number)
			}
		}
		list = append(list, text)
	}
	return list, left, unreadable
}

func TestKinds(t *testing.T) {
	t.Parallel()
	s := new(stored)
	for _, mime := range []string{"image/png", " IMAGE/GIF ;x=1", "image/svg+xml", "audio/x", "text/html; charset=utf-8", "application/json", "application/json5", "video/mp4"} {
		s.add(mime, []byte("x"))
	}
	s.add("text/plain", []byte{0xff})
	s.add("text/plain", bytes.Repeat([]byte("x"), 16<<10))
	s.add("text/plain", bytes.Repeat([]byte("x"), 16<<10+1))
	s.add("text/plain", nil)
	want := []string{"1 image+", "2 image+", "3 ", "4 audio+", "5 text+", "6 text+", "7 ", "8 ", "9 +", "10 text+", "11 ", "12 text+"}
	if got, _, _ := read(t, s, false); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for i, one := range want {
		if !strings.HasSuffix(one, "+") {
			want[i] += "+"
		}
	}
	if got, _, _ := read(t, s, true); !slices.Equal(got, want) {
		t.Errorf("with others: %q\nwant %q", got, want)
	}
}

// What exceeds a limit is listed without its bytes, and smaller artifacts after it have them.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := new(stored)
	s.add("image/png", make([]byte, artifacts.MaxBytes-1))
	s.add("image/png", make([]byte, 2))
	s.add("image/png", make([]byte, 1))
	delete(s.bytes, s.add("image/png", nil).Number)
	s.add("image/png", nil).IsReplaced = true
	for range artifacts.MaxListed {
		s.add("x/y", []byte("z"))
	}
	got, left, unreadable := read(t, s, true)
	if len(got) != artifacts.MaxListed || left != 4 || !slices.Equal(unreadable, []int{4}) || !slices.Equal(got[:5], []string{"1 image+", "2 image", "3 image+", "4 image", "6 "}) {
		t.Errorf("%q, %d left, %v are unreadable", got, left, unreadable)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	ended, stop := context.WithCancel(t.Context())
	stop()
	s := new(stored)
	s.add("image/png", nil)
	for _, tt := range []struct {
		ctx  context.Context //nolint:containedctx // a case of the table
		err  error
		want error
	}{
		{t.Context(), fmt.Errorf("x: %w", events.ErrShredded), nil}, {t.Context(), events.ErrRemoved, nil},
		{t.Context(), events.ErrNotFound, events.ErrNotFound}, {ended, nil, context.Canceled},
	} {
		s.err = tt.err
		list, _, err := artifacts.Reader{Queries: s}.Read(tt.ctx, "id")
		if !errors.Is(err, tt.want) || len(list) != 0 {
			t.Errorf("%v: %v, %v", tt.err, list, err)
		}
	}
}

func TestURI(t *testing.T) {
	t.Parallel()
	if got := artifacts.URI("1", "a b/é+.png"); got != "execution://1/artifacts/a%20b%2F%C3%A9%2B.png" {
		t.Error(got)
	}
}
