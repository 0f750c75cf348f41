package cli

import (
	"bytes"
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"
)

// A limit from the environment stays. An empty variable sets none.
func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	t.Setenv("GOMEMLIMIT", "3GiB")
	limitMemory(log)
	if now := debug.SetMemoryLimit(-1); now != before || !strings.Contains(out.String(), "3GiB") {
		t.Errorf("with GOMEMLIMIT the limit is %d, was %d: %s", now, before, out.String())
	}
	out.Reset()
	t.Setenv("GOMEMLIMIT", "")
	limitMemory(log)
	if strings.Contains(out.String(), "by GOMEMLIMIT") || !strings.Contains(out.String(), "memory limit") {
		t.Errorf("with an empty GOMEMLIMIT the log says: %s", out.String())
	}
}
