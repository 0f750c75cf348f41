package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

type sessionShredCmd struct {
	clientFlags
	Name  string `arg:"" help:"Session name." placeholder:"NAME"`
	Force bool   `help:"Remove heaps that runs outside of the session have use of, too."`
}

// Help is shown by "daybook session shred --help".
func (c *sessionShredCmd) Help() string {
	return "Destroys the keys that the content of the session's runs is encrypted under: source, output, results, errors, the tags they gave, the heaps they left. It cannot be undone. " +
		"That they ran, when and how they ended stays on record, and every proof holds. Only for runs recorded while the server was started with --erasable-sessions."
}

// Run asks the server to erase a session and prints what is gone.
func (c *sessionShredCmd) Run(ctx context.Context, std *streams) error {
	path, err := oneSession{c.Name}.path()
	if err != nil {
		return err
	}
	path += "/content"
	if c.Force {
		path += query("force", "true")
	}
	var raw json.RawMessage
	if err := c.call(ctx, http.MethodDelete, path, nil, &raw); err != nil {
		return err
	}
	if c.JSON {
		return std.out.writeJSON(compact(raw))
	}
	var done struct {
		Seq                     uint64
		At                      string
		Executions, Heaps, Kept int
	}
	if err := json.Unmarshal(raw, &done); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	fmt.Fprintf(std.out, "Erased the content of %s and %s on %s, by event %d.\n", counted(done.Executions, "run"), counted(done.Heaps, "heap"), done.At, done.Seq)
	if done.Kept > 0 {
		fmt.Fprintf(std.err, "The content of %s stays: the session was not erasable then.\n", counted(done.Kept, "earlier run"))
	}
	return nil
}
