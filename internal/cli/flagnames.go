package cli

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// flagNames are the flags whose names differ from those of the request's fields.
var flagNames = map[string]string{"execution_timeout_secs": "timeout", "heap_memory_max_mb": "memory", "logical_session": "in", "execution": "execution", "tags": "tag", "seeds": "seed", "older_than": "older-than", "older_than_secs": "older-than"}

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
	// This flag is set by the command, not by the user.
	if before, _, found := strings.Cut(refused.message, " is not recorded here and require_heap is set"); found {
		refused.message = "--" + before + ` is not recorded; check the key: "daybook heap list" lists heaps`
	}
	if refused.status == http.StatusUnauthorized && slices.Contains(names, "token-file") {
		refused.message = strings.Replace(refused.message, `send the header "Authorization: Bearer TOKEN"`, "name its file with --token-file, or set DAYBOOK_TOKEN", 1)
	}
	flag, renamed := flagNames[refused.field]
	if !renamed {
		flag = strings.ReplaceAll(refused.field, "_", "-")
	}
	if rest, begins := strings.CutPrefix(refused.message, refused.field+" "); begins && refused.field != "" && slices.Contains(names, flag) {
		refused.message = "--" + flag + " " + rest
	} else if rest, begins := strings.CutPrefix(refused.message, refused.field+": "); begins && refused.field != "" && slices.Contains(names, flag) {
		refused.message = "--" + flag + ": " + rest
	}
	return err
}

// inMemoryFlag names the flag in a text of the server about the limit of the heap:
// a warning, or the error of a run that ended for this reason.
func inMemoryFlag(text string) string {
	return strings.ReplaceAll(text, "heap_memory_max_mb", "--memory")
}

// outOfMemory is the reason of a run that ended at the limit of its heap.
const outOfMemory = "out_of_memory"
