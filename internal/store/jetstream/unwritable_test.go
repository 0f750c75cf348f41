package jetstream_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// A message that the server cannot write is refused at once, with a reason for the
// operator. Stored messages can still be read.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cause error
		want  string
	}{
		{&fs.PathError{Op: "write", Path: "/secret/1.blk", Err: syscall.ENOSPC}, "the disk is full; free some space; the server then takes writes again automatically"},
		{&fs.PathError{Op: "write", Path: "/secret/1.blk", Err: syscall.EROFS}, "read-only"},
		{errors.New("the moon is full"), "the moon is full"},
	} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			writable, fail := context.WithCancelCause(t.Context())
			defer fail(nil)
			s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{Client: jet.Options{Writable: func() context.Context { return writable }}})
			id := newID()
			seq := mustAppend(t, s, requested(id), 0)
			hash, err := s.PutText(t.Context(), tenant, []byte("before"))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Health(t.Context()); err != nil {
				t.Errorf("Health: %v", err)
			}

			fail(test.cause)
			_, appendErr := s.Append(t.Context(), started(id, 1), 0)
			_, textErr := s.PutText(t.Context(), tenant, []byte("after"))
			for what, err := range map[string]error{"Append": appendErr, "PutText": textErr, "Health": s.Health(t.Context())} {
				var unwritable *events.UnwritableError
				if !errors.As(err, &unwritable) || !strings.Contains(err.Error(), "the ledger cannot be written: ") || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: %v, want %q", what, err, test.want)
				} else if strings.Contains(err.Error(), "/secret") {
					t.Errorf("%s contains a path: %v", what, err)
				}
			}
			if list, err := s.Read(t.Context(), 0, 10); err != nil || len(list) != 1 || list[0].Seq != seq {
				t.Errorf("Read: %v, %v", list, err)
			}
			if text, err := s.Text(t.Context(), tenant, hash); err != nil || string(text) != "before" {
				t.Errorf("Text: %q, %v", text, err)
			}
			if got, err := s.PutText(t.Context(), tenant, []byte("before")); err != nil || got != hash {
				t.Errorf("storing an existing blob: %s, %v", got, err)
			}
		})
	}
}
