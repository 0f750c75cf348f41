package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"daybook/internal/policy"
	"daybook/internal/tools/fetcher"
)

type policyCmd struct {
	Test policyTestCmd `cmd:"" help:"Decide about a request as a server with this policy would."`
}

type policyTestCmd struct {
	Policy  string   `arg:"" help:"Rego file, directory of such files, or JSON file with several policies, as for --fetch-policy." placeholder:"FILE|DIR"`
	URL     string   `arg:"" optional:"" help:"URL of the request." placeholder:"URL"`
	Method  string   `help:"Method of the request." default:"GET" placeholder:"METHOD"`
	Headers []string `name:"header" sep:"none" help:"Header of the request; may be repeated." placeholder:"NAME:VALUE"`
	Tenant  string   `help:"Tenant of the run." default:"default" placeholder:"TENANT"`
	Actor   string   `help:"Client that submitted the run." default:"anonymous" placeholder:"NAME"`
	Session string   `help:"Session of the run." placeholder:"NAME"`
	Input   string   `help:"JSON file with the whole input, or - for stdin, in place of a URL." placeholder:"FILE"`
	Rule    string   `help:"Rule that decides; several policies may name others." default:"data.mcp.fetch.allow" placeholder:"RULE"`
	JSON    bool     `help:"Print JSON, with the input."`
}

// Help is shown by "daybook policy test --help".
func (c *policyTestCmd) Help() string {
	return "It needs no server and sends no request. Addresses are not looked at: a server also refuses those that are not public.\n\n" +
		"Examples:\n\n" +
		"  daybook policy test fetch.rego https://api.example.com/v1/items\n\n" +
		"  daybook policy test policies.json https://api.example.com/v1/items\n\n" +
		"  daybook policy test policies/ https://api.example.com/ --method POST --header 'Content-Type: text/plain'\n\n" +
		"Exit status:\n\n" +
		"  0  The request is allowed.\n\n" +
		"  1  The request is denied.\n\n" +
		"  2  The policy, the request or the command line has a mistake."
}

// policyTimeout is the time for one evaluation. It is longer than that of a server, so that
// a busy machine changes no answer; slowPolicy is the time of a server.
const (
	policyTimeout = 10 * time.Second
	slowPolicy    = 50 * time.Millisecond
)

// maxPolicyInput is the maximum size of the file of --input, in bytes.
const maxPolicyInput = 4 << 20

// Run prints the decision and why.
func (c *policyTestCmd) Run(ctx context.Context, std *streams) error {
	p, err := policy.Load(c.Policy, policy.Options{Rule: c.Rule, Timeout: policyTimeout})
	if err != nil {
		return usageError{err}
	}
	input, err := c.input(std)
	if err != nil {
		return usageError{err}
	}
	began := time.Now()
	d := p.Evaluate(ctx, input)
	took := time.Since(began)
	_, why := p.Explain(ctx, input)
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // Main words an interruption
	}
	if c.JSON {
		var text []byte
		text, err = json.Marshal(map[string]any{"allowed": d.Allowed, "problem": d.Problem, "rule": d.Rule, "policy_sha256": d.Policy, "why": append([]string{}, why...), "input": input})
		if err == nil {
			err = std.out.WriteJSON(string(text))
		}
	} else {
		c.print(std, d, why, took)
	}
	if err == nil && !d.Allowed {
		return exitError(exitFailed)
	}
	return err
}

func (c *policyTestCmd) print(std *streams, d policy.Decision, why []string, took time.Duration) {
	verdict := "denied"
	if d.Allowed {
		verdict = "allowed"
	}
	fmt.Fprintf(std.out, "%s by rule %s of policy %s\n", verdict, d.Rule, d.Policy)
	if d.Problem != "" {
		fmt.Fprintf(std.out, "  %s\n", d.Problem)
	}
	for _, line := range why {
		fmt.Fprintf(std.out, "  %s\n", line)
	}
	if took > slowPolicy {
		fmt.Fprintf(std.err, "The evaluation took %s. A policy of a server denies after %s.\n", took.Round(time.Millisecond), slowPolicy)
	}
}

// input returns the input of the policy.
func (c *policyTestCmd) input(std *streams) (map[string]any, error) {
	switch {
	case (c.URL == "") == (c.Input == ""):
		return nil, errors.New("give either a URL or --input")
	case c.URL != "":
		var headers [][2]string
		for _, h := range c.Headers {
			name, value, ok := strings.Cut(h, ":")
			if !ok {
				return nil, fmt.Errorf("--header %.80q: the form is NAME:VALUE", h)
			}
			headers = append(headers, [2]string{strings.TrimSpace(name), strings.TrimSpace(value)})
		}
		return fetcher.Input(fetcher.Caller{Tenant: c.Tenant, Actor: c.Actor, Session: c.Session, Execution: "00000000-0000-0000-0000-000000000000"}, c.Method, c.URL, headers)
	}
	from := std.in
	if c.Input != "-" {
		f, err := os.Open(c.Input)
		if err != nil {
			return nil, fmt.Errorf("--input: %w", err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxPolicyInput+1))
	if err != nil {
		return nil, fmt.Errorf("--input: %w", err)
	}
	var input map[string]any
	if err := json.Unmarshal(text, &input); err != nil || input == nil || len(text) > maxPolicyInput {
		return nil, fmt.Errorf("--input %s: it must be a JSON object of at most %d MiB", c.Input, maxPolicyInput>>20)
	}
	return input, nil
}
