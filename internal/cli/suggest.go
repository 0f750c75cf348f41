package cli

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// otherNames maps words of other tools to commands of Daybook.
var otherNames = map[string]string{
	"ls": "list", "ps": "exec list", "logs": "exec output", "log": "session log", "inspect": "show", "info": "show", "describe": "show",
	"stop": "exec cancel", "kill": "exec cancel", "start": "serve", "server": "serve", "up": "serve", "eval": "run", "shell": "repl", "console": "repl", "node": "repl",
	"execution": "exec", "executions": "exec", "follow": "exec watch",
}

// explainParseError returns the message for an error of the parser. For an unknown
// command it suggests similar ones.
func explainParseError(err error) string {
	message := err.Error()
	if option, ok := errors.AsType[flagError](err); ok {
		return option.Error() // without the name of the command
	}
	var wrong *kong.ParseError
	rest, unexpected := strings.CutPrefix(message, "unexpected argument ")
	if !errors.As(err, &wrong) || wrong.Context == nil || !unexpected {
		return rewriteParserText(message)
	}
	message, _, _ = strings.Cut(message, ", did you mean ") // the suggestions of the parser are too many
	word, _, _ := strings.Cut(rest, ",")
	at, root := wrong.Context.Selected(), wrong.Context.Model.Node
	if at == nil {
		at = root
	}
	list := suggestCommands(at, root, word)
	if info, err := os.Stat(word); at == root && err == nil && info.Mode().IsRegular() {
		list = slices.Insert(list, 0, "daybook run "+word)
	}
	for i, path := range list {
		list[i] = strconv.Quote(path)
	}
	switch len(list) {
	case 0:
		return message
	case 1:
		return message + ", did you mean " + list[0] + "?"
	default:
		return message + ", did you mean one of " + strings.Join(list, ", ") + "?"
	}
}

// suggestCommands lists the commands that a word at a node may mean.
func suggestCommands(at, root *kong.Node, word string) (list []string) {
	least := max(1, min(2, len(word)/2)) + 1
	for _, child := range at.Children {
		d := distance(child.Name, word)
		switch {
		case child.Hidden || d > least || d == least && len(list) == 0:
		case d < least:
			least, list = d, []string{child.FullPath()}
		default:
			list = append(list, child.FullPath())
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, n := range []*kong.Node{at, root} {
		if path := commandPath(n, strings.Fields(otherNames[word])); path != "" && otherNames[word] != "" {
			return []string{path}
		}
	}
	if other, known := otherNames[word]; known {
		word = other
	}
	for _, group := range root.Children {
		for _, child := range group.Children {
			if child.Name == word && !child.Hidden {
				list = append(list, child.FullPath())
			}
		}
	}
	return list
}

// distance returns the smallest number of edits that turn one word into the other. An edit
// inserts, deletes or replaces a character, or swaps two neighbors.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// commandPath returns the full name of a command below a node, or an empty string.
func commandPath(n *kong.Node, names []string) string {
	for _, name := range names {
		var next *kong.Node
		for _, child := range n.Children {
			if child.Name == name && !child.Hidden {
				next = child
			}
		}
		if next == nil {
			return ""
		}
		n = next
	}
	return n.FullPath()
}

// parserTexts are messages of the parser with their replacements.
var parserTexts = []struct {
	text  *regexp.Regexp
	shown string
}{
	{regexp.MustCompile(`^(--[\w-]+): (?:expected \S+ value but got "EOL" \(<EOL>\)|missing value, expecting .*)$`), `$1 needs a value`},
	{regexp.MustCompile(`^(--[\w-]+): expected \S+ value but got "(.*)" \((?:short|long) flag\).*$`), `$1 needs a value, and "$2" reads as a flag; write $1="$2" if it is the value`},
	{regexp.MustCompile(`^(--[\w-]+): expected (?:an int|a valid \d+ bit int) but got (".*?")(?: \(\w+\))?$`), `$1: $2 is not a whole number`},
	{regexp.MustCompile(`^(--[\w-]+): expected a valid \d+ bit uint but got (".*")$`), `$1: $2 is not a whole number of 0 or more`},
	{regexp.MustCompile(`^(--[\w-]+): expected a float but got (".*") \(\w+\)$`), `$1: $2 is not a number`},
	{regexp.MustCompile(`^(--tenant-weights): invalid map value (".*")$`), `$1: $2 is not a weight: give TENANT=N with N from 1 to 1000; for example --tenant-weights acme=2`},
	{regexp.MustCompile(`^(--[\w-]+): bool value must be true, 1, yes, false, 0 or no but got (".*")$`), `$1: $2 is not true or false`},
	{regexp.MustCompile(`^(--[\w-]+): expected duration but got ("[^"]*").*$`), `$1: $2 is not a duration such as 500ms, 90s or 2h`},
}

// variableText is what the parser adds to an error about the value of a variable.
var variableText = regexp.MustCompile(`(?s) \(from envar \w+=".*"\)$`)

// rewriteParserText replaces a message of the parser by one for users of the command
// line.
func rewriteParserText(message string) string {
	message = variableText.ReplaceAllString(message, "")
	for _, t := range parserTexts {
		if t.text.MatchString(message) {
			return t.text.ReplaceAllString(message, t.shown)
		}
	}
	return message
}
