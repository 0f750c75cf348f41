package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"daybook/embed"
	"daybook/events"
)

type versionCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run prints the versions of the program, of V8 and of what is stored.
func (c *versionCmd) Run(ctx context.Context, std *streams) error {
	v, err := embed.Versions(ctx)
	if err != nil {
		return err
	}
	v.Daybook = version()
	if c.JSON {
		return printJSON(std.out, v)
	}
	fmt.Fprintf(std.out, "daybook           %s\n", v.Daybook)
	fmt.Fprintf(std.out, "V8                %s\n", v.V8)
	fmt.Fprintf(std.out, "engine            %s\n", v.EngineID)
	fmt.Fprintf(std.out, "snapshot format   %d\n", v.SnapshotFormat)
	fmt.Fprintf(std.out, "projection schema %d\n", v.ProjectionSchema)
	fmt.Fprintf(std.out, "event types       %d, CloudEvents 1.0\n", len(events.Types()))
	return nil
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of ${enum}."`
}

// Run prints a script that completes command and flag names.
func (c *completionCmd) Run(kctx *kong.Context, std *streams) error {
	words := map[string][]string{}
	completionWords(kctx.Model.Node, nil, words)
	switch c.Shell {
	case "fish":
		for _, path := range slices.Sorted(maps.Keys(words)) {
			list := words[path]
			cond := "__fish_use_subcommand"
			if path != "" {
				cond = "__fish_seen_subcommand_from " + path
			}
			fmt.Fprintf(std.out, "complete -c daybook -f -n '%s' -a '%s'\n", cond, strings.Join(list, " "))
		}
	default:
		if c.Shell == "zsh" {
			fmt.Fprintln(std.out, "autoload -U +X bashcompinit && bashcompinit")
		}
		fmt.Fprintln(std.out, "_daybook() {\n  local path=\"\" i\n  for ((i = 1; i < COMP_CWORD; i++)); do\n    case \"${COMP_WORDS[i]}\" in -*) ;; *) path=\"${path:+$path }${COMP_WORDS[i]}\" ;; esac\n  done\n  case \"$path\" in")
		for _, path := range slices.Sorted(maps.Keys(words)) {
			fmt.Fprintf(std.out, "    %q) COMPREPLY=($(compgen -W %q -- \"${COMP_WORDS[COMP_CWORD]}\")) ;;\n", path, strings.Join(words[path], " "))
		}
		fmt.Fprintln(std.out, "  esac\n}\ncomplete -o default -F _daybook daybook")
	}
	return nil
}

func completionWords(n *kong.Node, path []string, into map[string][]string) {
	var list []string
	for _, child := range n.Children {
		list = append(list, child.Name)
		completionWords(child, append(path, child.Name), into)
	}
	for _, f := range n.Flags {
		list = append(list, "--"+f.Name)
	}
	into[strings.Join(path, " ")] = list
}
