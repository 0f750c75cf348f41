package policy

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// refusedBuiltins are built-in functions that policies may not call, with the reason.
// Those that the library marks as not deterministic are refused too.
var refusedBuiltins = map[string]string{
	"crypto.x509.parse_and_verify_certificates":              "it reads the clock",
	"crypto.x509.parse_and_verify_certificates_with_options": "it reads the clock and the certificates of this machine",
	"http.send":            "it uses the network",
	"io.jwt.decode_verify": "it reads the clock",
	"net.cidr_expand":      "its result may not fit in memory",
	"net.lookup_ip_addr":   "it uses the network",
	"opa.runtime":          "it reads the environment of this process",
	"rand.intn":            "it is not deterministic",
	"time.now_ns":          "it reads the clock",
	"trace":                "its text goes nowhere",
	"uuid.rfc4122":         "it is not deterministic",
}

// whyRefused returns why policies may not call a built-in function, or an empty text.
func whyRefused(b *ast.Builtin) string {
	if why := refusedBuiltins[b.Name]; why != "" {
		return why
	}
	if b.IsNondeterministic() {
		return "it is not deterministic"
	}
	return ""
}

// capabilities returns what policies may use: the language and the built-in functions of
// the library without the refused ones. refused has the reasons by name.
func capabilities() (c *ast.Capabilities, refused map[string]string) {
	c = ast.CapabilitiesForThisVersion()
	refused = map[string]string{}
	c.Builtins = slices.DeleteFunc(c.Builtins, func(b *ast.Builtin) bool {
		why := whyRefused(b)
		if why != "" {
			refused[b.Name] = why
		}
		return why != ""
	})
	c.AllowNet = []string{} // no host, for schemas too
	return c, refused
}
