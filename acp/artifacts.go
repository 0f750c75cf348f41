package acp

import (
	"context"
	"encoding/base64"
	"fmt"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/internal/artifacts"
	"daybook/projections"
)

// artifactEntry describes an artifact in the raw output of a run.
type artifactEntry struct {
	Name string `json:"name"`
	MIME string `json:"mime_type"`
	Size int64  `json:"size_bytes"`
	// Inline is true if the content of the tool call has the bytes.
	Inline bool   `json:"inline"`
	URI    string `json:"uri"`
}

// shownArtifacts are the artifacts of an ended run in the update about its end.
type shownArtifacts struct {
	entries []artifactEntry
	content []sdk.ToolCallContent
}

// artifactsOf returns the artifacts of an ended run. An update with them is shorter than
// maxLine: texts, which JSON may write six times as long, are short, and base64 makes the other
// bytes longer by a third.
func (c *client) artifactsOf(ctx context.Context, execution string, t projections.RunTrace) (shown shownArtifacts, err error) {
	if t.Artifacts == 0 || !t.Status.Terminal() {
		return shown, nil
	}
	list, missing, err := artifacts.Reader{
		Queries: c.server.opts.Queries, Tenant: tenant, WithOthers: true,
		OnUnreadable: func(f projections.Artifact, err error) {
			c.server.opts.Logger.WarnContext(ctx, "artifact not read", "execution", execution, "number", f.Number, "err", err)
		},
	}.Read(ctx, execution)
	if err != nil {
		return shown, err
	}
	for _, f := range list {
		uri := artifacts.URI(execution, f.Name)
		if !f.Inline {
			missing++
		}
		shown.entries = append(shown.entries, artifactEntry{Name: f.Name, MIME: f.MIME, Size: f.Size, Inline: f.Inline, URI: uri})
		shown.content = append(shown.content, sdk.ToolContent(artifactBlock(f, uri)))
	}
	if missing > 0 {
		are := "artifacts are"
		if missing == 1 {
			are = "artifact is"
		}
		shown.content = append(shown.content, sdk.ToolContent(sdk.TextBlock(fmt.Sprintf("%d %s not in this answer, which has the bytes of at most %d artifacts and %d MiB. `daybook exec artifacts %s --save DIR` writes all artifacts of the run to files.",
			missing, are, artifacts.MaxListed, artifacts.MaxBytes>>20, execution))))
	}
	return shown, nil
}

// artifactBlock returns the content block that shows an artifact. Without its bytes, it is a
// link.
func artifactBlock(f artifacts.Shown, uri string) sdk.ContentBlock {
	if !f.Inline {
		link, size := sdk.ResourceLinkBlock(f.Name, uri), int(f.Size)
		link.ResourceLink.MimeType, link.ResourceLink.Size = &f.MIME, &size
		return link
	}
	switch f.Kind {
	case artifacts.Image:
		image := sdk.ImageBlock(base64.StdEncoding.EncodeToString(f.Bytes), f.MIME)
		image.Image.Uri = &uri
		return image
	case artifacts.Audio:
		return sdk.AudioBlock(base64.StdEncoding.EncodeToString(f.Bytes), f.MIME)
	case artifacts.Text:
		return sdk.ResourceBlock(sdk.EmbeddedResourceResource{TextResourceContents: &sdk.TextResourceContents{Uri: uri, MimeType: &f.MIME, Text: string(f.Bytes)}})
	}
	return sdk.ResourceBlock(sdk.EmbeddedResourceResource{BlobResourceContents: &sdk.BlobResourceContents{Uri: uri, MimeType: &f.MIME, Blob: base64.StdEncoding.EncodeToString(f.Bytes)}})
}
