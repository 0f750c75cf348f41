package worker

import (
	"errors"
	"fmt"
	"io"
	"time"

	"daybook/events"
	"daybook/runner"
)

// artifactHeader precedes the bytes of an artifact.
type artifactHeader struct {
	Name     string `json:"name"`
	MIME     string `json:"mime"`
	AtMicros int64  `json:"at_micros"`
	Size     int    `json:"size"`
}

// artifact sends an artifact to the parent.
func (s *server) artifact(h artifactHeader, content []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return writeBuffered(s.out, func(w io.Writer) error {
		if err := writeMessage(w, frameArtifact, h); err != nil {
			return err
		}
		return writeBody(w, content)
	})
}

// artifacts checks the frames of artifacts for a frameChecker. The native side of the worker
// enforces the same limits, so that a worker that exceeds them is killed.
type artifacts struct {
	made      int
	total     int // bytes of all artifacts
	size      int // announced for receiving
	receiving *runner.Artifact
}

// takeHeader starts an artifact. It returns one without bytes, which is complete.
func (a *artifacts) takeHeader(payload []byte) (*runner.Artifact, error) {
	var h artifactHeader
	if err := decodeMessage(payload, &h); err != nil {
		return nil, err
	}
	switch problem := events.CheckArtifactName(h.Name); {
	case problem != "":
		return nil, fmt.Errorf("an artifact whose %s", problem)
	case !events.ValidArtifactMIME(h.MIME):
		return nil, errors.New("an artifact with a malformed media type")
	case h.AtMicros < earliestLine || h.AtMicros > latestLine:
		return nil, fmt.Errorf("an artifact has time %d", h.AtMicros)
	case h.Size < 0 || h.Size > events.ArtifactMaxBytes:
		return nil, fmt.Errorf("an artifact of %d bytes", h.Size)
	case a.made >= events.ArtifactMaxCount:
		return nil, fmt.Errorf("more than %d artifacts", events.ArtifactMaxCount)
	case h.Size > events.ArtifactMaxTotal-a.total:
		return nil, fmt.Errorf("artifacts of more than %d bytes", events.ArtifactMaxTotal)
	}
	a.made++
	a.total += h.Size
	next := &runner.Artifact{Name: h.Name, MIME: h.MIME, At: time.UnixMicro(h.AtMicros).UTC()}
	if h.Size == 0 {
		return next, nil
	}
	// The announced size may be false.
	next.Bytes = make([]byte, 0, min(h.Size, maxPayload))
	a.receiving, a.size = next, h.Size
	return nil, nil
}

// takeBytes adds a piece of an artifact. It returns the artifact if it is complete.
func (a *artifacts) takeBytes(payload []byte) (*runner.Artifact, error) {
	whole := a.receiving
	if len(payload) == 0 || len(whole.Bytes)+len(payload) > a.size {
		return nil, errors.New("an artifact of another size than announced")
	}
	whole.Bytes = append(whole.Bytes, payload...)
	if len(whole.Bytes) < a.size {
		return nil, nil
	}
	a.receiving = nil
	return whole, nil
}
