package cli

import "regexp"

// optionFlags are the flags that set the options whose errors begin with the option.
var optionFlags = map[string]string{
	"AllowedHosts":  "--allowed-host",
	"AuditKey":      "--audit-key",
	"CertFile":      "--tls-cert",
	"DataDir":       "--data-dir",
	"HTTPAddr":      "--http-addr",
	"HeapRetention": "--heap-retention",
	"KeyDir":        "--key-dir",
	"MCPServers":    "--mcp-server",
	"NATSAddr":      "--nats-addr",
	"OIDC.Issuer":   "--auth oidc",
	"OIDC.Tenant":   "--auth-tenant",
	"PublicURL":     "--public-url",
	"SealBytes":     "--seal-bytes",
	"SessionID":     "--session-id",
	"TokenFile":     "--auth tokens",
	"WitnessURL":    "--witness-url",
}

// optionName is the option that a line begins with, behind the step of the start that
// failed.
var optionName = regexp.MustCompile(`(?m)^(?:options: |([a-z ]+: ))?([A-Z][A-Za-z]*(?:\.[A-Z][a-z]*)?)(:| is )`)

// flagError is an error of an option as the command line shows it.
type flagError struct{ error }

// Unwrap returns the error that names the option.
func (e flagError) Unwrap() error { return e.error }

// Error returns the message with flags in the place of options.
func (e flagError) Error() string {
	return optionName.ReplaceAllStringFunc(e.error.Error(), func(start string) string {
		parts := optionName.FindStringSubmatch(start)
		flag := optionFlags[parts[2]]
		if flag == "" {
			return start
		}
		return parts[1] + flag + parts[3]
	})
}
