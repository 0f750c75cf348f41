package policy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/internal/policy"
)

const rule = "data.mcp.fetch.allow"

// hosts is a policy in the form that users of mcp-v8 have.
const hosts = `package mcp.fetch

default allow = false

allow if {
    input.method == "GET"
    host_allowed
}

exact := {"example.com", "api.example.com"}

suffixes := {".example.org"}

host_allowed if exact[input.url_parsed.host]

host_allowed if {
    some suffix in suffixes
    endswith(input.url_parsed.host, suffix)
}
`

func compile(t *testing.T, texts ...string) *policy.Policy {
	t.Helper()
	p, err := policy.New(files(texts...), policy.Options{Rule: rule, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func files(texts ...string) []policy.File {
	list := make([]policy.File, len(texts))
	for i, text := range texts {
		list[i] = policy.File{Name: fmt.Sprintf("f%d.rego", i), Text: []byte(text)}
	}
	return list
}

func input(method, host string) map[string]any {
	return map[string]any{"method": method, "url_parsed": map[string]any{"host": host}}
}

func TestEvaluate(t *testing.T) {
	p := compile(t, hosts)
	for _, test := range []struct {
		method, host string
		allowed      bool
	}{
		{"GET", "example.com", true},
		{"GET", "a.example.org", true},
		{"GET", "example.org", false},
		{"GET", "example.com.evil.test", false},
		{"POST", "example.com", false},
	} {
		if d := p.Evaluate(t.Context(), input(test.method, test.host)); d.Allowed != test.allowed || d.Problem != "" {
			t.Errorf("%s %s: %+v", test.method, test.host, d)
		}
	}
}

// Files with each way to select the language are read.
func TestVersionsOfTheLanguage(t *testing.T) {
	for _, text := range []string{
		"package mcp.fetch\nimport rego.v1\nallow if input.method == \"GET\"",
		"package mcp.fetch\nimport future.keywords.if\nimport future.keywords.in\nallow if input.method in {\"GET\"}",
		"package mcp.fetch\nallow := input.method == \"GET\"",
	} {
		p := compile(t, text)
		if d := p.Evaluate(t.Context(), input("GET", "")); !d.Allowed {
			t.Errorf("%s: %+v", text, d)
		}
	}
}

// Rules of several files are one policy.
func TestSeveralFiles(t *testing.T) {
	p := compile(t, "package mcp.fetch\nallow if data.lib.isget", "package lib\nisget if input.method == \"GET\"")
	if d := p.Evaluate(t.Context(), input("GET", "")); !d.Allowed {
		t.Errorf("%+v", d)
	}
}

// Whatever is not true is a denial, with its reason.
func TestProblemsAreDenials(t *testing.T) {
	for _, test := range []struct{ text, problem string }{
		{`allow if input.method == "PUT"`, "data.mcp.fetch.allow is undefined for this input"},
		{`allow := "yes"`, "is of type string and not a boolean"},
		{`allow := 1`, "is of type number and not a boolean"},
		{`allow contains input.method`, "is of type set and not a boolean"},
		// The condition must not become true because an error made blocked undefined.
		{"allow if not blocked\nblocked if to_number(input.method) > 1", "to_number"},
		{"allow if true\nallow := false if input.method == \"GET\"", "conflict"},
	} {
		p := compile(t, "package mcp.fetch\n"+test.text)
		if d := p.Evaluate(t.Context(), input("GET", "")); d.Allowed || !strings.Contains(d.Problem, test.problem) {
			t.Errorf("%s: %+v, want %q", test.text, d, test.problem)
		}
	}
}

// A policy that does not end is a denial, and so is one whose caller gives up.
func TestEndlessPolicy(t *testing.T) {
	const endless = `package mcp.fetch
allow if {
	some a in numbers.range(1, 100000)
	some b in numbers.range(1, 100000)
	a * b == -1
}`
	p, err := policy.New(files(endless), policy.Options{Rule: rule, Timeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if d := p.Evaluate(t.Context(), input("GET", "")); d.Allowed || d.Problem != "the evaluation took longer than 1ms" {
		t.Errorf("%+v", d)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if d := compile(t, endless).Evaluate(ctx, input("GET", "")); d.Allowed || d.Problem != "the run ended first" {
		t.Errorf("after the end of the run: %+v", d)
	}
}

// Mistakes are found when the policy is read, with their place and a remedy.
func TestMistakes(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"package mcp.fetch\nallow if http.send({\"url\": \"http://a\"}).status_code == 200", "f0.rego:2: built-in function http.send is refused in policies: it uses the network"},
		{"package mcp.fetch\nallow if opa.runtime().env.HOME == \"/\"", "opa.runtime is refused in policies"},
		{"package mcp.fetch\nallow if time.now_ns() > 5", "time.now_ns is refused in policies: it reads the clock"},
		{"package mcp.fetch\nallow if rand.intn(\"a\", 2) == 1", "rand.intn is refused"},
		{"package mcp.fetch\nallow if net.lookup_ip_addr(\"a\") == {\"::1\"}", "net.lookup_ip_addr is refused"},
		{"package mcp.fetch\nallow if uuid.rfc4122(\"a\") == \"\"", "uuid.rfc4122 is refused"},
		{"package mcp.fetch\nallow if io.jwt.decode_verify(\"\", {}) == []", "io.jwt.decode_verify is refused"},
		{"package mcp.fetch\nallow if json.match_schema({}, {}) == [true, []]", "json.match_schema is refused"},
		{"package mcp.fetch\nallow if nosuch(1)", "f0.rego:2: undefined function nosuch"},
		{"package mcp.fetch\nallow {\n\tinput.method == \"GET\"\n}", "opa fmt --write --v0-v1"},
		{"package mcp.fetch\nallow if {", "f0.rego:"},
		{"package mcp.fetch\nallowed := true", "the policy has no rule data.mcp.fetch.allow: package mcp.fetch has no rule named allow"},
		{"package fetch\nallow := true", "its files have package fetch, and the rule belongs to package mcp.fetch"},
		{"", "f0.rego"},
		{"package mcp.fetch\nallow if allow", "recursive"},
	} {
		_, err := policy.New(files(test.text), policy.Options{Rule: rule})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
	}
	for _, r := range []string{"", "allow", "data", "input.allow", "data.a[x]", "data.mcp.fetch.allow == true"} {
		if _, err := policy.New(files(hosts), policy.Options{Rule: r}); err == nil || !strings.Contains(err.Error(), "must be a reference") {
			t.Errorf("rule %q: %v", r, err)
		}
	}
}

// Policies that are too deep or have very many errors end with an error of moderate size.
func TestEnormousPolicies(t *testing.T) {
	for _, text := range []string{
		"package mcp.fetch\nallow if " + strings.Repeat("[", 200000),
		"package mcp.fetch\n" + strings.Repeat("allow if nosuch(1)\n", 20000),
	} {
		_, err := policy.New(files(text), policy.Options{Rule: rule})
		if err == nil || len(err.Error()) > 4096 {
			t.Errorf("%.60s: an error of %d bytes", text, len(fmt.Sprint(err)))
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := policy.Read(dir); err == nil || !strings.Contains(err.Error(), "no file that ends in .rego") {
		t.Errorf("an empty directory: %v", err)
	}
	write("b.rego", "package b")
	write("a.rego", "package a")
	write("notes.txt", "not a policy")
	got, err := policy.Read(dir)
	if err != nil || len(got) != 2 || got[0].Name != "a.rego" || string(got[1].Text) != "package b" {
		t.Fatalf("%v, %v", got, err)
	}
	// What sha256sum *.rego | sha256sum prints.
	if hash := policy.HashFiles(got); hash != "f7d08950ae816277a77cf51cda2a755722dd978f893eef4699b55a31261ba56d" {
		t.Errorf("hash %s", hash)
	}
	slices.Reverse(got)
	if policy.HashFiles(got) != policy.HashFiles([]policy.File{got[1], got[0]}) {
		t.Error("the hash depends on the order of the files")
	}
	write("c.rego", strings.Repeat("#", policy.MaxBytes))
	if _, err := policy.Read(dir); err == nil || !strings.Contains(err.Error(), "larger than 4 MiB") {
		t.Errorf("too large: %v", err)
	}
	if _, err := policy.Read(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing file was read")
	}
}

func TestExplain(t *testing.T) {
	p := compile(t, hosts)
	d, steps := p.Explain(t.Context(), input("GET", "api.example.com"))
	if want := []string{"f0.rego:10: rule exact is true", "f0.rego:14: rule host_allowed is true", "f0.rego:5: rule allow is true"}; !d.Allowed || !slices.Equal(steps, want) {
		t.Errorf("%+v %q", d, steps)
	}
	d, steps = p.Explain(t.Context(), input("POST", "api.example.com"))
	if want := []string{`f0.rego:6: not true: input.method == "GET"`}; d.Allowed || !slices.Equal(steps, want) {
		t.Errorf("%+v %q", d, steps)
	}
}

// A policy decides the same about inputs at the same time as one after the other.
func TestConcurrentEvaluations(t *testing.T) {
	p := compile(t, hosts)
	done := make(chan error)
	for i := range 16 {
		go func() {
			var err error
			for range 50 {
				host := fmt.Sprintf("%d.example.org", i)
				if i%2 == 1 {
					host = "example.net"
				}
				if d := p.Evaluate(t.Context(), input("GET", host)); d.Allowed != (i%2 == 0) || d.Problem != "" {
					err = fmt.Errorf("%s: %+v", host, d)
				}
			}
			done <- err
		}()
	}
	for range 16 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkEvaluate(b *testing.B) {
	p, err := policy.New(files(hosts), policy.Options{Rule: rule})
	if err != nil {
		b.Fatal(err)
	}
	in := input("GET", "a.example.org")
	for b.Loop() {
		if !p.Evaluate(b.Context(), in).Allowed {
			b.Fatal("denied")
		}
	}
}
