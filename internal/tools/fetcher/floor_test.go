package fetcher_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"daybook/internal/tools/fetcher"
)

const noPublicAddress = "the host has no public address"

// No spelling of an address or a name reaches a network that is not public.
func TestSpellings(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was reached", r.Host) })
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	private := map[string]string{
		"private.example": "10.0.0.1", "loop.example": "127.0.0.1", "loop6.example": "::1", "metadata.example": "169.254.169.254", "mapped.example": "::ffff:127.0.0.1",
		"nat64.example": "64:ff9b::7f00:1", "six2four.example": "2002:7f00:1::", "translated.example": "::ffff:0:7f00:1", "ula.example": "fd00::1", "linklocal.example": "fe80::1",
	}
	f := newFetcher(t, func(o *fetcher.Options) {
		o.AllowNetworks = nil
		o.Resolver = resolver(func(name string, _ int) []string {
			if addr, ok := private[name]; ok {
				return []string{addr}
			}
			return nil
		})
	})
	hosts := []string{
		"127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0x7F.0x0.0x0.0x1", "017700000001", "0177.0.0.1", "127.0.0.1.", "0", "0.0.0.0",
		"127.255.255.254", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]",
		"[2002:7f00:1::]", "[::ffff:0:127.0.0.1]", "[fe80::1]", "[fec0::1]", "[fc00::1]", "[ff02::1]", "[2001:db8::1]", "[2001:0:7f00:1::]", "[100::1]",
		"10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "0xa9fea9fe", "2852039166", "100.64.0.1", "192.0.0.8", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
	}
	for name := range private {
		hosts = append(hosts, name, strings.ToUpper(name), name+".")
	}
	for _, host := range hosts {
		mustFail(t, f, request{URL: fmt.Sprintf("http://%s:%s/", host, u.Port())}, noPublicAddress)
	}
	for _, host := range []string{"[fe80::1%25eth0]", "[::1%25lo]", "1.2.3.4.5", "127.0.0.256", "0x100000000", "4294967296", "08", "a..b", "%31%32%37.1", "１２７.1", "a_b\u3002c", "user@127.0.0.1", "a\tb"} {
		mustFail(t, f, request{URL: "http://" + host + "/"}, "fetch: the ")
	}
}

// A server on the internet cannot redirect to a network that is not public.
func TestRedirectToPrivateAddress(t *testing.T) {
	t.Parallel()
	hidden := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a private address was reached") })
	hiddenURL, err := url.Parse(hidden.URL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.2:0") // stands for the internet
	if err != nil {
		t.Fatal(err)
	}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	f := newFetcher(t, func(o *fetcher.Options) {
		o.AllowNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
		o.Resolver = toLoopback()
	})
	for _, host := range []string{"127.0.0.1", "127.1", "[::1]", "localhost.example", "[::ffff:127.0.0.1]"} {
		to := "http://" + host + ":" + hiddenURL.Port()
		res := mustFail(t, f, request{URL: "http://" + l.Addr().String() + "/?to=" + url.QueryEscape(to)}, noPublicAddress)
		if len(res.Hops) != 2 || res.Hops[0].Status != 302 || res.Hops[1].Status != 0 {
			t.Errorf("%+v", res.Hops)
		}
	}
}

// The address that counts is the one that is dialed, and not what the name was resolved to
// earlier.
func TestNameThatChanges(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("reached")) })
	f := newFetcher(t, func(o *fetcher.Options) {
		o.AllowNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		o.Resolver = resolver(func(_ string, query int) []string {
			if query == 1 {
				return []string{"127.0.0.1"}
			}
			return []string{"127.0.0.9"}
		})
	})
	target := at(t, s, "changing.example", "/")
	if got := must(t, f, request{URL: target}); got.text(t) != "reached" {
		t.Errorf("%+v", got)
	}
	mustFail(t, f, request{URL: target}, noPublicAddress)
}

// The address of a host is not told to scripts, which could map a private network with it.
func TestAddressIsNotTold(t *testing.T) {
	t.Parallel()
	f := newFetcher(t, func(o *fetcher.Options) {
		o.AllowNetworks, o.Resolver = nil, resolver(func(string, int) []string { return []string{"10.11.12.13"} })
	})
	if res := mustFail(t, f, request{URL: "http://intranet.example/"}, noPublicAddress); strings.Contains(string(res.Text), "10.11") {
		t.Errorf("%s", res.Text)
	}
}

// No proxy of the environment is used: it would dial without the check.
func TestNoProxy(t *testing.T) {
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was used") })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	f := newFetcher(t, func(o *fetcher.Options) {
		o.AllowNetworks, o.Resolver = nil, resolver(func(string, int) []string { return []string{"10.0.0.1"} })
	})
	mustFail(t, f, request{URL: "http://somewhere.example/"}, noPublicAddress)
}
