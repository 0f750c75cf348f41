package acp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"daybook/events"
)

// problemTimeout bounds the wait of an announcement for the tool servers of its
// session. A server that takes longer is reported as not connected yet.
const problemTimeout = 3 * time.Second

// announce sends the first updates of an opened session: the directories and servers
// that are not available, and the commands. It waits until the request that opened the
// session is answered. A reattached client gets the commands only, because the earlier
// owner has sent it the rest; /tools lists the current state of the servers.
func (c *client) announce(ctx context.Context, n *session, where events.AgentWorkspace) {
	defer close(n.announced)
	problems := directoryProblems(where)
	failed := maps.Clone(n.unusableServers)
	if n.tools != nil {
		wait, cancel := context.WithTimeout(ctx, problemTimeout)
		maps.Copy(failed, n.tools.Problems(wait, tenant))
		cancel()
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		problems = append(problems, fmt.Sprintf("The MCP server `%s` is not available: %s.", name, strings.TrimSuffix(failed[name], ".")))
	}
	select {
	case <-n.answered:
	case <-ctx.Done():
		return
	}
	if len(problems) > 0 && !n.reattached {
		text := "Not everything in this session is available:\n\n- " + strings.Join(problems, "\n- ") + "\n"
		if len(failed) > 0 {
			text += "\n/tools lists the servers and their tools.\n"
		}
		for _, u := range chunks(events.NewID(time.Now()), text) {
			_ = c.sendAnnounced(ctx, n.id, u) // an error ends the connection
		}
	}
	_ = c.sendAnnounced(ctx, n.id, commandsUpdate())
}

// directoryProblems returns a sentence for each directory of a session that cannot be
// used.
func directoryProblems(where events.AgentWorkspace) (problems []string) {
	for _, dir := range roots(where) {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			problems = append(problems, fmt.Sprintf("The directory `%s` does not exist.", dir))
		case err != nil:
			problems = append(problems, fmt.Sprintf("The directory `%s` cannot be read: %v.", dir, errors.Unwrap(err)))
		case !info.IsDir():
			problems = append(problems, fmt.Sprintf("`%s` is not a directory.", dir))
		}
	}
	return problems
}

// roots returns the directories of a session, its working directory first.
func roots(where events.AgentWorkspace) []string {
	return append([]string{where.Cwd}, where.AdditionalDirectories...)
}
