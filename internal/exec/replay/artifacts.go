package replay

import (
	"context"
	"fmt"
	"time"

	"daybook/events"
	"daybook/ledger"
	"daybook/runner"
)

// artifactComparison compares artifacts with the record when the replay creates them. Their
// bytes are compared by their hash and dropped.
type artifactComparison struct {
	recorded []ledger.RecordedArtifact
	// isStopped is true if the recorded run was stopped: further artifacts of the replay are
	// then no difference.
	isStopped bool
	// keyedHash returns a hash in the form of the record.
	keyedHash func(hash string) (string, error)

	line       int64 // the number of the line of output that follows
	compared   int   // number of equal artifacts
	difference *Difference
}

// countLines counts lines of output that precede the next artifact.
func (c *artifactComparison) countLines(lines []events.Line) {
	for _, l := range lines {
		if !l.Continued {
			c.line++
		}
	}
}

// take compares an artifact. It returns errDiffers at a difference.
func (c *artifactComparison) take(a runner.Artifact) error {
	hash, err := c.keyedHash(events.Hash(a.Bytes))
	if err != nil {
		return err
	}
	replayed := describeArtifact(a.Name, a.MIME, int64(len(a.Bytes)), hash, c.line, a.At.UnixMilli())
	if c.isComplete() {
		if c.isStopped {
			return nil
		}
		c.difference = &Difference{Part: events.ReplayArtifacts, Artifact: c.compared + 1, Recorded: "(no further artifact)", Replayed: replayed}
		return errDiffers
	}
	next := c.recorded[c.compared]
	if recorded := describeRecorded(next); recorded != replayed {
		c.difference = &Difference{Part: events.ReplayArtifacts, Artifact: next.Number, Recorded: recorded, Replayed: replayed}
		return errDiffers
	}
	c.compared++
	return nil
}

// isComplete reports whether the replay has created every recorded artifact.
func (c *artifactComparison) isComplete() bool { return c.compared == len(c.recorded) }

// missing describes the first recorded artifact that the replay has not created. The
// caller MUST check isComplete.
func (c *artifactComparison) missing() Difference {
	next := c.recorded[c.compared]
	return Difference{Part: events.ReplayArtifacts, Artifact: next.Number, Recorded: describeRecorded(next), Replayed: "(not created)"}
}

func describeRecorded(a ledger.RecordedArtifact) string {
	var content events.ArtifactContent
	if a.Content != nil {
		content = *a.Content
	}
	return describeArtifact(content.Name, content.MIME, a.Size, a.SHA256, a.Line, a.TimeMillis)
}

func describeArtifact(name, mime string, size int64, hash string, line, timeMillis int64) string {
	at := time.UnixMilli(timeMillis).UTC().Format("2006-01-02T15:04:05.000Z")
	return fmt.Sprintf("%q (%s) of %d bytes, SHA-256 %s, before line %d, at %s", name, mime, size, hash, line, at)
}

// takeArtifact compares an artifact when the replay creates it.
func (p *replay) takeArtifact(_ context.Context, a runner.Artifact) error {
	p.timeline.takeArtifact(a)
	if err := p.artifacts.take(a); err != nil {
		return err
	}
	return p.checkReached()
}

// ArtifactDiff is the difference of the artifacts of two runs, in their order. Artifacts are
// equal if their names, media types and bytes are; their times and their places in the output
// are not compared.
type ArtifactDiff struct {
	// Recorded and New count the artifacts of both runs.
	Recorded, New int
	// Changes are the artifacts that only one of the runs created.
	Changes []ArtifactChange
}

// IsEqual reports whether all artifacts are equal.
func (d ArtifactDiff) IsEqual() bool { return len(d.Changes) == 0 }

// ArtifactChange is an artifact of an ArtifactDiff.
type ArtifactChange struct {
	Op LineOp // LineRemoved or LineAdded
	// Number is that of the artifact in its run, from 1.
	Number     int
	Name, MIME string
	Size       int64
	// SHA256 is the hash of the bytes in the form of the record.
	SHA256 string
}

// artifactLog collects what the artifacts of a script are, without their bytes.
type artifactLog struct {
	keyedHash func(hash string) (string, error)
	made      []ArtifactChange
}

func (l *artifactLog) take(_ context.Context, a runner.Artifact) error {
	hash, err := l.keyedHash(events.Hash(a.Bytes))
	l.made = append(l.made, ArtifactChange{LineAdded, len(l.made) + 1, a.Name, a.MIME, int64(len(a.Bytes)), hash})
	return err
}

// diffArtifacts compares recorded artifacts with those of a script.
func diffArtifacts(recorded []ledger.RecordedArtifact, made []ArtifactChange) ArtifactDiff {
	before := make([]ArtifactChange, len(recorded))
	for i, r := range recorded {
		var content events.ArtifactContent
		if r.Content != nil {
			content = *r.Content
		}
		before[i] = ArtifactChange{LineRemoved, r.Number, content.Name, content.MIME, r.Size, r.SHA256}
	}
	d := ArtifactDiff{Recorded: len(before), New: len(made)}
	for _, e := range diffEdits(len(before), len(made), func(i, j int) bool {
		a, b := before[i], made[j]
		return a.Name == b.Name && a.MIME == b.MIME && a.Size == b.Size && a.SHA256 == b.SHA256
	}) {
		d.Changes = append(append(d.Changes, before[e.aFrom:e.aTo]...), made[e.bFrom:e.bTo]...)
	}
	return d
}
