package embed

import "errors"

// AccessOptions select the accepted clients and limit what tenants may use.
type AccessOptions struct {
	// TokenFile and OIDC select the bearer tokens that HTTP accepts. With neither,
	// every client that reaches the address is accepted. "daybook token create" creates
	// a TokenFile.
	TokenFile string
	OIDC      OIDC
	// Limits bound what each tenant may use.
	Limits Limits
	// SessionTurns is the maximum number of waiting turns in one logical session.
	// Default: 1,000. A negative number is unlimited.
	SessionTurns int
}

// validate returns the errors of the fields.
func (o AccessOptions) validate() error {
	return errors.Join(
		validateLimits(o.Limits),
		optionRange[int]{least: 1, most: maxCount, negative: "is unlimited"}.check("Access.SessionTurns", o.SessionTurns),
	)
}

// validateLimits returns the errors of the limits.
func validateLimits(l Limits) error {
	count, bytes := optionRange[int]{most: maxCount, zero: "is unlimited"}, optionRange[int64]{most: maxStoredBytes, zero: "is unlimited"}
	return errors.Join(
		optionRange[float64]{least: minRate, most: maxRate, unit: " a second", zero: "is unlimited"}.check("Access.Limits.RequestsPerSecond", l.RequestsPerSecond),
		count.check("Access.Limits.Runs", l.Runs),
		bytes.check("Access.Limits.OutputBytes", l.OutputBytes),
		bytes.check("Access.Limits.HeapBytes", l.HeapBytes),
		count.check("Access.Limits.Streams", l.Streams),
		count.check("Access.Limits.Sessions", l.Sessions),
		count.check("Access.Limits.TaggedHeaps", l.TaggedHeaps),
	)
}
