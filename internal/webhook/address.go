package webhook

import (
	"fmt"
	"net/netip"
)

// reserved lists addresses outside of the public internet, and addresses through which other
// addresses are reached. It does not repeat those that the methods of netip.Addr classify.
var reserved = prefixes(
	"0.0.0.0/8",       // this host
	"100.64.0.0/10",   // networks of carriers
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // 6to4 relays
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"240.0.0.0/4",     // future use and broadcast
	"::/96",           // IPv4-compatible
	"64:ff9b::/96",    // NAT64: reaches IPv4 addresses
	"64:ff9b:1::/48",  // local NAT64
	"100::/64",        // discarded
	"2001::/23",       // protocol assignments, Teredo among them
	"2001:db8::/32",   // documentation
	"2002::/16",       // 6to4: reaches IPv4 addresses
	"3fff::/20",       // documentation
	"5f00::/16",       // segment routing
	"fec0::/10",       // former site-local
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, p := range list {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

// isPublic reports whether an address belongs to the public internet. It is false for
// loopback, private and reserved addresses. Public addresses of this machine are refused by
// dialRule.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// refusedAddressError is returned for an address that the client refuses.
type refusedAddressError struct {
	addr    netip.Addr
	isLocal bool // an address of this machine
}

func (e *refusedAddressError) Error() string {
	if e.isLocal {
		return fmt.Sprintf("%s is an address of this machine; start the server with --webhook-allow-private to send there", e.addr)
	}
	return fmt.Sprintf("%s is not a public address; start the server with --webhook-allow-private to send there", e.addr)
}
