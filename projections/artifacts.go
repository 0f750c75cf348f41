package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
)

// artifactSchema has a row for each artifact of the attempt that counts. Name, media type
// and blob are empty if they are encrypted and the key is not available.
const artifactSchema = `
CREATE TABLE IF NOT EXISTS artifacts (
	execution INTEGER NOT NULL, number INTEGER NOT NULL, seq INTEGER NOT NULL,
	name TEXT NOT NULL, mime TEXT NOT NULL, blob TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL, line INTEGER NOT NULL, at INTEGER NOT NULL,
	PRIMARY KEY (execution, number)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS artifacts_by_name ON artifacts (execution, name, number);
`

// artifactStatements are the statements about artifacts.
type artifactStatements struct{ artifact, lastArtifact, artifactBytes, voidArtifacts, blankArtifacts *statement }

func (s *artifactStatements) queries() []statementDef {
	return []statementDef{
		{&s.artifact, `INSERT INTO artifacts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.lastArtifact, `SELECT coalesce(max(number), 0) FROM artifacts WHERE execution = ?`},
		{&s.artifactBytes, `SELECT coalesce(sum(size), 0) FROM artifacts WHERE execution = ?`},
		{&s.voidArtifacts, `DELETE FROM artifacts WHERE execution = ?`},
		{&s.blankArtifacts, `UPDATE artifacts SET name = '', mime = '', blob = '' WHERE execution IN (SELECT execution FROM sealed_runs WHERE tenant = ?1 AND key_id = ?2)`},
	}
}

func (a *applier) applyArtifact(e *events.Event, d *events.ExecutionArtifactCreated) error {
	st, ok, err := a.loadExecution(e, d.ExecutionID)
	if err != nil || !ok {
		return err
	}
	if st.status.Terminal() {
		return a.recordAnomaly(e, "artifact %d after the end of execution %s", d.Number, d.ExecutionID)
	}
	var last int
	if err := a.queryRow(a.s.lastArtifact, st.id).Scan(&last); err != nil {
		return err
	}
	if d.Number != last+1 || d.Attempt != st.extent.Attempt {
		return a.recordAnomaly(e, "artifact %d of attempt %d of execution %s follows artifact %d of attempt %d", d.Number, d.Attempt, d.ExecutionID, last, st.extent.Attempt)
	}
	content := d.Content.Value()
	if err := a.exec(a.s.artifact, st.id, d.Number, e.Seq, content.Name, content.MIME, content.Blob, d.Size, d.SHA256, d.Line, d.TimeMillis); err != nil {
		return err
	}
	a.usageOf(e.Tenant).OutputBytes += d.Size
	return a.touch(e, st)
}

// dropVoidArtifacts drops the artifacts of earlier attempts when an attempt starts.
func (a *applier) dropVoidArtifacts(tenant string, execution int64) error {
	var size int64
	if err := a.queryRow(a.s.artifactBytes, execution).Scan(&size); err != nil {
		return err
	}
	a.usageOf(tenant).OutputBytes -= size
	return a.exec(a.s.voidArtifacts, execution)
}

// Artifact describes an artifact of an execution.
type Artifact struct {
	Number int    `json:"number" doc:"Counts the artifacts of the execution from 1."`
	Name   string `json:"name" doc:"Name that the script chose. It is not a path."`
	MIME   string `json:"mime" doc:"Media type that the script stated. The bytes need not be of this type."`
	Size   int64  `json:"size" doc:"Number of bytes."`
	SHA256 string `json:"sha256" doc:"SHA-256 of the bytes; a keyed hash if the content of the execution is encrypted in the ledger."`
	Line   int64  `json:"line" doc:"Number of the line of output that follows the artifact."`
	Time   string `json:"time" format:"date-time" doc:"Time on the script's clock."`
	Seq    uint64 `json:"sequence" doc:"Position of the event that records the artifact."`
	// IsReplaced is true if a later artifact of the execution has the same name.
	IsReplaced bool `json:"replaced,omitempty" doc:"Whether a later artifact of the execution has the same name, which is then the one that the name selects."`

	blob string
}

const artifactColumns = `a.number, a.name, a.mime, a.blob, a.size, a.sha256, a.line, a.at, a.seq, ` + isReplaced

// isReplaced is the condition that a later artifact has the name of artifact a.
const isReplaced = `EXISTS (SELECT 1 FROM artifacts b WHERE b.execution = a.execution AND b.name = a.name AND b.number > a.number)`

func (f *Artifact) scan(row interface{ Scan(...any) error }) error {
	var at int64
	err := row.Scan(&f.Number, &f.Name, &f.MIME, &f.blob, &f.Size, &f.SHA256, &f.Line, &at, &f.Seq, &f.IsReplaced)
	f.Time = formatMillis(at)
	return err
}

// Artifacts returns the artifacts of an execution by number, without the bytes. It returns
// events.ErrNotFound for an unknown execution, and an *events.RemovedError for a removed
// one, and for one whose content was shredded.
func (s *Store) Artifacts(ctx context.Context, tenant, id string) ([]Artifact, error) {
	return s.listArtifacts(ctx, tenant, id, "", -1)
}

// CurrentArtifacts returns the first artifacts of an execution, at most limit, like Artifacts,
// without those that a later one of the same name replaced.
func (s *Store) CurrentArtifacts(ctx context.Context, tenant, id string, limit int) ([]Artifact, error) {
	return s.listArtifacts(ctx, tenant, id, " AND NOT "+isReplaced, limit)
}

// listArtifacts returns the artifacts of an execution that meet a condition, at most limit
// unless limit is negative.
func (s *Store) listArtifacts(ctx context.Context, tenant, id, condition string, limit int) ([]Artifact, error) {
	execution, err := s.executionWithArtifacts(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	wrapErr := func(err error) error { return fmt.Errorf("read the artifacts of execution %s: %w", id, err) }
	rows, err := s.reader.QueryContext(ctx, `SELECT `+artifactColumns+` FROM artifacts a WHERE a.execution = ?`+condition+` ORDER BY a.number LIMIT ?`, execution, limit)
	if err != nil {
		return nil, wrapErr(err)
	}
	defer rows.Close()
	list := []Artifact{}
	for rows.Next() {
		var f Artifact
		if err := f.scan(rows); err != nil {
			return nil, wrapErr(err)
		}
		if err := budget.Take(ctx, 512+len(f.Name)+len(f.MIME)); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	if err := rows.Err(); err != nil {
		return nil, wrapErr(err)
	}
	return list, nil
}

// Artifact returns the artifact of an execution with a name, or with a number if number is
// not 0: name must then be empty or match. Of several with the name it is the last one. The
// errors are those of Artifacts, and events.ErrNotFound if there is no such artifact.
func (s *Store) Artifact(ctx context.Context, tenant, id, name string, number int) (Artifact, error) {
	var f Artifact
	execution, err := s.executionWithArtifacts(ctx, tenant, id)
	if err != nil {
		return f, err
	}
	err = f.scan(s.reader.QueryRowContext(ctx, `SELECT `+artifactColumns+` FROM artifacts a
		WHERE a.execution = ?1 AND (?3 = 0 OR a.number = ?3) AND (a.name = ?2 OR ?2 = '' AND ?3 > 0) ORDER BY a.number DESC LIMIT 1`, execution, name, number))
	if isNoRows(err) {
		return f, fmt.Errorf("execution %s has no such artifact: %w", id, events.ErrNotFound)
	}
	if err != nil {
		return f, fmt.Errorf("read an artifact of execution %s: %w", id, err)
	}
	return f, nil
}

// executionWithArtifacts returns the row of an execution whose artifacts are readable.
func (s *Store) executionWithArtifacts(ctx context.Context, tenant, id string) (execution int64, err error) {
	err = s.reader.QueryRowContext(ctx, `SELECT id FROM executions WHERE tenant = ? AND execution_id = ?`, tenant, id).Scan(&execution)
	if isNoRows(err) {
		return 0, executionNotFound(ctx, s.reader, id)
	}
	if err != nil {
		return 0, fmt.Errorf("read execution %s: %w", id, err)
	}
	shred, err := findShred(ctx, s.reader, tenant, id)
	if err == nil && shred != nil {
		err = shred
	}
	return execution, err
}

// ArtifactBytes returns the bytes of an artifact that Artifacts or Artifact returned, after
// it has compared them with the hash of their blob. The errors are those of Texts.Text. The
// memory is taken from the account in ctx.
func (s *Store) ArtifactBytes(ctx context.Context, tenant string, f Artifact) ([]byte, error) {
	if s.opts.Texts == nil || f.blob == "" {
		return nil, fmt.Errorf("read artifact %d: %w", f.Number, events.ErrNotFound)
	}
	if err := reads.From(ctx).Take(ctx); err != nil {
		return nil, err
	}
	b, err := s.opts.Texts.Text(ctx, tenant, f.blob)
	if err == nil && int64(len(b)) != f.Size {
		err = fmt.Errorf("it has %d bytes, and %d are recorded: %w", len(b), f.Size, events.ErrDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("read artifact %d: %w", f.Number, err)
	}
	return b, nil
}

func isNoRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }
