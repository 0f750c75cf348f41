package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"daybook/events"
	"daybook/internal/policy"
	"daybook/internal/tools/fetcher"
	"daybook/ledger"
	"daybook/runner"
)

// ReadFetchHeaders reads rules for Options.Fetch.Headers. flags are
// "host=HOST,header=NAME,value=VALUE". file is a JSON file of rules, or empty. Values may
// refer to variables of the environment and to files. Errors name the command-line flags
// --fetch-header and --fetch-header-config.
func ReadFetchHeaders(flags []string, file string) ([]FetchHeader, error) {
	var rules []FetchHeader
	var problems []error
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--fetch-header-config: %w", err)
		}
		if rules, err = fetcher.ParseHeaderFile(text, os.LookupEnv); err != nil {
			problems = append(problems, fmt.Errorf("--fetch-header-config %s: %w", file, err))
		}
	}
	for _, f := range flags {
		r, err := fetcher.ParseHeaderFlag(f, os.LookupEnv)
		if err != nil {
			problems = append(problems, fmt.Errorf("--fetch-header: %w", err))
		}
		rules = append(rules, r)
	}
	return rules, errors.Join(problems...)
}

// openFetch reads the policy of requests of scripts.
func (d *Daybook) openFetch(context.Context) error {
	o := d.opts.Fetch
	if o.Policy == "" || d.opts.Runs.Elsewhere {
		return nil
	}
	rules, err := policy.Load(o.Policy, policy.Options{Rule: cmp.Or(o.Rule, fetcher.DefaultRule)})
	if err != nil {
		return ofField("Fetch.Policy", err)
	}
	d.fetch, err = fetcher.New(fetcher.Options{
		Policy: rules, Headers: o.Headers, AllowNetworks: o.AllowNetworks, MaxRequestBytes: o.RequestMaxBytes, MaxResponseBytes: o.ResponseMaxBytes,
		MaxHeaderBytes: o.HeaderMaxBytes, Timeout: o.Timeout, UserAgent: "Daybook/" + d.opts.Version, Memory: fetchMemory{toolMemory{d.budget}}, Logger: d.opts.Logger,
	})
	if err != nil {
		return ofField("Fetch.Headers", err)
	}
	d.opts.Logger.Info("scripts may send HTTP requests that the policy allows", "policy", o.Policy, "sha256", rules.Hash(), "rule", rules.Rule())
	return nil
}

// fetchMemory accounts for the responses of fetches as for the results of tools.
type fetchMemory struct{ toolMemory }

// Take implements fetcher.Memory.
func (m fetchMemory) Take(ctx context.Context, tenant string, n int64) (fetcher.Held, error) {
	return m.toolMemory.Take(ctx, tenant, n)
}

// isFetch reports whether a host call is a fetch.
func isFetch(c ledger.HostCall) bool {
	return c.Server == events.FetchServer && c.Tool == events.FetchTool
}

// performFetch performs a fetch of a script.
func performFetch(ctx context.Context, f *fetcher.Fetcher, r ledger.Request, c ledger.HostCall) runner.ServerResult {
	got := f.Fetch(ctx, fetcher.Caller{Tenant: r.Tenant, Actor: r.Actor.Principal, Session: r.Session, Execution: r.ExecutionID}, c.Arguments)
	record := &events.FetchRecord{RequestBody: fetchBody(got.RequestBody), ResponseBody: fetchBody(got.ResponseBody)}
	var requests []events.FetchRequest
	for _, h := range got.Hops {
		record.Decisions = append(record.Decisions, events.FetchDecision{Allowed: h.Allowed, PolicySHA256: h.Policy, Rule: h.Rule, AddedHeaders: h.Added, Status: h.Status})
		requests = append(requests, events.FetchRequest{Method: h.Method, URL: h.URL[:min(len(h.URL), maxRecordedURL)], Problem: h.Problem})
	}
	return runner.ServerResult{Outcome: events.HostOutcome(got.Outcome), Text: got.Text, Fetch: record, Requests: requests, Release: got.Release}
}

// maxRecordedURL is the maximum length of events.FetchRequest.URL in bytes. The whole URL of
// the script is in the arguments of the call.
const maxRecordedURL = 2 << 10

func fetchBody(body []byte) *events.FetchBody {
	if body == nil {
		return nil
	}
	return &events.FetchBody{SHA256: events.Hash(body), Size: int64(len(body))}
}
