package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"daybook/events"
	"daybook/internal/cli/terminal"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: ${enum}."`
}

// Help is shown by "daybook completion --help".
func (c *completionCmd) Help() string {
	return "To load it, add this line to ~/.bashrc or ~/.zshrc:\n\n" +
		"    source <(daybook completion bash)    # or zsh\n\n" +
		"For fish: daybook completion fish > ~/.config/fish/completions/daybook.fish"
}

// Run prints a script that completes commands, flags, sessions and the values of some
// flags.
func (c *completionCmd) Run(kctx *kong.Context, std *streams) error {
	words := map[string][]string{}
	completionWords(kctx.Model.Node, nil, words)
	sessions := sessionCommands(kctx.Model.Node, nil)
	switch c.Shell {
	case "fish":
		return fishCompletion(std.out, words, sessions)
	case "zsh":
		if _, err := io.WriteString(std.out, "autoload -U +X bashcompinit && bashcompinit\n"); err != nil {
			return err
		}
	}
	return bashCompletion(std.out, words, sessions)
}

// sessionCommands lists the commands whose first argument is a session.
func sessionCommands(n *kong.Node, path []string) (list []string) {
	if len(n.Positional) > 0 && n.Positional[0].Help == sessionHelp {
		list = append(list, strings.Join(path, " "))
	}
	for _, child := range n.Children {
		list = append(list, sessionCommands(child, append(path, child.Name))...)
	}
	return list
}

// completionWords maps each command, with the names of its parents, to the words that
// may follow it.
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

// commandPaths returns the commands of words, each in single quotes.
func commandPaths(words map[string][]string, separator string) string {
	var quoted []string
	for _, path := range slices.Sorted(maps.Keys(words)) {
		if path != "" {
			quoted = append(quoted, "'"+path+"'")
		}
	}
	return strings.Join(quoted, separator)
}

// bashCompletion writes the script for bash. The script finds the command by appending
// words as long as the result is a command, which skips arguments and flags. It
// compares session names without compgen, which would expand them.
func bashCompletion(out io.Writer, words map[string][]string, sessions []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, `_daybook_sessions() {
  local name begin="${COMP_WORDS[COMP_CWORD]}"
  begin="${begin#[\"\']}"
  begin="${begin//\\/}"
  COMPREPLY=()
  while IFS= read -r name; do
    [[ $name == "$begin"* ]] && COMPREPLY+=("$name")
  done < <(daybook complete-sessions 2>/dev/null)
  compopt -o filenames 2>/dev/null # quotes what a shell would split
}
_daybook() {
  local path="" longer i
  for ((i = 1; i < COMP_CWORD; i++)); do
    longer="${path:+$path }${COMP_WORDS[i]}"
    case "$longer" in
      %s) path="$longer" ;;
    esac
  done
  local words="" IFS=$' \t\n'
  case "${COMP_WORDS[COMP_CWORD-1]}" in
%s    --session|--in)
      _daybook_sessions
      return ;;
  esac
  case "$path ${COMP_WORDS[COMP_CWORD-1]} ${COMP_WORDS[COMP_CWORD]}" in
    *' -'*) ;;
%s      _daybook_sessions
      return ;;
  esac
  case "$path" in
`, commandPaths(words, "|"), bashValues(), bashSessionCases(sessions))
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

// bashSessionCases returns the patterns of the commands whose first argument is a
// session. A pattern consists of the command, the word before the cursor, which is the
// last word of the command, and any word at the cursor.
func bashSessionCases(sessions []string) string {
	patterns := make([]string, len(sessions))
	for i, path := range sessions {
		patterns[i] = fmt.Sprintf("'%s %s '*", path, path[strings.LastIndexByte(path, ' ')+1:])
	}
	return "    " + strings.Join(patterns, "|") + ")\n"
}

// flagValues maps flags to their possible values.
func flagValues() map[string][]string {
	types := make([]string, 0, len(events.Types()))
	for _, t := range events.Types() {
		types = append(types, string(t))
	}
	return map[string][]string{"status": {"running", "completed", "failed", "timed_out", "cancelled"}, "type": types}
}

// bashValues returns the cases of the flags in flagValues.
func bashValues() string {
	var b strings.Builder
	values := flagValues()
	for _, flag := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "    --%s) COMPREPLY=($(compgen -W '%s' -- \"${COMP_WORDS[COMP_CWORD]}\")); return ;;\n", flag, strings.Join(values[flag], " "))
	}
	return b.String()
}

// completeSessionsCmd prints session names for completion. It prints nothing if no
// server answers.
type completeSessionsCmd struct{ clientFlags }

// Run prints one name per line.
func (c *completeSessionsCmd) Run(ctx context.Context, std *streams) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	answer, err := c.api().Sessions(ctx, "all", mostRows, "", false)
	if err != nil {
		return exitError(exitUnavailable)
	}
	for _, s := range answer.Body.Items {
		if s.Name != nil && terminal.Visible(*s.Name, "") == *s.Name { // names with hidden characters cannot be typed
			fmt.Fprintln(std.out, *s.Name)
		}
	}
	return nil
}

func fishCompletion(out io.Writer, words map[string][]string, sessions []string) error {
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
		// Complete files only if no subcommand is expected.
		files := ""
		if slices.ContainsFunc(words[path], func(w string) bool { return !strings.HasPrefix(w, "-") }) {
			files = " -f"
		}
		fmt.Fprintf(&b, "complete -c daybook%s -n 'test \"$(__daybook_command)\" = \"%s\"' -a '%s'\n", files, path, strings.Join(words[path], " "))
	}
	for _, path := range sessions {
		fmt.Fprintf(&b, "complete -c daybook -f -n 'test \"$(__daybook_command)\" = \"%s\"' -a '(daybook complete-sessions 2>/dev/null)'\n", path)
	}
	values := flagValues()
	for _, flag := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "complete -c daybook -l %s -x -a '%s'\n", flag, strings.Join(values[flag], " "))
	}
	b.WriteString("complete -c daybook -l session -x -a '(daybook complete-sessions 2>/dev/null)'\n")
	b.WriteString("complete -c daybook -l in -x -a '(daybook complete-sessions 2>/dev/null)'\n")
	_, err := io.WriteString(out, b.String())
	return err
}
