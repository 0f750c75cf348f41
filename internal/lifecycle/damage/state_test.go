package damage_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/lifecycle/damage"
)

func TestState(t *testing.T) {
	t.Parallel()
	s := damage.NewState()
	if s.Damaged() || s.Err() != nil || s.ReadOnly() != nil {
		t.Fatal("damaged from the start")
	}
	hole := damage.Finding{Stream: "LEDGER-0001", First: 5, Last: 9, What: "missing", By: damage.FoundAtStart}
	if !s.Report(hole) || s.Report(hole) {
		t.Error("a finding is news once")
	}
	select {
	case <-s.Found():
	default:
		t.Error("the channel of Found is not closed")
	}
	for i := range uint64(200) {
		s.Report(damage.Finding{Stream: "LEDGER-0001", First: 100 + i, Last: 100 + i, What: "missing", By: damage.FoundByScrub})
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

// New findings replace ended ones about blobs. An unlisted blob is counted and reported
// as new once.
func TestManyDamagedBlobs(t *testing.T) {
	t.Parallel()
	s := damage.NewState()
	report := func(n int) bool {
		return s.Report(damage.Finding{Radius: damage.OfBlob, Blob: &events.LostBlob{Tenant: "a", Kind: "heap", SHA256: strconv.Itoa(n)}, What: "damaged", By: damage.FoundOnRead})
	}
	repair := func(n int) bool {
		return s.EndBlobFindings("stored again", func(f damage.Finding) bool { return f.Blob != nil && f.Blob.SHA256 == strconv.Itoa(n) })
	}
	for n := range 100 {
		report(n)
	}
	for again := range 3 {
		if report(100) != (again == 0) {
			t.Errorf("time %d that a blob that is not listed is found", again)
		}
	}
	if list, more := s.Findings(); len(list) != 100 || more != 1 || s.Count(damage.OfBlob) != 101 {
		t.Errorf("%d findings, %d more, %d in all", len(list), more, s.Count(damage.OfBlob))
	}
	if !repair(100) || repair(100) || s.Count(damage.OfBlob) != 100 {
		t.Errorf("%d are damaged after one that is not listed was repaired", s.Count(damage.OfBlob))
	}
	if !repair(7) || !report(101) || s.Count(damage.OfBlob) != 100 {
		t.Errorf("%d are damaged after a repair and new damage", s.Count(damage.OfBlob))
	}
	if list := s.Blobs(); len(list) != 100 || list[99].Blob.SHA256 != "101" || s.Damaged() {
		t.Errorf("the newest of %d is %s", len(list), list[len(list)-1])
	}
}

// The advice for a key that cannot be used is not that for lost events, until something else is damaged.
func TestAdvice(t *testing.T) {
	t.Parallel()
	s := damage.NewState()
	for _, tt := range []struct {
		found   damage.Finding
		onlyKey bool
		advice  string
	}{
		{damage.Finding{Radius: damage.OfBlob, What: "a heap", By: damage.FoundOnRead}, false, damage.BlobAdvice},
		{damage.Finding{What: "the signing key is missing", IsKeyLost: true, By: damage.FoundOnRead}, true, damage.KeyAdvice},
		{damage.Finding{Stream: "LEDGER-0001", First: 5, Last: 5, What: "missing", By: damage.FoundByScrub}, false, damage.RecoveryAdvice},
	} {
		s.Report(tt.found)
		if s.OnlyKeyLost() != tt.onlyKey || s.Advice() != tt.advice {
			t.Errorf("after %q: only the key: %t, %s", tt.found.What, s.OnlyKeyLost(), s.Advice())
		}
		if err := s.ReadOnly(); err != nil && !strings.HasSuffix(err.Error(), tt.advice) {
			t.Errorf("ReadOnly: %v", err)
		}
	}
	if advice := damage.NewState().Advice(); advice != "" {
		t.Errorf("without damage: %s", advice)
	}
}

// Findings about executions refuse nothing, and their number is bounded.
func TestFindingsAboutExecutions(t *testing.T) {
	t.Parallel()
	s := damage.NewState()
	of := func(id int) damage.Finding {
		return damage.Finding{Radius: damage.OfRun, Run: &damage.Run{Tenant: "acme", ExecutionID: strconv.Itoa(id)}, What: "the replay differs", By: damage.FoundByScrub}
	}
	if !s.Report(of(1)) || s.Report(of(1)) {
		t.Error("a repeated finding is not recognized")
	}
	if s.Damaged() || s.Err() != nil || s.ReadOnly() != nil || len(s.Blobs()) != 0 || !strings.HasPrefix(s.Advice(), "look at the difference with daybook replay") {
		t.Errorf("damaged %t, %v, %s", s.Damaged(), s.Err(), s.Advice())
	}
	for id := range 200 {
		s.Report(of(id))
	}
	if list, more := s.Findings(); len(list) != 100 || more != 100 || s.Count(damage.OfRun) != 200 || s.Count(damage.OfLedger) != 0 {
		t.Errorf("%d listed, %d more, %d in all", len(list), more, s.Count(damage.OfRun))
	}
	if got := of(1).String(); got != "execution 1 of tenant acme: the replay differs" {
		t.Error(got)
	}
}

// An unlisted finding about a heap lasts after the listed ones have ended.
func TestUnlistedFindingsLast(t *testing.T) {
	t.Parallel()
	s := damage.NewState()
	for n := range 101 {
		s.Report(damage.Finding{Radius: damage.OfBlob, Blob: &events.LostBlob{Kind: "heap", Tenant: "acme", SHA256: strconv.Itoa(n)}, What: "a chunk is missing", By: damage.FoundByScrub})
	}
	s.EndBlobFindings("stored again", func(f damage.Finding) bool { return f.Blob.SHA256 != "100" })
	if s.Count(damage.OfBlob) != 1 || s.Advice() != damage.BlobAdvice {
		t.Errorf("%d findings, advice %q", s.Count(damage.OfBlob), s.Advice())
	}
}
