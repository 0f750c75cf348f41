package access

import "time"

// The decoder and encoder, for tests.
var (
	DecodeTokens = decodeTokens
	EncodeTokens = encodeTokens
)

// Accounts returns the number of accounts.
func (q *Quotas) Accounts() int { return len(q.accounts) }

// SetMeter replaces the meter.
func (q *Quotas) SetMeter(m Meter) *Quotas {
	q.meter = m
	return q
}

// SetKeyWait sets how long a request waits for the issuer.
func SetKeyWait(i *Issuer, d time.Duration) { i.keys.keyTimeout = d }
