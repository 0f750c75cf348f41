package ledger

import (
	"math"
	"strconv"
)

// maxWhole is the largest integer that every JSON reader represents exactly.
const maxWhole = 1 << 53

// WholeNumber reads a JSON number without a fraction, from -2^53 to 2^53: 5.0
// and 5e0 are 5, as in JSON Schema. Every interface reads integers with it.
func WholeNumber(number string) (int64, bool) {
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return n, n >= -maxWhole && n <= maxWhole
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxWhole {
		return 0, false
	}
	return int64(f), true
}
