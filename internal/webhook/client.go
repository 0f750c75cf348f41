package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"daybook/internal/publicaddr"
)

// Limits of one attempt, besides its time limit.
const (
	dialTimeout     = 10 * time.Second
	maxAnswerHeader = 64 << 10
	maxAnswerBody   = 64 << 10
)

// newClient returns the client of one webhook. It checks the address when it dials,
// after names are resolved, because a name can resolve to another address after any
// earlier check.
func newClient(o Options) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	if !o.AllowPrivate {
		dialer.ControlContext = dialRule{net.InterfaceAddrs}.check
	}
	return &http.Client{
		Timeout: o.Timeout,
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would dial without the check of the address
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    dialTimeout,
			MaxIdleConns:           1,
			MaxConnsPerHost:        1,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: maxAnswerHeader,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // the response body is discarded
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dialRule refuses addresses that are not public and those of this machine.
type dialRule struct {
	// local lists the addresses of this machine. Each dial calls it, because they can
	// change.
	local func() ([]net.Addr, error)
}

func (d dialRule) check(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address: %w", address, err)
	}
	if !publicaddr.Is(at.Addr()) {
		return &refusedAddressError{addr: at.Addr()}
	}
	list, err := d.local()
	if err != nil {
		return fmt.Errorf("list the addresses of this machine, where nothing is sent: %w", err)
	}
	if publicaddr.IsLocal(at.Addr(), list) {
		return &refusedAddressError{addr: at.Addr(), isLocal: true}
	}
	return nil
}
