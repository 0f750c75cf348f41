package cli

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"daybook/internal/web/client"
)

// flagNames maps fields of requests to flags of other names.
var flagNames = map[string]string{"execution_timeout_secs": "timeout", "heap_memory_max_mb": "memory", "logical_session": "in", "execution": "execution", "tags": "tag", "seeds": "seed", "older_than": "older-than", "older_than_secs": "older-than"}

// withFlagNames replaces fields of requests in an error of the server by the flags of
// the command.
func withFlagNames(err error, command *kong.Node) error {
	if command == nil {
		return err
	}
	names := make([]string, 0, len(command.Flags))
	for _, f := range command.Flags {
		names = append(names, f.Name)
	}
	return replaceFieldNames(err, names)
}

// replaceFieldNames is withFlagNames for a list of flags.
func replaceFieldNames(err error, names []string) error {
	var refused *client.Error
	if !errors.As(err, &refused) {
		return err
	}
	for field, flag := range flagNames {
		if strings.Contains(field, "_") && slices.Contains(names, flag) {
			refused.Message = regexp.MustCompile(`\b`+field+`\b`).ReplaceAllString(refused.Message, "--"+flag)
		}
	}
	// The command sets require_heap, so the message must not name it.
	if before, _, found := strings.Cut(refused.Message, " is not recorded here and require_heap is set"); found {
		refused.Message = "--" + before + ` is not recorded; check the key: "daybook heap list" lists heaps`
	}
	if refused.Status == http.StatusUnauthorized && slices.Contains(names, "token-file") {
		refused.Message = strings.Replace(refused.Message, `send the header "Authorization: Bearer TOKEN"`, "name its file with --token-file, or set DAYBOOK_TOKEN", 1)
	}
	flag, renamed := flagNames[refused.Field]
	if !renamed {
		flag = strings.ReplaceAll(refused.Field, "_", "-")
	}
	if rest, begins := strings.CutPrefix(refused.Message, refused.Field+" "); begins && refused.Field != "" && slices.Contains(names, flag) {
		refused.Message = "--" + flag + " " + rest
	} else if rest, begins := strings.CutPrefix(refused.Message, refused.Field+": "); begins && refused.Field != "" && slices.Contains(names, flag) {
		refused.Message = "--" + flag + ": " + rest
	}
	return err
}

// replaceMemoryField names the flag in a text of the server about the heap limit: a
// warning, or the error of an execution that ended for this reason.
func replaceMemoryField(text string) string {
	return strings.ReplaceAll(text, "heap_memory_max_mb", "--memory")
}

// outOfMemory is the reason of an execution that exceeded its heap limit.
const outOfMemory = "out_of_memory"
