package cli

import "testing"

// The addresses that a start prints have no credentials.
func TestWithoutCredentials(t *testing.T) {
	t.Parallel()
	for addresses, want := range map[string]string{
		"nats://127.0.0.1:4222":                             "nats://127.0.0.1:4222",
		"nats://user:s1@h1:4222, tls://user:s2@h2:4222/a?b": "nats://h1:4222,tls://h2:4222/a",
		"nats://TOKEN@h:4222":                               "nats://h:4222",
		"user:p@ss@h:4222":                                  "h:4222",
	} {
		if got := withoutCredentials(addresses); got != want {
			t.Errorf("%s is shown as %s, want %s", addresses, got, want)
		}
	}
}
