package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"daybook/internal/cli/terminal"
)

// Reference returns every command and flag as Markdown, for docs/reference/cli.md.
func Reference() ([]byte, error) {
	parser, err := newParser(&streams{out: terminal.New(io.Discard), err: terminal.New(io.Discard)}, func(int) {})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("# Command line\n\nGenerated from the code; do not edit.\n\n" +
		"A value comes from the flag, else from its environment variable, else from the file named by `--config`, else it is the default.\n\n" +
		exitHelp + " Commands that differ name their statuses below.\n")
	b.WriteString("\n`daybook --version` prints the version, and `daybook help COMMAND` the help of a command. Every command has these flags:\n")
	describeFlags(&b, parser.Model.Node)
	describe(&b, parser.Model.Node, "daybook")
	return b.Bytes(), nil
}

func describe(b *bytes.Buffer, n *kong.Node, path string) {
	if n.Type == kong.CommandNode {
		fmt.Fprintf(b, "\n## %s\n\n%s\n", path, n.Help)
		if n.Detail != "" {
			fmt.Fprintf(b, "\n%s\n", n.Detail)
		}
		if n.Leaf() {
			usage := path
			for _, arg := range n.Positional {
				name := arg.Summary()
				usage += " " + name
			}
			fmt.Fprintf(b, "\n    %s [flags]\n", usage)
		}
		describeFlags(b, n)
	}
	for _, child := range n.Children {
		if !child.Hidden {
			describe(b, child, path+" "+child.Name)
		}
	}
}

func describeFlags(b *bytes.Buffer, n *kong.Node) {
	if len(n.Flags) == 0 {
		return
	}
	b.WriteString("\n| flag | meaning | default | environment |\n|---|---|---|---|\n")
	for _, f := range n.Flags {
		if f.Hidden {
			continue
		}
		name := "--" + f.Name
		if f.Short != 0 {
			name = fmt.Sprintf("-%c, %s", f.Short, name)
		}
		if !f.IsBool() && f.PlaceHolder != "" {
			name += " " + f.PlaceHolder
		}
		value := f.Default
		if f.Name == "data-dir" {
			value = "$XDG_DATA_HOME/daybook or ~/.local/share/daybook" // not the directory of the user who builds
		}
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, strings.ReplaceAll(f.Help, "|", "\\|"), value, strings.Join(f.Envs, ", "))
	}
}
