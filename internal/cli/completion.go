package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of ${enum}."`
}

// Help is shown by "daybook completion --help".
func (c *completionCmd) Help() string {
	return "To load it, put this into ~/.bashrc or ~/.zshrc:\n\n" +
		"    source <(daybook completion bash)    # or zsh\n\n" +
		"For fish: daybook completion fish > ~/.config/fish/completions/daybook.fish"
}

// Run prints a script that completes command and flag names.
func (c *completionCmd) Run(kctx *kong.Context, std *streams) error {
	words := map[string][]string{}
	completionWords(kctx.Model.Node, nil, words)
	switch c.Shell {
	case "fish":
		return fishCompletion(std.out, words)
	case "zsh":
		if _, err := io.WriteString(std.out, "autoload -U +X bashcompinit && bashcompinit\n"); err != nil {
			return err
		}
	}
	return bashCompletion(std.out, words)
}

// completionWords maps each command, by its names from the outermost in, to
// what may follow it.
func completionWords(n *kong.Node, path []string, into map[string][]string) {
	var list []string
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		list = append(list, child.Name)
		completionWords(child, append(path, child.Name), into)
	}
	for _, arg := range n.Positional {
		if arg.Enum != "" {
			list = append(list, arg.EnumSlice()...)
		}
	}
	for _, f := range n.Flags {
		list = append(list, "--"+f.Name)
	}
	if len(path) > 0 {
		list = append(list, "--help")
	}
	into[strings.Join(path, " ")] = list
}

// commandPaths lists the commands that words knows, each in single quotes.
func commandPaths(words map[string][]string, separator string) string {
	var quoted []string
	for _, path := range slices.Sorted(maps.Keys(words)) {
		if path != "" {
			quoted = append(quoted, "'"+path+"'")
		}
	}
	return strings.Join(quoted, separator)
}

// bashCompletion finds the command typed so far by adding words as long as
// that gives a command, which leaves out arguments and flags.
func bashCompletion(out io.Writer, words map[string][]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, `_daybook() {
  local path="" longer i
  for ((i = 1; i < COMP_CWORD; i++)); do
    longer="${path:+$path }${COMP_WORDS[i]}"
    case "$longer" in
      %s) path="$longer" ;;
    esac
  done
  local words=""
  case "$path" in
`, commandPaths(words, "|"))
	for _, path := range slices.Sorted(maps.Keys(words)) {
		fmt.Fprintf(&b, "    '%s') words='%s' ;;\n", path, strings.Join(words[path], " "))
	}
	b.WriteString(`  esac
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _daybook daybook
`)
	_, err := io.WriteString(out, b.String())
	return err
}

func fishCompletion(out io.Writer, words map[string][]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, `function __daybook_command
    set -l path
    for word in (commandline -opc)[2..]
        if contains -- (string join ' ' $path $word) %s
            set -a path $word
        end
    end
    string join ' ' $path
end
`, commandPaths(words, " "))
	for _, path := range slices.Sorted(maps.Keys(words)) {
		// Files are only an answer where no subcommand is expected.
		files := ""
		if slices.ContainsFunc(words[path], func(w string) bool { return !strings.HasPrefix(w, "-") }) {
			files = " -f"
		}
		fmt.Fprintf(&b, "complete -c daybook%s -n 'test \"$(__daybook_command)\" = \"%s\"' -a '%s'\n", files, path, strings.Join(words[path], " "))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
