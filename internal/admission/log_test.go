package admission

import (
	"testing"

	"daybook/events"
)

// The position of a change is noted, as unknown, even if recording it panics.
func TestRecordNotesAfterAPanic(t *testing.T) {
	t.Parallel()
	noted := 0
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an append without a store does not panic")
			}
		}()
		_, _ = Log{}.record(t.Context(), events.Event{}, 0, func(seq uint64) {
			if noted++; seq != 0 {
				t.Errorf("the position is %d", seq)
			}
		})
	}()
	if noted != 1 {
		t.Errorf("the position is noted %d times", noted)
	}
}
