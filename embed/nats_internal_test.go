package embed

import "testing"

// serverName returns no credentials.
func TestServerName(t *testing.T) {
	for address, want := range map[string]string{
		"":                                "",
		"nats://a:s/ecret@h:4223":         "h:4223",
		"tls://token@h":                   "h:4222",
		"localhost:4222":                  "localhost:4222",
		"nats://a:b@h1:1, nats://[::1]/x": "h1:1,[::1]:4222",
	} {
		if got := serverName(address); got != want {
			t.Errorf("serverName(%q) is %q, not %q", address, got, want)
		}
	}
}
