package acp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
	"daybook/internal/tools/toolserver"
)

// serverList is the list of the tool servers that a client names.
type serverList struct {
	servers []toolserver.Config
	// unusable holds the reason for each server that this process does not try to
	// connect to. The key is the client's name of the server, or "server" and a number if
	// its transport is unknown, and therefore its name too. If another server has that
	// name, a number is added to it.
	unusable map[string]string
}

// names returns the keys of unusable, and the names in code (callName) of the other
// servers.
func (l serverList) names() []string {
	list := slices.Sorted(maps.Keys(l.unusable))
	for _, s := range l.servers {
		list = append(list, s.Name)
	}
	return list
}

// maxServers bounds the servers of a session.
const maxServers = 64

// toolServers reads the servers that a client names. Programs are started in the
// working directory, and every server gets the session's directories as roots.
func toolServers(list []sdk.McpServer, where events.AgentWorkspace) serverList {
	l := serverList{unusable: map[string]string{}}
	taken := map[string]bool{}
	for _, s := range list {
		var t toolserver.Config
		switch {
		case s.Stdio != nil:
			t = toolserver.Config{Name: s.Stdio.Name, Transport: toolserver.Stdio, Command: s.Stdio.Command, Args: s.Stdio.Args, Env: map[string]string{}, Dir: where.Cwd}
			for _, v := range s.Stdio.Env {
				t.Env[v.Name] = v.Value
			}
		case s.Http != nil:
			t = toolserver.Config{Name: s.Http.Name, Transport: toolserver.HTTP, URL: s.Http.Url, Headers: headers(s.Http.Headers)}
		case s.Sse != nil:
			t = toolserver.Config{Name: s.Sse.Name, Transport: toolserver.SSE, URL: s.Sse.Url, Headers: headers(s.Sse.Headers)}
		default:
			l.unusable[uniqueName(fmt.Sprintf("server %d", len(l.unusable)+1), taken)] = "its transport is none of stdio, http and sse"
			continue
		}
		if len(l.servers) == maxServers {
			l.unusable[uniqueName(t.Name, taken)] = fmt.Sprintf("a session has at most %d servers", maxServers)
			continue
		}
		t.Roots = roots(where)
		t.Name = uniqueName(callName(t.Name), taken)
		l.servers = append(l.servers, t)
	}
	return l
}

func headers(list []sdk.HttpHeader) map[string]string {
	m := map[string]string{}
	for _, h := range list {
		m[h.Name] = h.Value
	}
	return m
}

// callName returns the name by which code calls a server, for the name that a client
// gives it. It removes spaces at both ends, replaces every character except ASCII letters,
// digits, "_", "-" and "." by "_", and cuts the name after 60 bytes. An empty name becomes
// "server".
func callName(name string) string {
	ok := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r) {
			return r
		}
		return '_'
	}
	name = strings.Map(ok, strings.ToValidUTF8(strings.TrimSpace(name), "_"))
	if name == "" {
		name = "server"
	}
	return name[:min(len(name), 60)]
}

// uniqueName appends a number to a name that is taken, and adds the result to taken.
func uniqueName(name string, taken map[string]bool) string {
	one := name
	for n := 2; taken[one]; n++ {
		one = fmt.Sprintf("%s_%d", name, n)
	}
	taken[one] = true
	return one
}

// connect starts to connect to the servers of a session. The announcement and /tools
// report the servers that cannot be connected to.
func (c *client) connect(n *session, list serverList) {
	if len(list.servers) == 0 {
		return
	}
	fail := func(why string) {
		for _, s := range list.servers {
			n.unusableServers[s.Name] = why
		}
	}
	if c.server.opts.Connect == nil {
		fail("this agent does not connect to MCP servers")
		return
	}
	tools, err := c.server.opts.Connect(list.servers)
	if err == nil {
		n.tools = tools
		return
	}
	if len(list.servers) == 1 {
		fail(problemOf(list.servers[0].Name, err)) // a second try would fail too
		return
	}
	// Connect refuses the whole list if it refuses one server. Connect one by one, so that
	// the others are connected to.
	var boxes toolboxes
	for _, s := range list.servers {
		one, err := c.server.opts.Connect([]toolserver.Config{s})
		if err != nil {
			n.unusableServers[s.Name] = problemOf(s.Name, err)
			continue
		}
		boxes = append(boxes, one)
	}
	if len(boxes) > 0 {
		n.tools = boxes
	}
}

// problemOf returns the text of an error of Options.Connect without the server name at
// its beginning.
func problemOf(name string, err error) string {
	return strings.TrimPrefix(err.Error(), fmt.Sprintf("MCP server %q: ", name))
}

// toolboxes joins several toolboxes.
type toolboxes []Toolbox

// Tools returns the tools of all toolboxes.
func (b toolboxes) Tools(ctx context.Context, tenant string) []toolserver.Tool {
	var list []toolserver.Tool
	for _, one := range b {
		list = append(list, one.Tools(ctx, tenant)...)
	}
	return list
}

// Call calls a tool through the toolbox that holds its server.
func (b toolboxes) Call(ctx context.Context, tenant, server, tool string, arguments []byte) toolserver.Result {
	for _, one := range b {
		if _, ok := one.Status()[server]; ok {
			return one.Call(ctx, tenant, server, tool, arguments)
		}
	}
	return failedCall("there is no such server")
}

// Status returns the states of the servers of all toolboxes.
func (b toolboxes) Status() map[string]string {
	all := map[string]string{}
	for _, one := range b {
		maps.Copy(all, one.Status())
	}
	return all
}

// Problems returns the problems of all toolboxes.
func (b toolboxes) Problems(ctx context.Context, tenant string) map[string]string {
	all := map[string]string{}
	for _, one := range b {
		maps.Copy(all, one.Problems(ctx, tenant))
	}
	return all
}

// Close closes all toolboxes.
func (b toolboxes) Close() error {
	var errs []error
	for _, one := range b {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// callText returns the code that calls a tool, such as "mcp.server.tool(args)".
func callText(server, tool string) string {
	text := "mcp"
	for _, name := range []string{server, tool} {
		if identifier.MatchString(name) {
			text += "." + name
		} else {
			text += fmt.Sprintf("[%q]", name)
		}
	}
	return text + "(args)"
}
