package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"daybook/embed"
	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type eventsExportCmd struct {
	clientFlags
	Dir        string   `arg:"" help:"Directory to create." placeholder:"DIR"`
	AuditKey   string   `help:"File of the signing key, if it is kept outside of --data-dir." placeholder:"FILE" env:"-"`
	Signed     string   `name:"audit-signed" help:"File with the newest signed checkpoint, if --audit-signed of the server names one." placeholder:"FILE" env:"-"`
	From       position `help:"First position, 1 or more. Default: that of the first event that is not removed." placeholder:"SEQUENCE"`
	To         position `help:"Last position, inclusive. Default: the last one that the checkpoint covers." placeholder:"SEQUENCE"`
	Since      moment   `help:"Earliest time of the events: a time such as 2026-11-21T09:30:00Z, a day, or an age such as 2h or 7d." placeholder:"TIME"`
	Until      moment   `help:"Latest time of the events, in the same forms." placeholder:"TIME"`
	Execution  string   `help:"Execution whose events to export: its id, a unique prefix, or @last." placeholder:"ID"`
	Session    string   `help:"Session to export, with its runs: a name, intent, ref or id, or a unique prefix." placeholder:"SESSION"`
	Heaps      bool     `help:"Include heaps, and texts that are too large for their events. Heaps of erasable sessions are included unencrypted: shredding does not reach them."`
	Checkpoint string   `help:"File of the signed checkpoint to use instead of the newest, to repeat an export byte for byte." placeholder:"FILE" env:"-"`
	Resume     bool     `help:"Continue an unfinished export."`
	Decrypt    string   `help:"Additional file, outside of the export, for the events with decrypted content of erasable sessions, as far as the keys are available. Shredding does not reach it." placeholder:"FILE" env:"-"`
	KeyDir     string   `name:"key-dir" help:"Directory of the content keys for --decrypt; not needed with --data-dir." placeholder:"DIR" env:"-"`
	withLosses bool     `kong:"-"`
}

// Help is shown by "daybook events export --help".
func (c *eventsExportCmd) Help() string {
	return "Writes a directory that can be verified without the server: events as CloudEvents with every byte that their leaves are computed from, a signed checkpoint, proofs, and a manifest. " +
		"Verify it with \"daybook verify --export DIR\" or with examples/verify-python."
}

// Validate checks the flags against each other.
func (c *eventsExportCmd) Validate() error {
	if c.Decrypt != "" && c.KeyDir == "" && c.DataDir == "" {
		return errors.New("--decrypt needs the keys: give --key-dir, or --data-dir")
	}
	if c.To != 0 && c.From > c.To {
		return fmt.Errorf("--from is %d and --to is %d: give the smaller position as --from; both are included", c.From, c.To)
	}
	if !c.Until.IsZero() && c.Until.Before(c.Since.Time) {
		return errors.New("--until is before --since: exchange them")
	}
	return c.clientFlags.Validate()
}

// position is a position in the ledger, from the command line.
type position uint64

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *position) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("%.40q is not a position: give a whole number of 1 or more, such as 42; \"daybook events tail\" shows positions", text)
	}
	*p = position(n)
	return nil
}

// Run writes the export and prints a summary.
func (c *eventsExportCmd) Run(ctx context.Context, std *streams) error {
	p := terminal.NewProgress(std.err, "exported")
	opts := embed.ExportOptions{
		Dir: c.Dir, Resume: c.Resume, From: uint64(c.From), To: uint64(c.To), Since: c.Since.Time, Until: c.Until.Time, Execution: c.Execution, Session: c.Session,
		Blobs: c.Heaps, Progress: p.Show, Server: c.get, ServerPost: c.post, WithLosses: c.withLosses,
	}
	if c.DataDir != "" {
		opts.Server, opts.ServerPost, opts.DataDir, opts.AuditKey, opts.SignedFile = nil, nil, c.DataDir, c.AuditKey, c.Signed
	}
	if c.Checkpoint != "" {
		var err error
		if opts.Checkpoint, err = readFile(c.Checkpoint); err != nil {
			return usageError{err}
		}
	}
	exported, err := embed.Export(ctx, opts)
	if errors.Is(err, embed.ErrLocked) { // the owner of the directory has the ledger open
		opts.Server, opts.ServerPost, opts.DataDir = c.get, c.post, ""
		exported, err = embed.Export(ctx, opts)
	}
	p.Clear()
	if err != nil {
		return optionError(err)
	}
	if c.Decrypt != "" {
		done, err := embed.DecryptExport(ctx, embed.Options{DataDir: c.DataDir, Content: embed.ContentOptions{KeyDir: c.KeyDir}}, c.Dir, c.Decrypt)
		if err != nil {
			return err
		}
		fmt.Fprintf(std.err, "Decrypted %s to %s; the content of %d without a key in the directory of the keys stays encrypted.\n", terminal.CountNoun(done.Readable, "event"), c.Decrypt, done.Unreadable)
	}
	if c.JSON {
		return std.out.PrintJSON(exported)
	}
	kind := "each with a proof"
	if exported.Complete {
		kind = "all that the checkpoint covers"
	}
	_, err = fmt.Fprintf(std.out, "Exported %s (%s) and %s, %s, to %s\nunder the checkpoint of %s with the tree hash %s.\n",
		terminal.CountNoun(exported.Events, "event"), kind, terminal.CountNoun(exported.Blobs, "blob"), terminal.CountNoun(exported.Bytes, "byte"), exported.Dir, terminal.CountNoun(exported.Size, "event"), exported.Root)
	if exported.Pending > 0 {
		fmt.Fprintf(std.out, "The export omits %s that no checkpoint covers yet; with a token of the scope sign the export has them, too.\n", terminal.CountNoun(exported.Pending, "newer event"))
	}
	return err
}

// post sends a POST request without a body.
func (f clientFlags) post(ctx context.Context, path string, header ...string) (*http.Response, error) {
	resp, err := f.api().Send(ctx, http.MethodPost, path, nil, header...)
	return resp, asRemote(err)
}

// get sends a GET request.
func (f clientFlags) get(ctx context.Context, path string, header ...string) (*http.Response, error) {
	resp, err := f.api().Send(ctx, http.MethodGet, path, nil, header...)
	return resp, asRemote(err)
}

// remoteError is an error of the server with the methods that an export looks for.
type remoteError struct{ cause *client.Error }

// asRemote returns the error of a request in the form that package embed expects.
func asRemote(err error) error {
	if refused, ok := errors.AsType[*client.Error](err); ok {
		return remoteError{refused}
	}
	if errors.Is(err, client.ErrNoServer) {
		return &embed.AnswerError{Err: err}
	}
	return err
}

func (e remoteError) Error() string { return e.cause.Message }
func (e remoteError) Unwrap() error { return e.cause }

// Status returns the HTTP status of the answer.
func (e remoteError) Status() int { return e.cause.Status }

// Code returns the class of the error, as in the answer.
func (e remoteError) Code() string { return e.cause.Code }
