// Package publicaddr decides which addresses belong to the public internet. Clients that
// connect for tenants refuse other addresses when they dial, after names are resolved.
// publicaddr.go is its only file.
package publicaddr

import (
	"net"
	"net/netip"
)

// reserved lists addresses outside of the public internet, and addresses through which other
// addresses are reached. It does not repeat those that the methods of netip.Addr classify,
// and those outside of globalUnicast.
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
	"2001::/23",       // protocol assignments, Teredo among them
	"2001:db8::/32",   // documentation
	"2002::/16",       // 6to4: reaches IPv4 addresses
	"3fff::/20",       // documentation
)

// globalUnicast has all IPv6 addresses that are allocated for use on the internet. Outside
// of it are the IPv4-compatible, IPv4-translated and NAT64 addresses, which reach IPv4
// addresses, and segment routing.
var globalUnicast = netip.MustParsePrefix("2000::/3")

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, p := range list {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

// Is reports whether an address belongs to the public internet. It is false for loopback,
// private and reserved addresses, and for IPv6 addresses that reach IPv4 addresses, except
// mapped ones, which are their IPv4 address. Addresses of this machine may be public: see
// IsLocal.
func Is(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() || a.Is6() && !globalUnicast.Contains(a) {
		return false
	}
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// IsLocal reports whether an address is one of a list of interface addresses, such as the
// list of net.InterfaceAddrs.
func IsLocal(a netip.Addr, list []net.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, one := range list {
		if own, ok := addrOf(one); ok && own == a {
			return true
		}
	}
	return false
}

// addrOf returns the IP address of an interface address, and false if it has none.
func addrOf(a net.Addr) (netip.Addr, bool) {
	var ip net.IP
	switch a := a.(type) {
	case *net.IPNet:
		ip = a.IP
	case *net.IPAddr:
		ip = a.IP
	}
	addr, ok := netip.AddrFromSlice(ip)
	return addr.Unmap(), ok
}
