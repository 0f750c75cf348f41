package publicaddr_test

import (
	"net"
	"net/netip"
	"testing"

	"daybook/internal/publicaddr"
)

func TestIs(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"93.184.215.14": true, "1.1.1.1": true, "172.15.0.1": true, "172.32.0.1": true, "100.63.0.1": true, "100.128.0.1": true, "2606:4700::1111": true,
		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "127.0.0.1": false, "127.255.255.254": false, "169.254.169.254": false,
		"172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "100.64.0.1": false, "100.127.255.255": false, "192.0.0.8": false,
		"192.0.2.1": false, "198.18.0.1": false, "198.51.100.7": false, "203.0.113.7": false, "224.0.0.1": false, "239.1.1.1": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd12:3456::1": false, "fec0::1": false, "ff02::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.1.2.3": false, "::ffff:1.1.1.1": true, "::7f00:1": false, "::ffff:0:127.0.0.1": false, "::ffff:0:1.1.1.1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::101:101": false, "64:ff9b:1::7f00:1": false, "2002:7f00:1::1": false, "2001:db8::1": false, "2001:0:7f00:1::": false, "100::1": false,
		"5f00::1": false, "3fff::1": false, "4000::1": false, "2606:4700::1111%eth0": true,
	} {
		if got := publicaddr.Is(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %t", addr, got)
		}
	}
	if publicaddr.Is(netip.Addr{}) {
		t.Error("no address at all is public")
	}
}

func TestIsLocal(t *testing.T) {
	t.Parallel()
	own := []net.Addr{
		&net.IPNet{IP: net.ParseIP("1.1.1.1"), Mask: net.CIDRMask(24, 32)}, &net.IPAddr{IP: net.ParseIP("2606:4700::1111")}, &net.UnixAddr{Name: "x"},
	}
	for addr, want := range map[string]bool{"1.1.1.1": true, "::ffff:1.1.1.1": true, "2606:4700::1111": true, "2606:4700::1111%eth0": true, "1.1.1.2": false} {
		if got := publicaddr.IsLocal(netip.MustParseAddr(addr), own); got != want {
			t.Errorf("%s: %t", addr, got)
		}
	}
}
