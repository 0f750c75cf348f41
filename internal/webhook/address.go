package webhook

import (
	"fmt"
	"net/netip"
)

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
