package terminal

import (
	"fmt"
	"time"
)

// FormatWhen returns a time for the output: relative to now on a terminal, else
// unchanged.
func (s *Screen) FormatWhen(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if !s.Terminal || err != nil {
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

// FormatDuration returns a duration in about three digits.
func FormatDuration(d time.Duration) string {
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

// FormatInterval returns the time between two times of an answer, or a dash.
func FormatInterval(from string, to *string) string {
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
	return FormatDuration(end.Sub(begin))
}
