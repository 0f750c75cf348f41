// Package artifacts decides how the answers of protocols show the artifacts of a run: which of
// them have their bytes in the answer, and as what kind of content. artifacts.go is its only
// file.
package artifacts

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/projections"
)

// Limits of the artifacts in one answer.
const (
	// MaxBytes bounds their bytes. They are in memory several times, once as base64.
	MaxBytes = 4 << 20
	// maxTextBytes bounds the bytes of an artifact that an answer shows as text, because
	// clients pass it to a model.
	maxTextBytes = 16 << 10
	// MaxListed bounds their number.
	MaxListed = 50
)

// Kind is the kind of content that shows an artifact.
type Kind string

// The kinds of content.
const (
	// Image and Audio are the media types that clients show and play.
	Image Kind = "image"
	Audio Kind = "audio"
	// Text is text in UTF-8 of at most 16 KiB.
	Text Kind = "text"
	// Other is all other content.
	Other Kind = ""
)

// kindOf returns the kind for a media type.
func kindOf(mime string) Kind {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	switch mime = strings.TrimSpace(mime); mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return Image
	case "application/json":
		return Text
	}
	switch kind, _, _ := strings.Cut(mime, "/"); kind {
	case "audio", "text":
		return Kind(kind)
	}
	return Other
}

// IsText reports whether bytes of a media type are text: of a type of text, and UTF-8.
func IsText(mime string, b []byte) bool { return kindOf(mime) == Text && utf8.Valid(b) }

// Part is the part of the address of an artifact between the id of the execution and the
// name.
const Part = "/artifacts/"

// URI returns the address of an artifact for clients of MCP and ACP. All characters of the
// name are escaped except unreserved ones, because a variable in a template of MCP matches no
// others.
func URI(execution, name string) string {
	return "execution://" + execution + Part + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
}

// Queries is the part of the read side that Reader needs. *projections.Store implements it.
type Queries interface {
	Artifacts(ctx context.Context, tenant, id string) ([]projections.Artifact, error)
	ArtifactBytes(ctx context.Context, tenant string, f projections.Artifact) ([]byte, error)
}

// Shown is an artifact in an answer.
type Shown struct {
	projections.Artifact
	// Inline is true if the answer has the bytes, Bytes, as content of the kind Kind.
	Inline bool
	Kind   Kind
	Bytes  []byte
}

// Reader reads the artifacts for the answers of one tenant.
type Reader struct {
	Queries Queries
	Tenant  string
	// WithOthers selects the bytes of artifacts of the kind Other too, for clients that cannot
	// read them later.
	WithOthers bool
	// OnUnreadable is called with the reason if the bytes of an artifact cannot be read. The
	// answer then lists it without them.
	OnUnreadable func(f projections.Artifact, reason error)
}

// Read returns the artifacts of an execution for an answer about it: without those that a
// later one of the same name replaced, at most MaxListed, with at most MaxBytes in total. left
// is the number of artifacts beyond MaxListed. A shredded or removed execution has none. Read
// returns an error if the answer can be tried again: when ctx is done, or the memory of
// answers is in use.
func (r Reader) Read(ctx context.Context, execution string) (list []Shown, left int, err error) {
	all, err := r.Queries.Artifacts(ctx, r.Tenant, execution)
	if errors.Is(err, events.ErrShredded) || errors.Is(err, events.ErrRemoved) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	space := int64(MaxBytes)
	for _, f := range all {
		switch {
		case f.IsReplaced:
			continue
		case len(list) == MaxListed:
			left++
			continue
		}
		s := Shown{Artifact: f, Kind: kindOf(f.MIME)}
		if s.Kind == Text && f.Size > maxTextBytes {
			s.Kind = Other
		}
		if f.Size <= space && (s.Kind != Other || r.WithOthers) {
			if err := r.readBytes(ctx, &s); err != nil {
				return nil, 0, err
			}
		}
		if s.Inline {
			space -= f.Size
		}
		list = append(list, s)
	}
	return list, left, nil
}

// readBytes adds the bytes to an artifact. It reports that they cannot be read unless another
// try can succeed.
func (r Reader) readBytes(ctx context.Context, s *Shown) error {
	b, err := r.Queries.ArtifactBytes(ctx, r.Tenant, s.Artifact)
	if err != nil {
		if full, exhausted := errors.AsType[*budget.ExhaustedError](err); exhausted && !full.IsPermanent() || ctx.Err() != nil {
			return err
		}
		r.OnUnreadable(s.Artifact, err)
		return nil
	}
	s.Inline, s.Bytes = true, b
	if s.Kind == Text && !utf8.Valid(b) {
		s.Kind = Other
	}
	return nil
}
