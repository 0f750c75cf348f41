package mcp

import (
	"context"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/artifacts"
	"daybook/projections"
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
	shown, _, err := artifacts.Reader{
		Queries: s.opts.Queries, Tenant: s.tenant, WithOthers: s.opts.Stateless,
		OnUnreadable: func(f projections.Artifact, err error) {
			s.logger.WarnContext(ctx, "artifact not read", "number", f.Number, "err", err)
		},
	}.Read(ctx, d.ExecutionID)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range shown {
		one := artifactAnswer{Name: f.Name, MIME: f.MIME, Size: f.Size, Inline: f.Inline, URI: artifacts.URI(d.ExecutionID, f.Name)}
		switch {
		case f.Inline:
			blocks = append(blocks, artifactContent(f, one.URI))
		case !s.opts.Stateless:
			blocks = append(blocks, &sdk.ResourceLink{URI: one.URI, Name: f.Name, MIMEType: f.MIME, Size: new(f.Size)})
		}
		if s.opts.Stateless {
			one.URI = ""
		}
		list = append(list, one)
	}
	return list, blocks, nil
}

// artifactContent returns the content of an artifact that is in an answer.
func artifactContent(f artifacts.Shown, uri string) sdk.Content {
	switch f.Kind {
	case artifacts.Image:
		return &sdk.ImageContent{Data: f.Bytes, MIMEType: f.MIME}
	case artifacts.Audio:
		return &sdk.AudioContent{Data: f.Bytes, MIMEType: f.MIME}
	}
	return &sdk.EmbeddedResource{Resource: resourceContents(uri, f.MIME, f.Bytes)}
}

// resourceContents returns bytes as text if their media type is that of text and they are UTF-8,
// otherwise as a blob.
func resourceContents(uri, mime string, b []byte) *sdk.ResourceContents {
	c := &sdk.ResourceContents{URI: uri, MIMEType: mime}
	if artifacts.IsText(mime, b) {
		c.Text = string(b)
	} else {
		c.Blob = b
	}
	return c
}

func (s *Server) artifactResource() resource {
	return resource{
		name: "execution_artifact", title: "Artifact", scheme: "execution://", inner: artifacts.Part, skipContext: true,
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
