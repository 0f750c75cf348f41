package access

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Scope is a permission of a token. Admin includes Sign; no other scope includes
// another one.
type Scope string

// The scopes. A token has at least one.
const (
	// Read allows reading recorded data: executions, output, heaps, sessions, events.
	Read Scope = "read"
	// Run allows running code, cancelling executions, and changing tags, sessions and
	// conversation contexts.
	Run Scope = "run"
	// Sign allows requesting a signed checkpoint of the current ledger.
	Sign Scope = "sign"
	// Admin allows reading the metrics, changing webhooks, deleting heaps, shredding content,
	// and sealing and removing volumes.
	Admin Scope = "admin"
)

// Scopes is a set of scopes. The zero value is empty.
type Scopes uint8

// AllScopes holds every scope.
const AllScopes Scopes = 1<<4 - 1

// allScopes is in the order of the bits of a Scopes.
var allScopes = [...]Scope{Read, Run, Sign, Admin}

// NewScopes returns a set. For an unknown scope it returns an error that lists the
// known ones.
func NewScopes(list ...Scope) (Scopes, error) {
	var set Scopes
	for _, s := range list {
		bit := bitOf(s)
		if bit == 0 {
			return 0, fmt.Errorf("unknown scope %q; the scopes are read, run, sign and admin", clip(string(s)))
		}
		set |= bit
	}
	return set, nil
}

func bitOf(s Scope) Scopes {
	for i, known := range allScopes {
		if s == known {
			return 1 << i
		}
	}
	return 0
}

// issuerPrefix marks the scopes of this service in the tokens of an issuer.
const issuerPrefix = "daybook:"

// AtIssuer returns the scope as an issuer must name it. An issuer may serve many
// services, and the admin of another service must not be an admin here. So Sign and
// Admin need the prefix.
func (s Scope) AtIssuer() Scope {
	if s == Sign || s == Admin {
		return issuerPrefix + s
	}
	return s
}

// granted returns the set of the scopes in an issuer's list. It ignores unknown ones. If
// bare is set, no scope needs the prefix.
func granted(list []string, bare bool) Scopes {
	var set Scopes
	for _, s := range list {
		name, prefixed := strings.CutPrefix(s, issuerPrefix)
		if scope := Scope(name); prefixed || bare || scope.AtIssuer() == scope {
			set |= bitOf(scope)
		}
	}
	return set
}

// Has reports whether the set allows what a scope allows.
func (s Scopes) Has(one Scope) bool {
	return s&bitOf(one) != 0 || one == Sign && s&bitOf(Admin) != 0
}

// List returns the scopes of the set, in a fixed order.
func (s Scopes) List() []Scope {
	list := []Scope{}
	for i, known := range allScopes {
		if s&(1<<i) != 0 {
			list = append(list, known)
		}
	}
	return list
}

// String returns the scopes separated by spaces, as in OAuth.
func (s Scopes) String() string {
	var names []string
	for _, one := range s.List() {
		names = append(names, string(one))
	}
	return strings.Join(names, " ")
}

// MarshalJSON encodes the set as a list.
func (s Scopes) MarshalJSON() ([]byte, error) { return json.Marshal(s.List()) }

// UnmarshalJSON decodes a list of known scopes.
func (s *Scopes) UnmarshalJSON(raw []byte) error {
	var list []Scope
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	set, err := NewScopes(list...)
	*s = set
	return err
}

// clip shortens a value for a message.
func clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "..."
	}
	return s
}
