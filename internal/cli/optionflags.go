package cli

import (
	"strings"

	"daybook/embed"
)

// optionFlags maps fields of embed.Options to their flags.
var optionFlags = map[string]string{
	"HTTP.Hosts":            "--allowed-host",
	"Proof.KeyFile":         "--audit-key",
	"HTTP.CertFile":         "--tls-cert",
	"DataDir":               "--data-dir",
	"HTTP.Addr":             "--http-addr",
	"Runs.HeapCeilingMB":    "--heap-memory-ceiling",
	"Runs.HeapMB":           "--heap-memory-max",
	"Content.HeapRetention": "--heap-retention",
	"Content.KeyDir":        "--key-dir",
	"Tools.Servers":         "--mcp-server",
	"NATS.Addr":             "--nats-addr",
	"Access.OIDC.Issuer":    "--auth oidc",
	"Access.OIDC.Tenant":    "--auth-tenant",
	"HTTP.PublicURL":        "--public-url",
	"Storage.SealBytes":     "--seal-bytes",
	"MCP.SessionID":         "--session-id",
	"Access.TokenFile":      "--auth tokens",
	"Proof.WitnessURL":      "--witness-url",
}

// flagError is an error about an option, with a message for the command line.
type flagError struct{ error }

func (e flagError) Unwrap() error { return e.error }

// Error returns the message with flags instead of options.
func (e flagError) Error() string {
	text := e.error.Error()
	for _, f := range fieldErrors(e.error) {
		flag := optionFlags[f.Field]
		if flag == "" {
			continue
		}
		if rest, first := strings.CutPrefix(text, "options: "+f.Error()); first {
			text = flag + f.Problem() + rest
		} else {
			text = strings.Replace(text, f.Error(), flag+f.Problem(), 1)
		}
	}
	return text
}

// fieldErrors returns all field errors that err wraps.
func fieldErrors(err error) (list []*embed.FieldError) {
	switch e := err.(type) { //nolint:errorlint // the function visits the complete tree
	case *embed.FieldError:
		return []*embed.FieldError{e}
	case interface{ Unwrap() error }:
		return fieldErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			list = append(list, fieldErrors(one)...)
		}
	}
	return list
}
