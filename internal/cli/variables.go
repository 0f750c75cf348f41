package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Environment variables exist for the flags of a server, and for the client flags that
// name the server and the token. No other flag has one: a variable that was set for a
// server must not change the selection of a command.
var (
	serverCommands = []string{"serve", "mcp", "acp"}
	// sharedFlags have a variable in every command.
	sharedFlags = []string{"server", "token", "data-dir", "key-dir", "nats-url", "ca"}
)

// nameVariables names the variable of each flag that has one: DAYBOOK_ and the name of
// the flag. An env tag takes precedence; "-" means none.
func nameVariables(k *kong.Kong) error {
	nameVariablesIn(k.Model.Node, false)
	for _, command := range k.Model.Children {
		nameVariablesBelow(command, slices.Contains(serverCommands, command.Name))
	}
	return nil
}

func nameVariablesBelow(n *kong.Node, server bool) {
	nameVariablesIn(n, server)
	for _, child := range n.Children {
		nameVariablesBelow(child, server)
	}
}

func nameVariablesIn(n *kong.Node, server bool) {
	for _, f := range n.Flags {
		switch {
		case slices.Equal(f.Tag.Envs, []string{"-"}):
			f.Envs = nil
		case f.Name == "help" || len(f.Tag.Envs) > 0 || !server && !slices.Contains(sharedFlags, f.Name):
			continue
		default:
			f.Envs = []string{"DAYBOOK_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))}
		}
		f.Tag.Envs = f.Envs
	}
}

// preferFlags drops the server from the environment or a file if a flag on the command
// line names a data directory to ask instead, or an export that "daybook verify" reads
// instead. Other commands that take an export ask a server.
func preferFlags(kctx *kong.Context) {
	command := kctx.Selected()
	if command == nil || isGiven(kctx, "server") || !isGiven(kctx, "data-dir") && (command.Name != "verify" || !isGiven(kctx, "export")) {
		return
	}
	if server := flagNamed(command.Flags, "server"); server != nil {
		server.Target.SetString("")
	}
}

// isGiven reports whether a flag is on the command line.
func isGiven(kctx *kong.Context, name string) bool {
	return slices.ContainsFunc(kctx.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == name && !p.Resolved })
}
