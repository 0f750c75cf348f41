package sandbox_test

import (
	"slices"
	"strings"
	"testing"

	"daybook/internal/exec/sandbox"
)

func TestMissing(t *testing.T) {
	t.Parallel()
	all := sandbox.Required(true)
	if !slices.IsSorted(all) || len(sandbox.Required(false)) != len(all)-1 {
		t.Errorf("required: %v, and for plain runs %v", all, sandbox.Required(false))
	}
	for _, layer := range all {
		if !sandbox.Known(layer) {
			t.Errorf("layer %s is not known", layer)
		}
		others := slices.DeleteFunc(slices.Clone(all), func(l string) bool { return l == layer })
		missing := sandbox.Missing(others, true)
		if !slices.Equal(missing, []string{layer}) {
			t.Errorf("without %s: %v", layer, missing)
		}
		err := &sandbox.MissingError{Layers: missing, Details: "what happened"}
		if s := err.Error(); !strings.Contains(s, "on this machine: "+layer+"; "+layer+": ") || !strings.HasSuffix(s, "(the worker reported: what happened)") {
			t.Errorf("without %s: %s", layer, s)
		}
	}
	if m := sandbox.Missing(append(all, "something new"), true); len(m) != 0 {
		t.Errorf("with more than all: %v", m)
	}
	if sandbox.Known("something new") {
		t.Error("an unknown layer counts as known")
	}
}

// Prove returns no layer that was not claimed, even if it is in force, and no claimed layer that
// is not in force.
func TestProveChecksClaims(t *testing.T) {
	if proven := sandbox.Prove(sandbox.Claims{}); len(proven) != 0 {
		t.Errorf("without a claim: %v", proven)
	}
	claims := sandbox.Claims{
		Layers:    []string{sandbox.Landlock, sandbox.NotDumpable, sandbox.DataLimit, sandbox.Limits, sandbox.Seccomp, sandbox.NoExecutableMemory, sandbox.ParentDeath, "something new"},
		DataLimit: 1, OpenFiles: 1,
	}
	if proven := sandbox.Prove(claims); len(proven) != 0 { // the test process has no layers
		t.Errorf("proven in an ordinary process: %v", proven)
	}
	if proven := (sandbox.Filter{}).Prove(); slices.Contains(proven, sandbox.NoExecutableMemory) {
		t.Errorf("a filter in an ordinary process: %v", proven)
	}
}

func TestViolation(t *testing.T) {
	t.Parallel()
	for stderr, want := range map[string]string{
		"daybook-sandbox: refused 41 3221225534\n":             "socket",
		"noise\ndaybook-sandbox: refused 57 3221225534\n":      "fork",
		"daybook-sandbox: refused 9999 3221225534\n":           "system call 9999",
		"daybook-sandbox: refused 20 1073741827\n":             "system call 20 of the 32-bit interface",
		"daybook-sandbox: refused 1 7\n":                       "system call 1 of architecture 0x7",
		"":                                                     "an unknown system call",
		"daybook-sandbox: refused":                             "an unknown system call",
		"daybook-sandbox: refused x y\n":                       "an unknown system call",
		"daybook-sandbox: refused -3 3221225534\n":             "an unknown system call",
		"daybook-sandbox: refused 99999999999999999999 1\n":    "an unknown system call",
		"daybook-sandbox: refused 41 3221225534 and \x1b[2J\n": "an unknown system call",
	} {
		if got := sandbox.Violation(stderr); got != want {
			t.Errorf("%q: %q, want %q", stderr, got, want)
		}
	}
}

// FuzzViolation passes to Violation what a worker may write after a script took it over. The
// result is recorded and must be short and printable.
func FuzzViolation(f *testing.F) {
	f.Add("daybook-sandbox: refused 41 3221225534\n")
	f.Add("daybook-sandbox: refused 41 3221225534\ndaybook-sandbox: refused \x00")
	f.Fuzz(func(t *testing.T, stderr string) {
		got := sandbox.Violation(stderr)
		if got == "" || len(got) > 80 || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q", got)
		}
	})
}
