package embed_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
)

// A server that cannot open its addresses does not take over from a background owner.
func TestRefusedStartTakesNothingOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}, Owner: embed.OwnerOptions{Background: true}})
	missing := filepath.Join(dir, "missing")
	for name, test := range map[string]struct {
		opts  embed.Options
		words []string
	}{
		"other machines": {embed.Options{HTTP: embed.HTTPOptions{Addr: "0.0.0.0:0"}}, []string{"no authentication"}},
		"busy HTTP":      {embed.Options{HTTP: embed.HTTPOptions{Addr: busyPort(t)}}, []string{"choose another --http-addr"}},
		"busy NATS":      {embed.Options{NATS: embed.NATSOptions{Addr: busyPort(t)}}, []string{"choose another --nats-addr"}},
		"NATS public":    {embed.Options{NATS: embed.NATSOptions{Addr: "0.0.0.0:0"}}, []string{"unencrypted"}},
		"no certificate": {embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0", CertFile: missing, KeyFile: missing}}, []string{"TLS certificate", missing}},
		"no tokens":      {embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Access: embed.AccessOptions{TokenFile: missing}}, []string{missing}},
	} {
		t.Run(name, func(t *testing.T) {
			test.opts.DataDir, test.opts.Owner.TakeOver = dir, true
			_, err := embed.Start(within(t), test.opts)
			wantError(t, err, test.words...)
			select {
			case <-owner.Released():
				t.Fatalf("the owner released the directory for a server that did not start: %v", err)
			default:
			}
		})
	}
}

// If the address is used by the server of the same directory, the error names that server.
func TestSecondServerAtTheAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	_, err := embed.Start(within(t), embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: strings.TrimPrefix(first.URL(), "http://")}, Owner: embed.OwnerOptions{TakeOver: true}})
	if !errors.Is(err, embed.ErrLocked) {
		t.Errorf("a second server at the same address: %v", err)
	}
}
