package embed_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
)

// A server that cannot serve leaves a background owner alone.
func TestRefusedStartTakesNothingOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner := start(t, embed.Options{DataDir: dir, NoRunner: true, Background: true})
	missing := filepath.Join(dir, "missing")
	for name, test := range map[string]struct {
		opts  embed.Options
		words []string
	}{
		"other machines": {embed.Options{HTTPAddr: "0.0.0.0:0"}, []string{"no authentication"}},
		"busy HTTP":      {embed.Options{HTTPAddr: busyPort(t)}, []string{"choose another --http-addr"}},
		"busy NATS":      {embed.Options{NATSAddr: busyPort(t)}, []string{"choose another --nats-addr"}},
		"NATS abroad":    {embed.Options{NATSAddr: "0.0.0.0:0"}, []string{"unencrypted"}},
		"no certificate": {embed.Options{HTTPAddr: "127.0.0.1:0", CertFile: missing, KeyFile: missing}, []string{"TLS certificate", missing}},
		"no tokens":      {embed.Options{HTTPAddr: "127.0.0.1:0", TokenFile: missing}, []string{missing}},
	} {
		t.Run(name, func(t *testing.T) {
			test.opts.DataDir, test.opts.TakeOver = dir, true
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

// The address of a server that serves the same directory is reported as that server.
func TestSecondServerAtTheAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, embed.Options{DataDir: dir, NoRunner: true, HTTPAddr: "127.0.0.1:0"})
	_, err := embed.Start(within(t), embed.Options{DataDir: dir, HTTPAddr: strings.TrimPrefix(first.URL(), "http://"), TakeOver: true})
	if !errors.Is(err, embed.ErrLocked) {
		t.Errorf("a second server at the same address: %v", err)
	}
}
