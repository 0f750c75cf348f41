package embed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"daybook/acp"
	"daybook/events"
	"daybook/internal/tools/fetcher"
	"daybook/internal/tools/toolserver"
	"daybook/ledger"
	"daybook/runner"
)

// Values of Options.Tools.Bodies.
const (
	hostCallsFull   = "full"
	hostCallsHashed = "hash"
)

// ReadMCPServers reads configurations for Options.Tools.Servers. flags are "name=command
// with arguments" or "name=https://host/path". file is a file in the {"mcpServers":
// {...}} form of MCP clients, or empty; ${NAME} in it is replaced from the environment.
// Errors name the command-line flags --mcp-server and --mcp-config.
func ReadMCPServers(flags []string, file string) ([]ToolServer, error) {
	var configs []ToolServer
	var problems []error
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--mcp-config: %w", err)
		}
		more, err := toolserver.ParseFile(text, os.LookupEnv)
		if err == nil {
			err = toolserver.CheckAll(more)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("--mcp-config %s: %w", file, err))
		}
		configs = append(configs, more...)
	}
	for _, f := range flags {
		c, err := toolserver.ParseFlag(f)
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("--mcp-server: %w", err))
		}
		configs = append(configs, c)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if err := toolserver.CheckAll(configs); err != nil { // two servers of one name
		return nil, fmt.Errorf("--mcp-server: %w", err)
	}
	return configs, nil
}

// startToolServers creates the tool servers. They are connected when the first run may need
// them.
func (d *Daybook) startToolServers(context.Context) error {
	if len(d.opts.Tools.Servers) == 0 || d.opts.Runs.Elsewhere {
		return nil
	}
	var err error
	d.toolServers, err = toolserver.New(d.opts.Tools.Servers, toolserver.Options{Version: d.opts.Version, Logger: d.opts.Logger, Memory: toolMemory{d.budget}})
	return err
}

// callsServers reports whether scripts of a tenant can call a configured tool server, or
// send requests.
func (d *Daybook) callsServers(tenant string) bool {
	return d.fetch != nil || slices.ContainsFunc(d.opts.Tools.Servers, func(c toolserver.Config) bool { return c.Tenants == nil || slices.Contains(c.Tenants, tenant) })
}

// callables lets the runner call tools: for a prompt of an ACP session only the tools of the
// servers that the client of the session configured, and for other runs those of the
// configured tool servers. All of them may fetch, if there is a policy for that.
type callables struct {
	set   *toolserver.Set // nil without tool servers
	agent *acp.Server
	fetch *fetcher.Fetcher // nil without a policy
}

// Servers implements runner.Servers.
func (c callables) Servers(ctx context.Context, r ledger.Request) map[string][]string {
	servers := c.toolServers(ctx, r)
	if c.fetch == nil {
		return servers
	}
	all := map[string][]string{events.FetchServer: {events.FetchTool}}
	maps.Copy(all, servers)
	return all
}

func (c callables) toolServers(ctx context.Context, r ledger.Request) map[string][]string {
	switch {
	case isPrompt(r):
		return c.agent.Servers(ctx, r.Turn.SessionID)
	case c.set == nil:
		return nil
	default:
		return c.set.Servers(ctx, r.Tenant)
	}
}

// Call implements runner.Servers.
func (c callables) Call(ctx context.Context, r ledger.Request, call ledger.HostCall) runner.ServerResult {
	var got toolserver.Result
	switch {
	case isFetch(call) && c.fetch == nil: // an earlier attempt of the run could fetch
		return runner.ServerResult{Outcome: events.HostError, Text: []byte("fetch is disabled: the operator enables it with --fetch-policy")}
	case isFetch(call):
		return performFetch(ctx, c.fetch, r, call)
	case isPrompt(r):
		got = c.agent.Call(ctx, acp.Call{
			Session: r.Turn.SessionID, Execution: r.ExecutionID, Number: call.Number, Server: call.Server, Tool: call.Tool, Arguments: call.Arguments,
		})
	case c.set == nil: // an earlier attempt of the run could call servers
		return runner.ServerResult{Outcome: events.HostError, Text: []byte("there is no such server")}
	default:
		got = c.set.Call(ctx, r.Tenant, call.Server, call.Tool, call.Arguments)
	}
	return runner.ServerResult{Outcome: events.HostOutcome(got.Outcome), Text: got.Text, Release: got.Release}
}

// isPrompt reports whether a run is a prompt of an ACP session.
func isPrompt(r ledger.Request) bool { return r.Interactive && r.Turn != nil }

// MCPServers returns a human-readable state of each tool server that scripts may call,
// by name.
func (d *Daybook) MCPServers() map[string]string {
	if d.toolServers == nil {
		return nil
	}
	return d.toolServers.Status()
}
