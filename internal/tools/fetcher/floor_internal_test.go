package fetcher

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestFloor(t *testing.T) {
	t.Parallel()
	var own []net.Addr
	var broken error
	f := floor{
		allowed: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fd00::/16")},
		local:   func() ([]net.Addr, error) { return own, broken },
	}
	dial := func(address string) error { return f.check(t.Context(), "tcp", address, nil) }
	for address, ok := range map[string]bool{
		"1.1.1.1:443": true, "[2606:4700::1111]:443": true, "127.0.0.1:443": false, "[::ffff:127.0.0.1]:443": false, "nonsense": false, "example.com:443": false,
		"10.1.2.3:80": true, "[::ffff:10.1.2.3]:80": true, "10.2.0.1:80": false, "[fd00::1]:1": true, "[fd00::1%eth0]:1": true, "[fd01::1]:1": false,
		// An allowed network that reaches IPv4 addresses allows only those that may be dialed.
		"[64:ff9b::a01:203]:80": true, "[64:ff9b::a02:1]:80": false, "[64:ff9b::7f00:1]:80": false, "[64:ff9b::101:101]:80": true,
		"[2002:a01:203::1]:80": true, "[2002:7f00:1::1]:80": false, "[2002:101:101::1]:80": true,
	} {
		if err := dial(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	own = []net.Addr{&net.IPNet{IP: net.ParseIP("1.1.1.1"), Mask: net.CIDRMask(24, 32)}, &net.IPNet{IP: net.ParseIP("10.1.0.5"), Mask: net.CIDRMask(24, 32)}}
	if dial("1.1.1.1:443") == nil || dial("[::ffff:1.1.1.1]:443") == nil {
		t.Error("a public address of this machine was dialed")
	}
	if err := dial("10.1.0.5:443"); err != nil {
		t.Errorf("an address of this machine in an allowed network: %v", err)
	}
	broken = errors.New("no netlink")
	if err := dial("1.1.1.2:443"); err == nil || !strings.Contains(err.Error(), "no netlink") {
		t.Errorf("where the machine's addresses are not known: %v", err)
	}
}

// The client uses no proxy, and keeps no connections.
func TestTransport(t *testing.T) {
	t.Parallel()
	tr := newTransport(Options{}.withDefaults(), net.InterfaceAddrs)
	if tr.Proxy != nil || !tr.DisableKeepAlives || !tr.DisableCompression || tr.DialTLSContext != nil || tr.DialContext == nil {
		t.Errorf("%+v", tr)
	}
}
