package access

import "time"

// What tests of the decoders reach.
var (
	DecodeTokens = decodeTokens
	EncodeTokens = encodeTokens
)

// Accounts is how many tenants' runs are kept track of.
func (q *Quotas) Accounts() int { return len(q.accounts) }

// Over sets the meter.
func (q *Quotas) Over(m Meter) *Quotas {
	q.meter = m
	return q
}

// SetKeyWait changes how long a request waits for the issuer.
func SetKeyWait(i *Issuer, d time.Duration) { i.keys.patience = d }
