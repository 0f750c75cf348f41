package ledger

import (
	"context"
	"fmt"
	"time"

	"daybook/events"
)

// Artifact is an artifact that a script created.
type Artifact struct {
	// Number counts the artifacts of the attempt from 1.
	Number int
	// Name and MIME are the name and the media type that the script stated.
	Name, MIME string
	Bytes      []byte
	// Line is the number of the line of output that follows the artifact, counted over the
	// whole execution.
	Line int64
	// At is the time on the script's clock.
	At time.Time
}

// RecordedArtifact is an artifact in the ledger.
type RecordedArtifact struct {
	Number int
	// SHA256 is the recorded hash of the bytes: a keyed hash if the content of the run is
	// encrypted; see Recording.KeyedHash.
	SHA256     string
	Size, Line int64
	// TimeMillis is the time on the script's clock, in milliseconds since 1970.
	TimeMillis int64
	// Content is nil if it is encrypted and the key is not available.
	Content *events.ArtifactContent
}

// RecordArtifact stores the bytes of an artifact as a blob and then records it. The caller
// MUST record the artifacts of an attempt in the order of their numbers, and MUST NOT
// record a host call of the attempt at the same time. An artifact beyond the limits of
// package events is CodeInvalid. Other errors are *EndedError, ErrSuperseded, and those of
// the store.
func (l *Ledger) RecordArtifact(ctx context.Context, r *StartedAttempt, a Artifact) error {
	if err := checkArtifact(a); err != nil {
		return err
	}
	req := r.Plan.Request
	keyID := req.ContentKeyID()
	hash, err := l.keyedHash(keyID, events.Hash(a.Bytes))
	if err != nil {
		return err
	}
	var blob string
	if keyID == "" {
		blob, err = l.store.PutText(ctx, req.Tenant, a.Bytes)
	} else {
		blob, err = l.store.PutEncryptedText(ctx, req.Tenant, keyID, a.Bytes)
	}
	if err != nil {
		return unavailable(fmt.Sprintf("store artifact %d of execution %s", a.Number, req.ExecutionID), err)
	}
	d := &events.ExecutionArtifactCreated{
		ExecutionID: req.ExecutionID, Attempt: r.Plan.Attempt, Number: a.Number, SHA256: hash, Size: int64(len(a.Bytes)), Line: a.Line, TimeMillis: a.At.UnixMilli(),
		Content: events.Plain(events.ArtifactContent{Name: a.Name, MIME: a.MIME, Blob: blob}),
	}
	return l.appendRunEvent(ctx, r, d, fmt.Sprintf("record artifact %d of execution %s", a.Number, req.ExecutionID))
}

func checkArtifact(a Artifact) error {
	switch problem := events.CheckArtifactName(a.Name); {
	case problem != "":
		return Invalid("artifact", "artifact: %s", problem)
	case !events.ValidArtifactMIME(a.MIME):
		return Invalid("artifact", `artifact: mime must look like "type/subtype", got "%s"`, Excerpt(a.MIME))
	case len(a.Bytes) > events.ArtifactMaxBytes:
		return Invalid("artifact", "artifact: payload exceeds %d bytes (got %d)", events.ArtifactMaxBytes, len(a.Bytes))
	case a.Number < 1 || a.Number > events.ArtifactMaxCount:
		return Invalid("artifact", "a run creates at most %d artifacts, and this is number %d", events.ArtifactMaxCount, a.Number)
	case a.Line < 1:
		return Invalid("artifact", "output is numbered from line 1, not %d", a.Line)
	}
	return nil
}

// applyArtifact adds an artifact of the newest attempt.
func (h *history) applyArtifact(d *events.ExecutionArtifactCreated) {
	h.artifacts = append(h.artifacts, RecordedArtifact{Number: d.Number, SHA256: d.SHA256, Size: d.Size, Line: d.Line, TimeMillis: d.TimeMillis, Content: d.Content.Plain})
}
