package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

type sessionCmd struct {
	List   sessionListCmd   `cmd:"" help:"List sessions of all kinds, the last used first."`
	Show   sessionShowCmd   `cmd:"" help:"Show the code, output, results and resets of a session."`
	Log    sessionLogCmd    `cmd:"" help:"List the ended runs of a session, oldest first."`
	Open   sessionOpenCmd   `cmd:"" help:"Open a logical session and print its id."`
	Reset  sessionResetCmd  `cmd:"" help:"Reset a session to one of its heaps, or to none."`
	Replay sessionReplayCmd `cmd:"" help:"Replay the recorded events of a session."`
	Shred  sessionShredCmd  `cmd:"" help:"Shred the content of a session permanently."`
}

type sessionListCmd struct {
	clientFlags
	Kind  string `help:"Kind of the sessions: all, named, logical or acp." enum:"all,named,logical,acp" default:"all" placeholder:"KIND"`
	Limit int    `short:"n" help:"Maximum number of sessions to list, 1 to 1000." default:"100" placeholder:"N"`
}

type listedSession struct {
	SessionID      string  `json:"session_id"`
	Kind           string  `json:"kind"`
	Name           *string `json:"name"`
	CreatedAt      string  `json:"created_at"`
	LastActivityAt string  `json:"last_activity_at"`
	Runs           int64   `json:"runs"`
	Head           *string `json:"head"`
	ResetAt        *string `json:"reset_at"`
}

// shortKey is the number of characters of an id or a key in tables.
const shortKey = 12

func shortKeyOf(key *string) string {
	if key == nil {
		return "-"
	}
	return (*key)[:min(len(*key), shortKey)]
}

func (c *sessionListCmd) Run(ctx context.Context, std *streams) error {
	path := "/api/sessions" + query("kind", c.Kind, "limit", strconv.Itoa(c.Limit))
	return c.show(ctx, std.out, path, func(raw []byte) error {
		var answer struct {
			Items      []listedSession `json:"items"`
			NextCursor string          `json:"next_cursor"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return fmt.Errorf("read the server's answer: %w", err)
		}
		w := table(std.out, "KIND", "NAME", "SESSION", "RUNS", "HEAP", "LAST USED")
		for _, s := range answer.Items {
			name := "-"
			if s.Name != nil {
				name = oneLine(*s.Name, 60)
			}
			w.row(s.Kind, name, shortKeyOf(&s.SessionID), s.Runs, shortKeyOf(s.Head), std.out.formatWhen(s.LastActivityAt))
		}
		return flushPage(w, std, answer.NextCursor, c.Limit)
	})
}

type sessionLogCmd struct {
	clientFlags
	oneSession
}

// Run prints the entries of a session in order. A session without entries is an error.
func (c *sessionLogCmd) Run(ctx context.Context, std *streams) error {
	var answer struct {
		Entries []struct {
			Index       int64   `json:"index"`
			ExecutionID string  `json:"execution_id"`
			Status      string  `json:"status"`
			OutputHeap  *string `json:"output_heap"`
			Code        string  `json:"code"`
			Timestamp   string  `json:"timestamp"`
		} `json:"entries"`
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	err = c.show(ctx, std.out, path+"/entries", func(raw []byte) error {
		if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Entries) == 0 {
			return err
		}
		w := table(std.out, "INDEX", "TIME", "STATUS", "HEAP", "CODE")
		for _, e := range answer.Entries {
			w.row(e.Index, e.Timestamp, e.Status, shortKeyOf(e.OutputHeap), oneLine(e.Code, 60))
		}
		return w.Flush()
	})
	if err != nil || c.JSON || len(answer.Entries) > 0 {
		return err
	}
	// For a program an empty log is an answer. On the command line it usually means a
	// misspelled name.
	return usageError{fmt.Errorf("session %q has no ended run; \"daybook session list\" lists sessions", c.Name)}
}

type sessionResetCmd struct {
	clientFlags
	oneSession
	Heap string `help:"Heap of the session to continue from: its key, or a unique prefix. Default: none." placeholder:"HASH"`
	Key  string `name:"idempotency-key" help:"Idempotency key; a repeated reset with the same key returns the first reset." placeholder:"KEY"`
}

// Help is shown by "daybook session reset --help".
func (c *sessionResetCmd) Help() string {
	return "Runs accepted before the reset keep their state; later ones start from the heap. In a named session, \"daybook run --continue --session NAME\" starts from the heap. " +
		"A run of the session must have left the heap or started from it; \"daybook session log\" lists these heaps. The reset is recorded; nothing is deleted."
}

// Run resets a session and prints its new session head.
func (c *sessionResetCmd) Run(ctx context.Context, std *streams) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	body := map[string]string{}
	if c.Heap != "" {
		key, err := c.heapKey(ctx, c.Heap)
		if err != nil {
			return err
		}
		body["heap"] = key
	}
	var header []string
	if c.Key != "" {
		header = []string{"Idempotency-Key", c.Key}
	}
	var raw json.RawMessage
	if err := c.call(ctx, http.MethodPost, path+"/reset", body, &raw, header...); err != nil {
		return withSessionHint(err, listSessions)
	}
	if c.JSON {
		return std.out.writeJSON(compact(raw))
	}
	var s listedSession
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	to := "nothing"
	if s.Head != nil {
		to = "heap " + *s.Head
	}
	std.out.printf("%s session %s reset to %s\n", s.Kind, s.label(), to)
	return nil
}

// label returns the name of a session as shown in messages.
func (s listedSession) label() string {
	if s.Name != nil && *s.Name != "" {
		return strconv.Quote(oneLine(*s.Name, 60))
	}
	return s.SessionID
}
