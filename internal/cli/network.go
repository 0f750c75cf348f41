package cli

import (
	"fmt"
	"net/netip"
)

// network is a network on the command line, as address/bits.
type network struct{ netip.Prefix }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *network) UnmarshalText(raw []byte) (err error) {
	text := string(raw)
	if n.Prefix, err = netip.ParsePrefix(text); err == nil {
		return nil
	}
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return fmt.Errorf("%q is an address: give a network as address/bits, such as %s/%d for this address alone", text, address, address.BitLen())
	}
	return fmt.Errorf("%q is not a network as address/bits, such as 10.0.0.0/8, 10.0.0.1/32 or fd00::/8", text)
}

func prefixes(list []network) []netip.Prefix {
	var out []netip.Prefix
	for _, n := range list {
		out = append(out, n.Prefix)
	}
	return out
}
