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
)

// Bounds of one attempt, besides its time.
const (
	dialTimeout     = 10 * time.Second
	maxAnswerHeader = 64 << 10
	maxAnswerBody   = 64 << 10
)

// newClient makes the client of one webhook. The address is checked when it is
// dialled, after every name was resolved: what a name resolves to can change
// between any earlier look and then.
func newClient(o Options) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	if !o.AllowPrivate {
		dialer.ControlContext = onlyPublic
	}
	return &http.Client{
		Timeout: o.Timeout,
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would dial in our place, unchecked
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
			TLSHandshakeTimeout:    dialTimeout,
			MaxIdleConns:           1,
			MaxConnsPerHost:        1,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: maxAnswerHeader,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // nobody reads the answer
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func onlyPublic(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address: %w", address, err)
	}
	if !public(at.Addr()) {
		return &refusedError{at.Addr()}
	}
	return nil
}
