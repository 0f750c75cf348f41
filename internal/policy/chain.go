package policy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of a file with several policies.
const (
	maxPolicies  = 16
	maxChainFile = 256 << 10 // bytes
)

// mode is the way in which several policies decide.
type mode string

const (
	modeAll mode = "all" // each policy must allow; the default
	modeAny mode = "any" // one policy must allow
)

// Chain is one policy, or several that decide together. It is safe for concurrent use.
type Chain struct {
	mode     mode
	policies []*Policy
	names    []string // of the policies, for explanations
	hash     string
	rule     string
}

// Load reads and compiles what decides: a file with a policy or a directory, or a file that
// ends in .json and names several policies:
//
//	{"fetch": {"mode": "all", "policies": [{"url": "file://base.rego"}, {"url": "file://team.rego", "rule": "data.team.allow"}]}}
//
// This is the form of mcp-v8. Paths are relative to the directory of the file. Options.Rule is
// the rule of policies that name none. Without policies, everything is denied.
func Load(path string, o Options) (*Chain, error) {
	if strings.HasSuffix(strings.ToLower(path), ".json") {
		return loadChain(path, o)
	}
	p, err := load(path, o)
	if err != nil {
		return nil, err
	}
	return newChain(modeAll, []*Policy{p}, []string{path}), nil
}

// load reads and compiles one policy.
func load(path string, o Options) (*Policy, error) {
	files, err := read(path)
	if err != nil {
		return nil, err
	}
	return New(files, o)
}

// chainFile is the member of a file with several policies.
type chainFile struct {
	Mode     mode `json:"mode"`
	Policies *[]struct {
		URL        string `json:"url"`
		Rule       string `json:"rule"`
		PolicyPath string `json:"policy_path"` // for servers, which are refused
	} `json:"policies"`
}

func loadChain(path string, o Options) (*Chain, error) {
	f, err := readFile(path, filepath.Base(path), maxChainFile)
	if err != nil {
		return nil, err
	}
	c, err := decodeChain(f.Text)
	if err != nil {
		return nil, fmt.Errorf("read policies %s: %w", path, err)
	}
	var policies []*Policy
	var names []string
	for i, one := range *c.Policies {
		name, isFile := strings.CutPrefix(one.URL, "file://")
		if !isFile || name == "" {
			return nil, fmt.Errorf("read policies %s: policy %d: the url must be file:// and a path; a policy server is not supported, because it could decide differently the next time", path, i+1)
		}
		at := name
		if !filepath.IsAbs(at) {
			at = filepath.Join(filepath.Dir(path), at)
		}
		own := o
		own.Rule = cmp.Or(one.Rule, o.Rule)
		p, err := load(at, own)
		if err != nil {
			return nil, fmt.Errorf("policy %d of %s: %w", i+1, path, err)
		}
		policies, names = append(policies, p), append(names, name)
	}
	return newChain(c.Mode, policies, names), nil
}

// decodeChain decodes the file of a chain. Members for other operations are refused: their
// policies would not be asked.
func decodeChain(text []byte) (chainFile, error) {
	var c chainFile
	var categories map[string]json.RawMessage
	wrong := errors.New(`it must be a JSON object such as {"fetch": {"mode": "all", "policies": [{"url": "file://fetch.rego"}]}}`)
	if err := json.Unmarshal(text, &categories); err != nil {
		return c, wrong
	}
	for name := range categories {
		if name != "fetch" {
			return c, fmt.Errorf("member %.40q: policies decide about fetch only; remove the member", name)
		}
	}
	d := json.NewDecoder(bytes.NewReader(categories["fetch"]))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return c, fmt.Errorf("member %s is unknown: fetch has mode and policies, and a policy has url and rule", field)
		}
		return c, wrong
	}
	switch c.Mode = cmp.Or(c.Mode, modeAll); {
	case c.Policies == nil:
		return c, wrong
	case c.Mode != modeAll && c.Mode != modeAny:
		return c, fmt.Errorf("the mode must be %q or %q", modeAll, modeAny)
	case len(*c.Policies) > maxPolicies:
		return c, fmt.Errorf("it has more than %d policies", maxPolicies)
	}
	return c, nil
}

// newChain returns a chain. Its hash is the SHA-256 of a line with the mode, and a line with
// the hash and the rule of each policy. The hash of one policy is that of the policy.
func newChain(m mode, policies []*Policy, names []string) *Chain {
	c := &Chain{mode: m, policies: policies, names: names, rule: "none"}
	if len(policies) == 1 {
		c.hash, c.rule = policies[0].hash, policies[0].rule
		return c
	}
	lines := []byte(m + "\n")
	var rules []string
	for _, p := range policies {
		lines = fmt.Appendf(lines, "%s  %s\n", p.hash, p.rule)
		if !slices.Contains(rules, p.rule) {
			rules = append(rules, p.rule)
		}
	}
	c.hash = hexSHA256(lines)
	if len(rules) > 0 {
		c.rule = strings.Join(rules, map[mode]string{modeAll: " and ", modeAny: " or "}[m])
	}
	return c
}

// Hash returns the hash of the policy; for several, that of the chain.
func (c *Chain) Hash() string { return c.hash }

// Rule returns the reference of the rule that decides; for several, all of them.
func (c *Chain) Rule() string { return c.rule }

// Evaluate decides about an input like Policy.Evaluate. With several policies, the decision
// names the policy that decided alone, otherwise the chain.
func (c *Chain) Evaluate(ctx context.Context, input map[string]any) Decision {
	return c.decide(func(_ int, p *Policy) Decision { return p.Evaluate(ctx, input) })
}

// decide asks the policies in their order, until one decides.
func (c *Chain) decide(ask func(i int, p *Policy) Decision) Decision {
	together := Decision{Allowed: c.mode == modeAll && len(c.policies) > 0, Policy: c.hash, Rule: c.rule}
	var problems []string
	for i, p := range c.policies {
		d := ask(i, p)
		if len(c.policies) == 1 || d.Allowed == (c.mode == modeAny) {
			return d
		}
		if d.Problem != "" {
			problems = append(problems, fmt.Sprintf("policy %.12s: %s", p.hash, d.Problem))
		}
	}
	if len(c.policies) == 0 {
		problems = []string{"there is no policy"}
	}
	together.Problem = strings.Join(problems, "; ")
	return together
}

// Explain decides about an input like Evaluate, and returns what decided, as lines with
// places in the files: the rules that were true if a policy allows the input, otherwise the
// expressions that were not true. With several policies, the lines of each one that was asked
// follow a line with its decision.
func (c *Chain) Explain(ctx context.Context, input map[string]any) (Decision, []string) {
	var lines []string
	d := c.decide(func(i int, p *Policy) Decision {
		d, why := p.explain(ctx, input)
		if len(c.policies) == 1 {
			lines = why
			return d
		}
		verdict := "denied"
		if d.Allowed {
			verdict = "allowed"
		}
		lines = append(lines, fmt.Sprintf("%s: %s by rule %s of policy %s", c.names[i], verdict, p.rule, p.hash))
		if d.Problem != "" {
			lines = append(lines, "  "+d.Problem)
		}
		for _, line := range why {
			lines = append(lines, "  "+line)
		}
		return d
	})
	return d, lines
}
