package cli

import (
	"fmt"
	"time"
)

// formatWhen returns a time for the output: relative to now on a terminal, else
// unchanged.
func (s *screen) formatWhen(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if !s.terminal || err != nil {
		return text
	}
	return formatAge(time.Since(at))
}

// formatAge returns a duration before now in about two digits.
func formatAge(d time.Duration) string {
	switch {
	case d < 0:
		return "just now" // the clock of another machine is ahead
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	default:
		return fmt.Sprintf("%d days ago", d/(24*time.Hour))
	}
}

// formatDuration returns a duration in about three digits.
func formatDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", d/time.Minute, d%time.Minute/time.Second)
	default:
		return fmt.Sprintf("%d h %02d min", d/time.Hour, d%time.Hour/time.Minute)
	}
}

// formatInterval returns the time between two times of an answer, or a dash.
func formatInterval(from string, to *string) string {
	if to == nil {
		return "-"
	}
	begin, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return "-"
	}
	end, err := time.Parse(time.RFC3339, *to)
	if err != nil {
		return "-"
	}
	return formatDuration(end.Sub(begin))
}

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
