package cli

import (
	"fmt"
	"time"
)

// moment is a point in time on the command line: a time, a day, or an age such as 90s,
// 2h or 7d.
type moment struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(raw []byte) error {
	text := string(raw)
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			m.Time = at
			return nil
		}
	}
	var days int
	var unit string
	if n, err := fmt.Sscanf(text, "%d%s", &days, &unit); n == 2 && err == nil && unit == "d" && days >= 0 {
		m.Time = time.Now().AddDate(0, 0, -days)
		return nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		m.Time = time.Now().Add(-d)
		return nil
	}
	return fmt.Errorf("%q is not a time such as 2026-11-21T09:30:00Z or 2026-11-21, nor an age such as 90s, 2h or 7d", text)
}

// String returns the time in the form of the server, or an empty string.
func (m moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.UTC().Format(time.RFC3339Nano)
}
