package embed

import (
	"testing"
	"time"

	"daybook/events"
)

func TestSealingDue(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	november := events.VolumeInfo{Number: 1, First: 1, Last: 9, Bytes: 1 << 20, Began: at("2026-11-21T09:00:00Z")}
	for _, tt := range []struct {
		name  string
		every string
		bytes int64
		v     events.VolumeInfo
		now   string
		want  events.VolumeReason
	}{
		{"the same month", sealMonthly, 1 << 30, november, "2026-11-30T23:59:59Z", ""},
		{"the next month", sealMonthly, 1 << 30, november, "2026-12-01T00:00:00Z", events.VolumeAged},
		{"the next month only in another time zone", sealMonthly, 1 << 30, november, "2026-12-01T00:30:00+02:00", ""},
		{"the same month of another year", sealMonthly, 1 << 30, november, "2027-11-21T09:00:00Z", events.VolumeAged},
		{"a clock set back", sealMonthly, 1 << 30, november, "2026-10-31T00:00:00Z", ""},
		{"never", sealNever, 1 << 30, november, "2027-01-01T00:00:00Z", ""},
		{"full", sealNever, 1 << 20, november, "2026-11-22T00:00:00Z", events.VolumeFull},
		{"unlimited size", sealNever, -1, november, "2026-11-22T00:00:00Z", ""},
		{"many executions", sealNever, -1, events.VolumeInfo{Number: 1, First: 1, Last: 9, Subjects: 200, Began: november.Began}, "2026-11-22T00:00:00Z", events.VolumeFull},
		{"fewer executions", sealNever, -1, events.VolumeInfo{Number: 1, First: 1, Last: 9, Subjects: 199, Began: november.Began}, "2026-11-22T00:00:00Z", ""},
		{"an empty volume", sealMonthly, 1, events.VolumeInfo{Number: 1, First: 1}, "2027-01-01T00:00:00Z", ""},
	} {
		if got := (Options{Storage: StorageOptions{SealEvery: tt.every, SealBytes: tt.bytes, SealExecutions: 100}}).sealReason(tt.v, at(tt.now)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
