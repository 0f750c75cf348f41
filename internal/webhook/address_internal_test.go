package webhook

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The client dials only public addresses, and no address that this machine has at the
// time.
func TestDialRule(t *testing.T) {
	t.Parallel()
	var own []net.Addr
	var broken error
	rule := dialRule{func() ([]net.Addr, error) { return own, broken }}
	dial := func(address string) error { return rule.check(t.Context(), "tcp", address, nil) }
	for address, ok := range map[string]bool{"1.1.1.1:443": true, "[2606:4700::1111]:443": true, "127.0.0.1:443": false, "[::ffff:127.0.0.1]:443": false, "[fe80::1%eth0]:443": false, "nonsense": false, "example.com:443": false} {
		if err := dial(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	own = []net.Addr{
		&net.IPNet{IP: net.ParseIP("127.0.0.1"), Mask: net.CIDRMask(8, 32)}, &net.IPNet{IP: net.ParseIP("1.1.1.1"), Mask: net.CIDRMask(24, 32)},
		&net.IPAddr{IP: net.ParseIP("2606:4700::1111")}, &net.UnixAddr{Name: "x"},
	}
	for address, ok := range map[string]bool{"1.1.1.1:443": false, "[::ffff:1.1.1.1]:443": false, "[2606:4700::1111]:8080": false, "1.1.1.2:443": true, "[2606:4700::1112]:443": true} {
		err := dial(address)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "an address of this machine") {
			t.Errorf("%s: %v", address, err)
		}
	}
	own = nil
	if err := dial("1.1.1.1:443"); err != nil {
		t.Errorf("once the machine has lost it: %v", err)
	}
	broken = errors.New("no netlink")
	if err := dial("1.1.1.1:443"); err == nil || !strings.Contains(err.Error(), "no netlink") {
		t.Errorf("where the machine's addresses are not known: %v", err)
	}
	if list, err := net.InterfaceAddrs(); err != nil || len(list) == 0 {
		t.Errorf("this machine has the addresses %v, %v", list, err)
	}
}

// The client uses no proxy, which tests of deliveries cannot detect.
func TestClientHasNoProxy(t *testing.T) {
	t.Parallel()
	if tr := newClient(Options{}).Transport.(*http.Transport); tr.Proxy != nil || tr.DialContext == nil || tr.DialTLSContext != nil {
		t.Errorf("%+v", tr)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	o, err := Options{Dir: "x"}.withDefaults()
	if err == nil {
		t.Error("options without a ledger were accepted")
	}
	o.BackoffFirst, o.BackoffMax = time.Second, 15*time.Minute
	for failed, base := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 10: 512 * time.Second, 11: 15 * time.Minute, 40: 15 * time.Minute, 1 << 20: 15 * time.Minute} {
		var least, most time.Duration = 1 << 62, 0
		for range 200 {
			d := o.backoff(failed)
			least, most = min(least, d), max(most, d)
		}
		if least < base*3/4 || most > base*5/4 || most-least < base/10 {
			t.Errorf("after %d failures between %s and %s, around %s", failed, least, most, base)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, "0": 0, "-5": 0, "soon": 0, "99999999999999999999": 0,
		"Sat, 21 Nov 2026 09:31:00 GMT": time.Minute, "Sat, 21 Nov 2026 09:29:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
