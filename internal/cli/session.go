package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type sessionCmd struct {
	List   sessionListCmd   `cmd:"" help:"List sessions of all kinds, the last used first."`
	Show   sessionShowCmd   `cmd:"" help:"Show the code, output, results and resets of a session."`
	Log    sessionLogCmd    `cmd:"" help:"List the ended runs of a session, oldest first."`
	Open   sessionOpenCmd   `cmd:"" help:"Open a logical session and print its id."`
	Reset  sessionResetCmd  `cmd:"" help:"Reset a session to one of its heaps or to a fresh isolate."`
	Replay sessionReplayCmd `cmd:"" help:"Replay the recorded events of a session."`
	Shred  sessionShredCmd  `cmd:"" help:"Shred the content of a session, or the content without a session, permanently."`
}

type sessionListCmd struct {
	clientFlags
	Kind  string `help:"Kind of the sessions: all, named, logical or acp." enum:"all,named,logical,acp" default:"all" placeholder:"KIND"`
	Limit int    `short:"n" help:"Maximum number of sessions to list, 1 to 1000." default:"100" placeholder:"N"`
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
	answer, err := c.api().Sessions(ctx, c.Kind, c.Limit, "", c.JSON)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	w := terminal.Table(std.out, "KIND", "NAME", "SESSION", "RUNS", "HEAP", "LAST USED")
	for _, s := range answer.Body.Items {
		name := "-"
		if s.Name != nil {
			name = terminal.OneLine(*s.Name, 60)
		}
		w.Row(s.Kind, name, shortKeyOf(&s.SessionID), s.Runs, shortKeyOf(s.Head), std.out.FormatWhen(s.LastActivityAt))
	}
	return flushPage(w, std, answer.Body.NextCursor, c.Limit)
}

type sessionLogCmd struct {
	clientFlags
	oneSession
}

// Run prints the entries of a session in order. A session without entries is an error.
func (c *sessionLogCmd) Run(ctx context.Context, std *streams) error {
	if err := c.check(); err != nil {
		return err
	}
	answer, err := c.api().Entries(ctx, c.Name)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return std.out.WriteJSON(compact(answer.JSON))
	case len(answer.Body.Entries) == 0:
		// For a program an empty log is an answer. On the command line it usually means a
		// misspelled name.
		return usageError{fmt.Errorf("session %q has no ended run; \"daybook session list\" lists sessions", c.Name)}
	}
	w := terminal.Table(std.out, "INDEX", "TIME", "STATUS", "HEAP", "ARTIFACTS", "CODE")
	for _, e := range answer.Body.Entries {
		w.Row(e.Index, e.Timestamp, e.Status, shortKeyOf(e.OutputHeap), e.Artifacts, terminal.OneLine(e.Code, 60))
	}
	return w.Flush()
}

type sessionResetCmd struct {
	clientFlags
	oneSession
	Heap string `help:"Heap of the session to continue from: its key, or a unique prefix. Default: a fresh isolate." placeholder:"HASH"`
	Key  string `name:"idempotency-key" help:"Idempotency key; the same key resets the session once." placeholder:"KEY"`
}

// Help is shown by "daybook session reset --help".
func (c *sessionResetCmd) Help() string {
	return "The next turn starts from the heap or, without one, from a fresh isolate. Runs accepted before the reset do not change. In a named session, \"daybook run --continue --session NAME\" starts from the heap. " +
		"The heap must be one that a run of the session left or started from; \"daybook session log\" lists these heaps. The reset is recorded; nothing is deleted."
}

// Run resets a session and prints its new session head.
func (c *sessionResetCmd) Run(ctx context.Context, std *streams) error {
	if err := c.check(); err != nil {
		return err
	}
	key := ""
	if c.Heap != "" {
		var err error
		if key, err = c.heapKey(ctx, c.Heap); err != nil {
			return err
		}
	}
	answer, err := c.api().ResetSession(ctx, c.Name, key, c.Key)
	if err != nil {
		return withSessionHint(err, listSessions)
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	s, to := answer.Body, "a fresh isolate"
	if s.Head != nil {
		to = "heap " + *s.Head
	}
	std.out.Printf("%s session %s reset to %s\n", string(s.Kind), labelOf(s.SessionID, s.Name), to)
	return nil
}

// labelOf returns the name of a session as shown in messages, or its id if it has none.
func labelOf(id string, name *string) string {
	if name != nil && *name != "" {
		return strconv.Quote(terminal.OneLine(*name, 60))
	}
	return id
}

type sessionOpenCmd struct {
	clientFlags
	Intent string   `arg:"" help:"Purpose of the session, compared exactly: the same intent opens the same session." placeholder:"INTENT"`
	Seed   []string `help:"Catalog entry to declare: an id such as builtin.console, or a source such as builtin; may be repeated." default:"builtin" placeholder:"ID"`
}

// Run prints the id of the session to stdout, for "daybook run --in", and the
// declarations that are new to the session to stderr.
func (c *sessionOpenCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().OpenSession(ctx, client.Opening{Intent: c.Intent, Seeds: c.Seed})
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.PrintJSON(answer.JSON)
	}
	opened := answer.Body
	if opened.StateLost && opened.Broken != nil {
		std.err.Printf("The state of this session could not be restored (%s): it starts from a fresh isolate.\n", *opened.Broken)
	}
	fmt.Fprint(std.err, opened.Declarations)
	fmt.Fprintln(std.out, opened.SessionID)
	return nil
}

type sessionShredCmd struct {
	clientFlags
	Name           string `arg:"" optional:"" help:"Name of the session; or its intent, ref, id or the first 12 characters of its id." placeholder:"NAME"`
	WithoutSession bool   `help:"Shred what belongs to no session instead: runs without a session, values and notes of conversation contexts, tags that clients set."`
	Force          bool   `help:"Also remove heaps that other runs depend on, and shred although content keys are missing."`
}

// Help is shown by "daybook session shred --help".
func (c *sessionShredCmd) Help() string {
	return "Destroys the content keys that encrypt the sources, output, results, errors, tags and heaps of the session's runs, the prompts of an ACP session, and the intent of a logical one. This cannot be undone. " +
		"Other recorded data, such as times and statuses, and all proofs stay. Affects only content recorded while the server ran with --erasable-sessions. Refused while runs of the session are in progress and, without --force, while other runs depend on its heaps or a content key of the session is missing."
}

// Run shreds content and prints a summary.
func (c *sessionShredCmd) Run(ctx context.Context, std *streams) error {
	if c.WithoutSession && c.Name != "" {
		return usageError{errors.New("give the name of a session, or --without-session, not both")}
	}
	shred := func() (client.Answer[client.Shredded], error) { return c.api().ShredWithoutSession(ctx, c.Force) }
	if !c.WithoutSession {
		if err := (oneSession{c.Name}).check(); err != nil {
			return err
		}
		shred = func() (client.Answer[client.Shredded], error) { return c.api().Shred(ctx, c.Name, c.Force) }
	}
	answer, err := shred()
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	done := answer.Body
	fmt.Fprintf(std.out, "Shredded the content of %s and %s on %s, by event %d.\n", terminal.CountNoun(done.Executions, "run"), terminal.CountNoun(done.Heaps, "heap"), done.At, done.Seq)
	if done.Kept > 0 {
		fmt.Fprintf(std.err, "The content of %s stays: the server ran without --erasable-sessions then.\n", terminal.CountNoun(done.Kept, "earlier run"))
	}
	return nil
}
