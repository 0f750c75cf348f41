package mcp

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/projections"
)

const (
	// maxInlineArtifacts bounds the bytes of the artifacts in one answer. They are in memory
	// several times, once as base64.
	maxInlineArtifacts = 4 << 20
	// maxInlineText bounds the bytes of a text artifact in an answer, because the client
	// passes it to its model.
	maxInlineText = 16 << 10
	// maxListedArtifacts bounds the number of artifacts in an answer.
	maxListedArtifacts = 50
)

// artifactAnswer describes an artifact in an answer about an execution.
type artifactAnswer struct {
	Name   string `json:"name"`
	MIME   string `json:"mime_type"`
	Size   int64  `json:"size_bytes"`
	Inline bool   `json:"inline"`
	// URI is the address of the bytes; absent in stateless mode.
	URI string `json:"uri,omitempty"`
}

func artifactField() field {
	return optionalField(listField("artifacts", objectSchema(typedField("name", "string"), typedField("mime_type", "string"), typedField("size_bytes", "integer"),
		typedField("inline", "boolean"), optionalField(typedField("uri", "string")))))
}

// artifactsOf returns the artifacts of an execution that has ended, without those that a
// later one of the same name replaced, and the content of an answer about them: images, audio
// and short texts as they are, the others as links. In stateless mode, where nothing can be
// read later, the others are content too. What exceeds the limits is only listed.
func (s *Server) artifactsOf(ctx context.Context, d projections.ExecutionDetail) (list []artifactAnswer, blocks []sdk.Content, err error) {
	if d.Artifacts == 0 || !d.Status.Terminal() || d.Shredded != nil {
		return nil, nil, nil
	}
	all, err := s.opts.Queries.Artifacts(ctx, s.tenant, d.ExecutionID)
	if err != nil {
		if errors.Is(err, events.ErrShredded) || errors.Is(err, events.ErrRemoved) {
			err = nil // since d was read
		}
		return nil, nil, err
	}
	left := int64(maxInlineArtifacts)
	for _, f := range all {
		if f.IsReplaced || len(list) == maxListedArtifacts {
			continue
		}
		shown := artifactAnswer{Name: f.Name, MIME: f.MIME, Size: f.Size, URI: artifactURI(d.ExecutionID, f.Name)}
		var block sdk.Content
		if f.Size <= left {
			if block, err = s.artifactContent(ctx, f, shown.URI); err != nil {
				return nil, nil, err
			}
		}
		if shown.Inline = block != nil; shown.Inline {
			left -= f.Size
		}
		if block == nil && !s.opts.Stateless {
			block = &sdk.ResourceLink{URI: shown.URI, Name: f.Name, MIMEType: f.MIME, Size: new(f.Size)}
		}
		if s.opts.Stateless {
			shown.URI = ""
		}
		list = append(list, shown)
		if block != nil {
			blocks = append(blocks, block)
		}
	}
	return list, blocks, nil
}

// artifactContent returns the content of an artifact for an answer, or nil if it is not
// inlined: by its kind, or because it cannot be read now. Its resource has the reason.
func (s *Server) artifactContent(ctx context.Context, f projections.Artifact, uri string) (sdk.Content, error) {
	kind := inlineKind(f.MIME)
	if kind == "text" && f.Size > maxInlineText {
		kind = ""
	}
	if kind == "" && !s.opts.Stateless {
		return nil, nil
	}
	b, err := s.opts.Queries.ArtifactBytes(ctx, s.tenant, f)
	if full, exhausted := errors.AsType[*budget.ExhaustedError](err); exhausted && !full.IsPermanent() || ctx.Err() != nil {
		return nil, err // the call is tried again
	}
	switch {
	case err != nil:
		s.logger.WarnContext(ctx, "artifact not read", "number", f.Number, "err", err)
		return nil, nil
	case kind == "image":
		return &sdk.ImageContent{Data: b, MIMEType: f.MIME}, nil
	case kind == "audio":
		return &sdk.AudioContent{Data: b, MIMEType: f.MIME}, nil
	}
	return &sdk.EmbeddedResource{Resource: resourceContents(uri, f.MIME, b)}, nil
}

// inlineKind returns image, audio or text for a media type that clients show, and an empty
// text for any other.
func inlineKind(mime string) string {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	switch mime = strings.TrimSpace(mime); mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return "image"
	case "application/json":
		return "text"
	}
	switch kind, _, _ := strings.Cut(mime, "/"); kind {
	case "audio", "text":
		return kind
	}
	return ""
}

// resourceContents returns bytes as text if their media type is that of text and they are UTF-8,
// otherwise as a blob.
func resourceContents(uri, mime string, b []byte) *sdk.ResourceContents {
	c := &sdk.ResourceContents{URI: uri, MIMEType: mime}
	if inlineKind(mime) == "text" && utf8.Valid(b) {
		c.Text = string(b)
	} else {
		c.Blob = b
	}
	return c
}

const artifactsPart = "/artifacts/"

// artifactURI returns the address of an artifact. A template variable matches only unreserved
// characters, so all others are escaped.
func artifactURI(id, name string) string {
	return "execution://" + id + artifactsPart + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
}

func (s *Server) artifactResource() resource {
	return resource{
		name: "execution_artifact", title: "Artifact", scheme: "execution://", inner: artifactsPart, skipContext: true,
		description: "What a run passed to artifact(name, mime, bytes).",
		readBytes: func(ctx context.Context, named string) (string, []byte, error) {
			id, name, _ := strings.Cut(named, "/")
			f, err := s.opts.Queries.Artifact(ctx, s.tenant, id, name, 0)
			if err != nil {
				return "", nil, err
			}
			b, err := s.opts.Queries.ArtifactBytes(ctx, s.tenant, f)
			return f.MIME, b, err
		},
		version: func(ctx context.Context, named string) (string, error) {
			id, name, _ := strings.Cut(named, "/")
			f, err := s.opts.Queries.Artifact(ctx, s.tenant, id, name, 0)
			return strconv.Itoa(f.Number), err
		},
	}
}
