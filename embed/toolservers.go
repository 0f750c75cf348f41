package embed

import (
	"context"
	"errors"
	"fmt"
	"os"

	"daybook/events"
	"daybook/ledger"
	"daybook/runner"
	"daybook/toolserver"
)

// The values of Options.HostCallBodies.
const (
	hostCallsFull   = "full"
	hostCallsHashed = "hash"
)

// ReadMCPServers reads configurations for Options.MCPServers: flags are
// "name=command with arguments" or "name=https://host/path", file is one in the
// {"mcpServers": {...}} form of MCP clients, or empty. ${NAME} in the file is taken
// from the environment.
func ReadMCPServers(flags []string, file string) ([]toolserver.Config, error) {
	var configs []toolserver.Config
	var problems []error
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the MCP servers: %w", err)
		}
		more, err := toolserver.ParseFile(text, os.LookupEnv)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", file, err))
		}
		configs = append(configs, more...)
	}
	for _, f := range flags {
		c, err := toolserver.ParseFlag(f)
		if err != nil {
			problems = append(problems, err)
		}
		configs = append(configs, c)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return configs, toolserver.CheckAll(configs)
}

// startToolServers makes the MCP servers that scripts may call. They are connected
// to when the first run could need them.
func (d *Daybook) startToolServers(context.Context) error {
	if len(d.opts.MCPServers) == 0 || d.opts.NoRunner {
		return nil
	}
	var err error
	d.toolServers, err = toolserver.New(d.opts.MCPServers, toolserver.Options{Version: d.opts.Version, Logger: d.opts.Logger})
	return err
}

// callables lets the runner call tools of a set of servers.
type callables struct{ set *toolserver.Set }

func (c callables) Servers(ctx context.Context, r ledger.Request) map[string][]string {
	return c.set.Servers(ctx, r.Tenant)
}

func (c callables) Call(ctx context.Context, r ledger.Request, server, tool string, arguments []byte) runner.ServerResult {
	got := c.set.Call(ctx, r.Tenant, server, tool, arguments)
	return runner.ServerResult{Outcome: events.HostOutcome(got.Outcome), Text: got.Text}
}

// MCPServers tells how each MCP server that scripts may call is doing, for people.
func (d *Daybook) MCPServers() map[string]string {
	if d.toolServers == nil {
		return nil
	}
	return d.toolServers.Status()
}
