package fetcher

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"daybook/internal/publicaddr"
)

// refusedAddressError is returned for an address that is not dialed. Its text does not
// contain the address, because scripts must not learn which private address a name has.
type refusedAddressError struct{ addr netip.Addr }

func (*refusedAddressError) Error() string { return "the address is not public" }

// floor decides which addresses are dialed. It is asked with the address that a connection
// is opened to, after names are resolved: what a name resolved to earlier does not matter.
type floor struct {
	// allowed lists networks of the operator that are dialed although they are not public.
	allowed []netip.Prefix
	// local lists the addresses of this machine. Each dial calls it, because they can change.
	local func() ([]net.Addr, error)
}

// check is the ControlContext of a net.Dialer.
func (f floor) check(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address: %w", address, err)
	}
	addr := at.Addr().Unmap().WithZone("")
	if f.isAllowed(addr) {
		return nil
	}
	if !publicaddr.Is(addr) {
		return &refusedAddressError{addr}
	}
	list, err := f.local()
	if err != nil {
		return fmt.Errorf("list the addresses of this machine, where nothing is sent: %w", err)
	}
	if publicaddr.IsLocal(addr, list) {
		return &refusedAddressError{addr}
	}
	return nil
}

// isAllowed reports whether an address is in a network of the operator. An address that
// reaches an IPv4 address is allowed only if that one may be dialed too.
func (f floor) isAllowed(addr netip.Addr) bool {
	contains := func(a netip.Addr) bool {
		return slices.ContainsFunc(f.allowed, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if !contains(addr) {
		return false
	}
	inner, ok := embeddedIPv4(addr)
	return !ok || contains(inner) || publicaddr.Is(inner)
}

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// embeddedIPv4 returns the IPv4 address that a NAT64 or 6to4 address reaches.
func embeddedIPv4(addr netip.Addr) (netip.Addr, bool) {
	raw := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(raw[12:16])), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(raw[2:6])), true
	}
	return netip.Addr{}, false
}
