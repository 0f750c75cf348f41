package embed

import (
	"fmt"
	"strings"
	"time"
)

// Range is the permitted values of an option besides 0, which selects the default unless
// Zero is set.
type Range struct {
	// Least and Most are the bounds, both included: an int, int64, float64 or
	// time.Duration. Most is nil if the option has no upper bound of its own.
	Least, Most any
	// Unit follows the bounds, such as " MB".
	Unit string
	// Zero is the meaning of 0, such as "is unlimited", and Negative that of a negative
	// value. If Negative is empty, a negative value is refused.
	Zero, Negative string
}

// String returns the rule as the end of a sentence: "the range is 1 to 300".
func (r Range) String() string {
	var text string
	least := boundText(r.Least)
	switch {
	case r.Most != nil:
		text = "the range is " + least + " to " + boundText(r.Most) + r.Unit
	case r.Least == time.Duration(1):
		text = "it must be more than 0"
	default:
		text = "it must be " + least + " or more"
	}
	if r.Zero != "" {
		text += ", 0 " + r.Zero
	}
	if r.Negative != "" {
		text += ", a negative value " + r.Negative
	}
	return text
}

// boundText returns a bound as text, without the zero minutes and seconds of a duration.
func boundText(bound any) string {
	switch bound := bound.(type) {
	case time.Duration:
		text := bound.String()
		if short, ok := strings.CutSuffix(text, "m0s"); ok {
			text = short + "m"
		}
		if short, ok := strings.CutSuffix(text, "h0m"); ok {
			text = short + "h"
		}
		return text
	case float64:
		return fmt.Sprintf("%.10g", bound)
	default:
		return fmt.Sprint(bound)
	}
}

// Bounds of options. The largest values are far above any use, and keep sums and products of
// options within their types.
const (
	maxCount       = 1_000_000_000
	maxProcesses   = 10_000
	maxRate        = 1_000_000
	minRate        = 0.001
	maxReserve     = 1 << 50 // 1 PiB
	maxClientBytes = 1 << 30
	maxExtraAfter  = time.Hour
	maxStoredBytes = 1 << 60
)

// optionRange is a Range of one type. If most is 0, the Range has no Most.
type optionRange[T ~int | ~int64 | ~float64] struct {
	least, most          T
	unit, zero, negative string
}

// check returns a *FieldError if a value is not permitted. NaN is in no range.
func (r optionRange[T]) check(field string, value T) error {
	most := r.most
	if most == 0 {
		most = 1<<62 - 1 // a sum of two values fits the type
	}
	if value == 0 || value < 0 && r.negative != "" || value >= r.least && value <= most {
		return nil
	}
	rule := Range{Least: r.least, Unit: r.unit, Zero: r.zero, Negative: r.negative}
	if r.most != 0 || value > most { // the reason must be the bound that the value breaks
		rule.Most = most
	}
	return outOfRange(field, " is ", fmt.Sprint(value), rule)
}
