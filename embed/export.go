package embed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/translog"
	"daybook/proof"
)

// ExportOptions select the source, the events and the directory of an export. Exactly one
// of DataDir and Server MUST be set.
type ExportOptions struct {
	// DataDir is the data directory of a Daybook that is not running.
	DataDir string
	// AuditKey and SignedFile are Options.Proof.KeyFile and SignedFile, for DataDir.
	AuditKey, SignedFile string
	// Server sends a request to a running server.
	Server audit.Get
	// ServerPost, if set, sends a POST request. Export then asks the server to sign a
	// checkpoint of all recorded events first. The server may refuse that.
	ServerPost audit.Get
	// Dir is the directory to create. Resume continues an unfinished export.
	Dir    string
	Resume bool
	// From and To are the first and the last position, both included. Defaults: the
	// first position, and the last signed one. Since and Until limit the time of the
	// events.
	From, To     uint64
	Since, Until time.Time
	// WithLosses ends the export later than To, if necessary, at the event that records the
	// losses before it. Without that event, the export cannot be verified.
	WithLosses bool
	// Execution and Session limit the export to one execution or session. Execution is
	// an id, a unique prefix or "@last". Session is a name, an id, an intent, a ref or
	// a unique prefix.
	Execution, Session string
	// Checkpoint is the signed checkpoint to export under. Default: the newest.
	Checkpoint []byte
	// Blobs includes the heaps and texts that the events reference.
	Blobs bool
	// Progress, if set, is called periodically with the events done so far.
	Progress func(done, total uint64)
	// Logger receives messages of the store. Default: they are discarded.
	Logger *slog.Logger
}

// Exported summarizes an export.
type Exported = audit.Exported

// ExportDirError is returned by Export and Verify if the directory of an export cannot
// be used.
type ExportDirError = audit.DirError

// Export writes events, and the proofs of them, to a directory.
func Export(ctx context.Context, opts ExportOptions) (exported Exported, err error) {
	settings := audit.ExportOptions{
		Dir: opts.Dir, Resume: opts.Resume, Checkpoint: opts.Checkpoint, Blobs: opts.Blobs, Progress: opts.Progress, WithLosses: opts.WithLosses,
		Selection: proof.ExportSelection{
			From: opts.From, To: opts.To, Since: opts.Since, Until: opts.Until, Execution: opts.Execution, Session: opts.Session,
		},
	}
	if opts.Server != nil {
		if settings.Selection.Session, err = resolveOverREST(ctx, opts.Server, opts.Session); err != nil {
			return Exported{}, err
		}
		if settings.Selection.Execution, err = executionOverREST(ctx, opts.Server, opts.Execution); err != nil {
			return Exported{}, err
		}
		return audit.Export(ctx, audit.NewRemote(opts.Server, opts.ServerPost), settings)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if err := readableIn(opts.DataDir); err != nil {
		return Exported{}, err
	}
	// Without a runner and listeners this Daybook only signs the events that no checkpoint
	// covers yet.
	book, err := Start(ctx, Options{DataDir: opts.DataDir, Proof: ProofOptions{KeyFile: opts.AuditKey, SignedFile: opts.SignedFile}, Runs: RunOptions{Elsewhere: true}, Storage: StorageOptions{SealEvery: sealNever, SealBytes: -1, SealExecutions: -1, StreamVolumes: -1, ProjectionCopies: -1}, Logger: opts.Logger})
	if err != nil {
		return Exported{}, err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	if err := book.checkExportable(ctx, opts); err != nil {
		return Exported{}, err
	}
	if opts.Session != "" || opts.Execution != "" {
		if err := book.waitApplied(ctx); err != nil {
			return Exported{}, err
		}
	}
	if opts.Session != "" {
		if settings.Selection.Session, err = book.resolveSession(ctx, opts.Session); err != nil {
			return Exported{}, err
		}
	}
	if opts.Execution != "" && len(opts.Execution) != executionIDLength {
		if settings.Selection.Execution, err = book.projections.ResolveExecution(ctx, events.DefaultTenant, opts.Execution, ""); err != nil {
			return Exported{}, fmt.Errorf("find execution %q: %w", opts.Execution, err)
		}
	}
	src := *book.localProofs()
	src.CompareEvents = true
	return audit.Export(ctx, src, settings)
}

// checkExportable returns an error if the ledger contradicts what was signed, or if the export would wait for a
// checkpoint that a damaged ledger never gets: it records nothing, neither the start of its origin nor a checkpoint.
func (d *Daybook) checkExportable(ctx context.Context, opts ExportOptions) error {
	switch err := d.awaitCompared(ctx); {
	case translog.ContradictsSigned(err):
		return fmt.Errorf("export to %s: %w", opts.Dir, err)
	case err != nil && !errors.Is(err, events.ErrDamaged):
		return err
	}
	if !d.damage.Damaged() {
		return nil
	}
	newest, ok := d.audit.Latest()
	needed := opts.To
	if needed == 0 && opts.Checkpoint == nil && !opts.Resume {
		var err error
		if needed, err = d.store.LastSeq(ctx); err != nil {
			return fmt.Errorf("read the end of the ledger: %w", err)
		}
	}
	switch {
	case !ok:
		return fmt.Errorf("%w; nothing can be exported, because there is no signed checkpoint of this ledger; %s", d.damage.Err(), d.damage.Advice())
	case needed > newest.Size:
		return fmt.Errorf("%w; the newest checkpoint covers %d events: end the export there or before, with --to; or %s", d.damage.Err(), newest.Size, d.damage.Advice())
	}
	return nil
}

// awaitCompared waits until the ledger was compared with what was signed, or damage is known, which it returns. Before,
// an export could have events that a checkpoint contradicts. The events that a start does not read are compared while
// they are exported.
func (d *Daybook) awaitCompared(ctx context.Context) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-d.damage.Found():
			stop()
		case <-waiting.Done():
		}
	}()
	err := d.audit.AwaitCompared(waiting)
	if d.audit.Damage() != nil {
		select {
		case <-d.auditing.done: // it has reported the damage then
		case <-ctx.Done():
		}
	}
	if found := cmp.Or(d.audit.Damage(), d.damage.Err()); found != nil { // it can be known before the comparison ends
		return found
	}
	return err
}

// ExportHash returns the SHA-256 of the events in the export of a volume. It reads the
// hash from the manifest and does not compute it: call Verify before, which compares the
// manifest with the events.
func ExportHash(dir string) (string, error) {
	_, _, sha, err := audit.ExportedVolume(dir)
	if err != nil {
		return "", fmt.Errorf("read the export in %s: %w", dir, err)
	}
	return sha, nil
}

// waitApplied waits until the projections have applied every event of the ledger.
func (d *Daybook) waitApplied(ctx context.Context) error {
	last, err := d.store.LastSeq(ctx)
	if err != nil {
		return fmt.Errorf("read the end of the ledger: %w", err)
	}
	if err := d.projections.Wait(ctx, last); err != nil {
		return fmt.Errorf("wait for the projections: %w", err)
	}
	return nil
}

// resolveSession returns the session that a text means, in the form of
// proof.ExportSelection. It returns an unknown text unchanged, as a name.
func (d *Daybook) resolveSession(ctx context.Context, text string) (string, error) {
	s, err := d.projections.ResolveSession(ctx, events.DefaultTenant, text)
	switch {
	case errors.Is(err, events.ErrNotFound):
		return text, nil
	case err != nil:
		return "", err
	}
	return selectionOf(s.SessionID, s.Kind, s.Name), nil
}

func selectionOf(id string, kind events.SessionKind, name *string) string {
	if kind == events.SessionLog && name != nil {
		return *name
	}
	return id
}

// resolveOverREST is resolveSession through a server. A server of an earlier version
// knows only names and answers that the path does not exist.
func resolveOverREST(ctx context.Context, get audit.Get, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	resp, err := get(ctx, "/api/sessions/"+url.PathEscape(text), "Accept", "application/json")
	if err != nil {
		if status, ok := errors.AsType[interface {
			error
			Status() int
		}](err); ok && status.Status() == http.StatusNotFound {
			return text, nil
		}
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return text, nil
	}
	var s struct {
		SessionID string             `json:"session_id"`
		Kind      events.SessionKind `json:"kind"`
		Name      *string            `json:"name"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&s)
	if err == nil && s.SessionID == "" {
		err = errNoID
	}
	if err != nil {
		return "", &AnswerError{Err: fmt.Errorf("find session %q: the server answered %s: %w", text, resp.Status, err)}
	}
	return selectionOf(s.SessionID, s.Kind, s.Name), nil
}

// errNoID is the error of an answer without the id that was asked for.
var errNoID = errors.New("the answer has no id")

// executionIDLength is the length of a complete execution id, a UUID.
const executionIDLength = 36

// executionOverREST returns the id of the execution that a text means.
func executionOverREST(ctx context.Context, get audit.Get, text string) (string, error) {
	if text == "" || len(text) == executionIDLength {
		return text, nil
	}
	resp, err := get(ctx, "/api/resolve?kind=execution&id="+url.QueryEscape(text), "Accept", "application/json")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var found struct {
		ID string `json:"id"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&found)
	if err == nil && found.ID == "" {
		err = errNoID
	}
	if err != nil {
		return "", &AnswerError{Err: fmt.Errorf("find execution %q: the server answered %s: %w", text, resp.Status, err)}
	}
	return found.ID, nil
}
