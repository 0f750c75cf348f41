package events

import "time"

// Instant is a time inside an event's body. It is written in UTC with three
// digits of milliseconds, always, so that equal times are equal bytes.
type Instant struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (i Instant) MarshalJSON() ([]byte, error) {
	return []byte(`"` + FormatTime(i.Time) + `"`), nil
}
