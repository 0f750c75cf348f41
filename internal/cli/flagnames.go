package cli

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// flagNames are the flags whose names differ from those of the request's fields.
var flagNames = map[string]string{"execution_timeout_secs": "timeout", "heap_memory_max_mb": "memory", "logical_session": "in", "execution": "execution", "tags": "tag"}

// inFlags lets a refusal by the server speak of flags instead of the fields of
// the request that they became.
func inFlags(err error, command *kong.Node) error {
	if command == nil {
		return err
	}
	names := make([]string, 0, len(command.Flags))
	for _, f := range command.Flags {
		names = append(names, f.Name)
	}
	return inNamedFlags(err, names)
}

// inNamedFlags is inFlags for a command with these flags.
func inNamedFlags(err error, names []string) error {
	var refused *serverError
	if !errors.As(err, &refused) {
		return err
	}
	for field, flag := range flagNames {
		if strings.Contains(field, "_") && slices.Contains(names, flag) {
			refused.message = regexp.MustCompile(`\b`+field+`\b`).ReplaceAllString(refused.message, "--"+flag)
		}
	}
	flag, renamed := flagNames[refused.field]
	if !renamed {
		flag = strings.ReplaceAll(refused.field, "_", "-")
	}
	if rest, begins := strings.CutPrefix(refused.message, refused.field+" "); begins && refused.field != "" && slices.Contains(names, flag) {
		refused.message = "--" + flag + " " + rest
	}
	return err
}
