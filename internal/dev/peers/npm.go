package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// peerFiles are the list of packages, its lock file, and the handler that runs in Restate.
//
//go:embed npm/package.json npm/package-lock.json npm/durable.mjs
var peerFiles embed.FS

// install installs the packages in the user's cache, once for each version of the files, and
// returns their directory node_modules.
func install(ctx context.Context) (string, error) {
	entries, err := peerFiles.ReadDir("npm")
	if err != nil {
		return "", err
	}
	contents, sum := map[string][]byte{}, sha256.New()
	for _, e := range entries {
		raw, err := peerFiles.ReadFile("npm/" + e.Name())
		if err != nil {
			return "", err
		}
		contents[e.Name()] = raw
		sum.Write(raw)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "daybook-peers", hex.EncodeToString(sum.Sum(nil))[:16])
	modules, installed := filepath.Join(dir, "node_modules"), filepath.Join(dir, "installed")
	if _, err := os.Stat(installed); err == nil {
		return modules, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for name, raw := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install the peers with npm (Debian: apt-get install nodejs npm): %w\n%s", err, out)
	}
	return modules, os.WriteFile(installed, nil, 0o644)
}

// nodeIn returns the Node that is installed with the peers: Restate needs a newer one than Debian has.
func nodeIn(modules string) string { return filepath.Join(modules, "node24/bin/node") }
