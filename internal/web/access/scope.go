package access

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Scope is one thing a token may allow. Admin includes Sign; no other scope includes
// another.
type Scope string

// The scopes, of which a token carries at least one.
const (
	// Read lets see what is on record: executions, output, heaps, sessions, events.
	Read Scope = "read"
	// Run lets run code, cancel runs and edit tags.
	Run Scope = "run"
	// Sign lets ask for a signed checkpoint of the ledger as it is now.
	Sign Scope = "sign"
	// Admin lets see how the service is doing, across tenants.
	Admin Scope = "admin"
)

// Scopes is a set of scopes. The zero value is empty.
type Scopes uint8

// AllScopes holds every scope.
const AllScopes Scopes = 1<<4 - 1

// allScopes is in the order of the bits of a set.
var allScopes = [...]Scope{Read, Run, Sign, Admin}

// NewScopes makes a set. Unknown scopes are an error that lists the known ones.
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

// issuerPrefix keeps the scopes of this service apart from those of others.
const issuerPrefix = "daybook:"

// AtIssuer is the scope as an issuer has to name it. An issuer may serve many, and
// the admin of another service is not one here: Sign and Admin need the prefix.
func (s Scope) AtIssuer() Scope {
	if s == Sign || s == Admin {
		return issuerPrefix + s
	}
	return s
}

// granted makes a set of what an issuer calls scopes. Unknown ones are ignored. With
// bare set, every scope is believed without the prefix.
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

// Has reports whether the set allows what a scope stands for.
func (s Scopes) Has(one Scope) bool {
	return s&bitOf(one) != 0 || one == Sign && s&bitOf(Admin) != 0
}

// List returns the scopes in the set, in a fixed order.
func (s Scopes) List() []Scope {
	list := []Scope{}
	for i, known := range allScopes {
		if s&(1<<i) != 0 {
			list = append(list, known)
		}
	}
	return list
}

// String joins the scopes with spaces, as OAuth writes them.
func (s Scopes) String() string {
	var names []string
	for _, one := range s.List() {
		names = append(names, string(one))
	}
	return strings.Join(names, " ")
}

// MarshalJSON writes the list.
func (s Scopes) MarshalJSON() ([]byte, error) { return json.Marshal(s.List()) }

// UnmarshalJSON reads a list of known scopes.
func (s *Scopes) UnmarshalJSON(raw []byte) error {
	var list []Scope
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	set, err := NewScopes(list...)
	*s = set
	return err
}

// clip shortens a value quoted in a message.
func clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "..."
	}
	return s
}
