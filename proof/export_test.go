package proof

import "time"

// MaxSignersBytes is maxSignersBytes.
const MaxSignersBytes = maxSignersBytes

// ErrBadCosignature is the error of a cosignature that does not belong to the checkpoint.
var ErrBadCosignature = errBadCosignature

// CheckAt is Check at another time.
func (p *Policy) CheckAt(signed []byte, now time.Time) (time.Time, error) {
	return p.checkAt(signed, now)
}
