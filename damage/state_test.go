package damage_test

import (
	"errors"
	"strings"
	"testing"

	"daybook/damage"
	"daybook/events"
)

func TestState(t *testing.T) {
	t.Parallel()
	s := damage.NewState()
	if s.Damaged() || s.Err() != nil || s.ReadOnly() != nil {
		t.Fatal("damaged from the start")
	}
	hole := damage.Finding{Stream: "LEDGER-0001", First: 5, Last: 9, What: "missing", By: damage.AtStart}
	if !s.Report(hole) || s.Report(hole) {
		t.Error("a finding is news once")
	}
	select {
	case <-s.Found():
	default:
		t.Error("nobody is told")
	}
	for i := range uint64(200) {
		s.Report(damage.Finding{Stream: "LEDGER-0001", First: 100 + i, Last: 100 + i, What: "missing", By: damage.ByScrub})
	}
	list, more := s.Findings()
	if len(list) != 100 || more != 101 || list[0].Time.IsZero() {
		t.Errorf("%d findings and %d more", len(list), more)
	}
	var unwritable *events.UnwritableError
	if err := s.Err(); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "LEDGER-0001, positions 5 to 9: missing") {
		t.Errorf("Err: %v", err)
	}
	if err := s.ReadOnly(); !errors.As(err, &unwritable) || !strings.Contains(err.Error(), "restore the data directory") || !strings.Contains(err.Error(), "and 196 more") {
		t.Errorf("ReadOnly: %v", err)
	}
}
