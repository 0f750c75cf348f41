package settings

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Environment variables exist for the flags of a server, and for the flags of other
// commands that name a server, a token, certificates or the place of data. No other flag
// has one: a variable that was set for a server must not change what a command selects.
var (
	serverCommands = []string{"serve", "mcp", "acp"}
	// sharedFlags have a variable in every command.
	sharedFlags = []string{"server", "token", "data-dir", "key-dir", "nats-url", "ca"}
)

// NameVariables names the variable of each flag that has one: DAYBOOK_ and the name of
// the flag. An env tag takes precedence; "-" means none. It is for kong.PostBuild.
func NameVariables(k *kong.Kong) error {
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

// PreferFlags drops a value of --server from the environment or a file if the command line
// has --data-dir, or --export of "daybook verify", which then replace the server. Other
// commands with --export still send requests to the server.
func PreferFlags(kctx *kong.Context) {
	command := kctx.Selected()
	if command == nil || IsGiven(kctx, "server") || !IsGiven(kctx, "data-dir") && (command.Name != "verify" || !IsGiven(kctx, "export")) {
		return
	}
	if server := flagNamed(command.Flags, "server"); server != nil {
		server.Target.SetString("")
	}
}

// IsGiven reports whether a flag is on the command line.
func IsGiven(kctx *kong.Context, name string) bool {
	return slices.ContainsFunc(kctx.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == name && !p.Resolved })
}

// flagName matches a flag in a message.
var flagName = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)

// NameSources adds to each line of a message the variables and files that set the flags in
// it, except those on the command line.
func NameSources(message string, kctx *kong.Context) string {
	if kctx == nil || kctx.Selected() == nil {
		return message
	}
	lines := strings.Split(message, "\n")
	for i, line := range lines {
		named := map[string]bool{}
		for _, found := range flagName.FindAllStringSubmatch(line, -1) {
			if source := sourceOf(kctx, found[1]); source != "" && !named[found[1]] {
				lines[i] += "; " + found[0] + " is set " + source
				named[found[1]] = true
			}
		}
	}
	return strings.Join(lines, "\n")
}

// sourceOf returns where the value of a flag of the selected command, or of all commands,
// is set, or an empty text if that is the command line or nowhere.
func sourceOf(kctx *kong.Context, name string) string {
	flag := cmp.Or(flagNamed(kctx.Selected().Flags, name), flagNamed(kctx.Model.Flags, name))
	if flag == nil || IsGiven(kctx, name) {
		return ""
	}
	for _, variable := range flag.Envs {
		if _, ok := os.LookupEnv(variable); ok {
			return "by " + variable
		}
	}
	config := flagNamed(kctx.Model.Flags, "config")
	if config == nil || !IsGiven(kctx, "config") {
		return ""
	}
	path := string(kctx.FlagValue(config).(ConfigFlag))
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "" // a pipe cannot be read twice
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if values, err := parseConfig(raw); err != nil || values[name] == nil {
		return ""
	}
	return "in " + path
}
