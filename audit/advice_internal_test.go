package audit

import (
	"strings"
	"testing"
	"time"
)

// The advice names the time that was compared with the maximum age.
func TestAdviceOnAge(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) *time.Time { t := time.Now().Add(d); return &t }
	for name, test := range map[string]struct {
		r    Report
		want string
	}{
		"a policy without witnesses": {Report{SignedTime: at(-time.Hour), Cosigned: &Cosigned{Checkpoint: "note"}}, "newest event that a checkpoint covers is older"},
		"old cosignatures":           {Report{SignedTime: at(-time.Hour), Cosigned: &Cosigned{Checkpoint: "note", Time: at(-time.Hour)}}, "cosignatures are older"},
		"an old time of the signers": {Report{SignedTime: at(time.Hour), Quorum: &Quorum{Time: at(-time.Hour)}}, "is older than"},
		"a clock a minute ahead":     {Report{SignedTime: at(time.Minute), Quorum: &Quorum{}}, "is older than"},
		"the future":                 {Report{SignedTime: at(time.Hour)}, "is of the future"},
	} {
		test.r.Verdict, test.r.TooOld = IntactUpTo, true
		if got := test.r.advice(); !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
