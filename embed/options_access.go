package embed

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
