package policy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/internal/policy"
)

// Policies for chains. Those of readers and writers have the same rule.
const (
	readers = "package mcp.fetch\ndefault allow := false\nallow if input.method == \"GET\""
	writers = "package mcp.fetch\ndefault allow := false\nallow if input.method == \"POST\""
	team    = "package team\nallow if input.url_parsed.host == \"example.com\""
	broken  = "package mcp.fetch\nallow if to_number(input.method) == 1"
)

func sum(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:])
}

// chainDir returns a directory with the policies for chains.
func chainDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "team"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"readers.rego": readers, "writers.rego": writers, "team/team.rego": team, "broken.rego": broken} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func loadChain(t *testing.T, dir, text string) (*policy.Chain, error) {
	t.Helper()
	file := filepath.Join(dir, "policies.json")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	return policy.Load(file, policy.Options{Rule: rule, Timeout: time.Minute})
}

func TestChains(t *testing.T) {
	dir := chainDir(t)
	const (
		readersAndTeam   = `"policies":[{"url":"file://readers.rego"},{"url":"file://DIR/team","rule":"data.team.allow"}]`
		readersOrWriters = `"policies":[{"url":"file://readers.rego"},{"url":"file://writers.rego"}]`
	)
	lines := sum(readers) + "  data.mcp.fetch.allow\n" + sum(team) + "  data.team.allow\n"
	allHash, anyHash := sum("all\n"+lines), sum("any\n"+lines)
	both := sum(fmt.Sprintf("any\n%s  data.mcp.fetch.allow\n%s  data.mcp.fetch.allow\n", sum(readers), sum(writers)))
	for _, test := range []struct {
		chain, method, host  string
		allowed              bool
		policy, rule, reason string
	}{
		{`{"fetch":{"mode":"all",` + readersAndTeam + `}}`, "GET", "example.com", true, allHash, "data.mcp.fetch.allow and data.team.allow", ""},
		{`{"fetch":{` + readersAndTeam + `}}`, "GET", "example.com", true, allHash, "data.mcp.fetch.allow and data.team.allow", ""},
		{`{"fetch":{"mode":"all",` + readersAndTeam + `}}`, "POST", "example.com", false, sum(readers), "data.mcp.fetch.allow", ""},
		{`{"fetch":{"mode":"all",` + readersAndTeam + `}}`, "GET", "example.org", false, sum(team), "data.team.allow", "data.team.allow is undefined for this input"},
		{`{"fetch":{"mode":"any",` + readersAndTeam + `}}`, "GET", "example.org", true, sum(readers), "data.mcp.fetch.allow", ""},
		{`{"fetch":{"mode":"any",` + readersAndTeam + `}}`, "POST", "example.com", true, sum(team), "data.team.allow", ""},
		{`{"fetch":{"mode":"any",` + readersAndTeam + `}}`, "POST", "example.org", false, anyHash, "data.mcp.fetch.allow or data.team.allow", "policy " + sum(team)[:12] + ": data.team.allow is undefined for this input"},
		{`{"fetch":{"mode":"any",` + readersOrWriters + `}}`, "PUT", "example.org", false, both, "data.mcp.fetch.allow", ""},
		{`{"fetch":{"mode":"all",` + readersOrWriters + `}}`, "GET", "example.org", false, sum(writers), "data.mcp.fetch.allow", ""},
		{`{"fetch":{"mode":"any","policies":[{"url":"file://broken.rego"},{"url":"file://readers.rego"}]}}`, "GET", "h", true, sum(readers), "data.mcp.fetch.allow", ""},
		{`{"fetch":{"mode":"all","policies":[{"url":"file://readers.rego"},{"url":"file://broken.rego"}]}}`, "GET", "h", false, sum(broken), "data.mcp.fetch.allow", "the evaluation failed"},
		{`{"fetch":{"mode":"any","policies":[{"url":"file://writers.rego"}]}}`, "GET", "h", false, sum(writers), "data.mcp.fetch.allow", ""},
		{`{"fetch":{"mode":"all","policies":[]}}`, "GET", "example.com", false, sum("all\n"), "none", "there is no policy"},
		{`{"fetch":{"mode":"any","policies":[]}}`, "GET", "example.com", false, sum("any\n"), "none", "there is no policy"},
	} {
		c, err := loadChain(t, dir, test.chain)
		if err != nil {
			t.Fatalf("%s: %v", test.chain, err)
		}
		d := c.Evaluate(t.Context(), input(test.method, test.host))
		if d.Allowed != test.allowed || d.Policy != test.policy || d.Rule != test.rule || !strings.HasPrefix(d.Problem, test.reason) || test.reason == "" && d.Problem != "" {
			t.Errorf("%s: %s %s: %+v", test.chain, test.method, test.host, d)
		}
		if explained, _ := c.Explain(t.Context(), input(test.method, test.host)); explained != d {
			t.Errorf("%s: %s %s: %+v is explained as %+v", test.chain, test.method, test.host, d, explained)
		}
	}
}

// An explanation has the decision of each policy that was asked.
func TestExplainChain(t *testing.T) {
	dir := chainDir(t)
	c, err := loadChain(t, dir, `{"fetch":{"mode":"any","policies":[{"url":"file://broken.rego"},{"url":"file://readers.rego"},{"url":"file://writers.rego"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	_, lines := c.Explain(t.Context(), input("GET", "h"))
	want := []string{
		"broken.rego: denied by rule data.mcp.fetch.allow of policy " + sum(broken),
		"readers.rego: allowed by rule data.mcp.fetch.allow of policy " + sum(readers), "  readers.rego:3: rule allow is true",
	}
	if len(lines) < 4 || !strings.HasPrefix(lines[1], "  the evaluation failed") {
		t.Fatalf("%q", lines)
	}
	if got := append(lines[:1:1], lines[len(lines)-2:]...); !slices.Equal(got, want) {
		t.Errorf("%q", lines)
	}
}

func TestWrongChains(t *testing.T) {
	dir := chainDir(t)
	many := strings.Repeat(`{"url":"file://readers.rego"},`, 17)
	for text, want := range map[string]string{
		`{`: "must be a JSON object", `[]`: "must be a JSON object", `{}`: "must be a JSON object", `{"fetch":{}}`: "must be a JSON object", `{"fetch":null}`: "must be a JSON object", `{"fetch":{"policies":"x"}}`: "must be a JSON object",
		`{"fetch":{"policies":[]},"mcp_tools":{"policies":[]}}`:                                         `member "mcp_tools": policies decide about fetch only`,
		`{"fetch":{"policies":[],"mode":"some"}}`:                                                       `the mode must be "all" or "any"`,
		`{"fetch":{"policies":[],"modes":"any"}}`:                                                       `member "modes" is unknown`,
		`{"fetch":{"policies":[{"url":"http://localhost:8181"}]}}`:                                      "a policy server is not supported",
		`{"fetch":{"policies":[{"url":"file://"}]}}`:                                                    "the url must be file://",
		`{"fetch":{"policies":[{"rule":"data.x.y"}]}}`:                                                  "the url must be file://",
		`{"fetch":{"policies":[{"url":"file://readers.rego"},{"url":"file://none.rego"}]}}`:             "policy 2 of ",
		`{"fetch":{"policies":[{"url":"file://team"}]}}`:                                                "the policy has no rule data.mcp.fetch.allow",
		`{"fetch":{"policies":[{"url":"file://readers.rego","rule":"x"}]}}`:                             "it must be a reference",
		`{"fetch":{"policies":[` + strings.TrimSuffix(many, ",") + `]}}`:                                "more than 16 policies",
		`{"fetch":{"policies":[{"url":"file://policies.json"}]}}`:                                       "parse policy",
		`{"fetch":{"policies":[{"url":"file://readers.rego","policy_path":"mcp/fetch","allow":true}]}}`: `member "allow" is unknown`,
		`{"fetch":{"policies":[]}} {}`:                                                                  "must be a JSON object",
	} {
		if _, err := loadChain(t, dir, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, want %q", text, err, want)
		}
	}
	if _, err := policy.Load(filepath.Join(dir, "none.json"), policy.Options{Rule: rule}); err == nil {
		t.Error("a missing file was read")
	}
}
