package web

import (
	"strconv"
	"strings"
)

// maxWholeNumber is 2^53. Every JSON reader represents integers up to it exactly.
const maxWholeNumber = 1 << 53

// WholeNumber parses a JSON number without a fraction, from -2^53 to 2^53, ends
// included. 5.0 and 5e0 are 5, as in JSON Schema. It reports false for other numbers,
// and never rounds. Every interface reads integers with it.
func WholeNumber(number string) (int64, bool) {
	mantissa, exponent, scaled := strings.Cut(strings.ToLower(number), "e")
	shift := 0
	if scaled {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil || shift > 400 || shift < -400 {
			return 0, false
		}
	}
	unsigned := strings.TrimPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	digits, point := whole+fraction, len(whole)+shift
	switch {
	case whole == "" || strings.Trim(digits, "0123456789") != "":
		return 0, false
	case point < len(digits):
		if strings.Trim(digits[max(point, 0):], "0") != "" || point < 0 && strings.Trim(digits, "0") != "" {
			return 0, false
		}
		digits = digits[:max(point, 0)]
	default:
		digits += strings.Repeat("0", point-len(digits))
	}
	if digits == "" {
		return 0, true
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > maxWholeNumber {
		return 0, false
	}
	if unsigned != mantissa {
		n = -n
	}
	return n, true
}
