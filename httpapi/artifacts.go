package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/ledger"
	"daybook/projections"
)

func (a *api) artifactRoutes(r *router) {
	register(r, markHeavy(huma.Operation{
		OperationID: "list-execution-artifacts", Method: http.MethodGet, Path: "/api/executions/{id}/artifacts", Tags: []string{tagExecutions},
		Summary:     "List the artifacts of an execution",
		Description: "What the script passed to artifact(name, mime, bytes), in order, without the bytes. While the execution is running, the list has the artifacts so far.",
	}), []int{http.StatusNotFound, http.StatusGone}, a.listArtifacts)

	content := map[string]*huma.MediaType{typeBytes: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	register(r, markHeavy(huma.Operation{
		OperationID: "get-execution-artifact", Method: http.MethodGet, Path: "/api/executions/{id}/artifacts/{name}", Tags: []string{tagExecutions},
		Summary: "Get the bytes of an artifact",
		Description: "Content-Type is the media type that the script stated. The response is a download, except for plain text, audio, video and images that cannot hold scripts, and no browser runs scripts in it. " +
			"A Range header selects a part, and ETag is the hash of the artifact: with it in If-None-Match the answer is 304. HEAD and 304 are answered from the record, also if the bytes are damaged. Percent-encode the name as one segment of the path.",
		Responses: map[string]*huma.Response{
			"200": {Description: "The bytes.", Content: content},
			"206": {Description: "The part that Range selects.", Content: content},
		},
	}), []int{http.StatusBadRequest, http.StatusNotFound, http.StatusGone}, a.artifact)
}

type artifactsInput struct {
	Reading
	OneExecution
}

type artifactsAnswer struct {
	Body struct {
		Artifacts []projections.Artifact `json:"artifacts" doc:"The artifacts by number."`
	}
}

func (a *api) listArtifacts(ctx context.Context, in *artifactsInput) (*artifactsAnswer, error) {
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	list, err := readCurrent(ctx, a, func() ([]projections.Artifact, error) { return a.q.Artifacts(ctx, requestOf(ctx).tenant, in.ID) })
	if err != nil {
		return nil, err
	}
	out := new(artifactsAnswer)
	out.Body.Artifacts = list
	return out, nil
}

type artifactInput struct {
	Reading
	OneExecution
	Name   string        `path:"name" doc:"Name of the artifact. Of several with the name it is the last one."`
	Number optional[int] `query:"number" doc:"Number of the artifact, to select one that a later one of the same name replaced."`
}

func (a *api) artifact(ctx context.Context, in *artifactInput) (*streamed, error) {
	if in.Number.Set {
		if f := checkRange("number", in.Number.Value, 1, events.ArtifactMaxCount); f != nil {
			return nil, f
		}
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	if account := budget.From(ctx); account != nil {
		ctx = budget.With(ctx, account.WithFactor(1)) // the bytes are sent without encoding
	}
	asked := requestOf(ctx)
	tenant := asked.tenant
	found, err := readCurrent(ctx, a, func() (projections.Artifact, error) {
		return a.q.Artifact(ctx, tenant, in.ID, in.Name, in.Number.Value)
	})
	if errors.Is(err, events.ErrNotFound) {
		if _, unknown := a.q.ExecutionPreview(ctx, tenant, in.ID); unknown == nil {
			err = fail(http.StatusNotFound, string(ledger.CodeNotFound), "name", `execution '%.80s' has no artifact "%s"; GET /api/executions/%.80s/artifacts lists them`, in.ID, ledger.Excerpt(in.Name), in.ID)
		}
	}
	if err != nil {
		return nil, err
	}
	content := &artifactContent{size: found.Size, read: func() ([]byte, error) { return a.q.ArtifactBytes(ctx, tenant, found) }}
	if asked.method != http.MethodHead && !mayMatch(asked.header.Values("If-None-Match"), artifactETag(found)) {
		if err := content.load(); err != nil { // an error answer needs the bytes before the headers
			return nil, err
		}
	}
	return stream(func(w http.ResponseWriter, r *http.Request) {
		setArtifactHeaders(w.Header(), found)
		http.ServeContent(w, r, "", time.Time{}, content)
	}), nil
}

// artifactContent reads the bytes of an artifact from the store on the first Read: answers
// without a body need only their number.
type artifactContent struct {
	size   int64
	at     int64
	read   func() ([]byte, error)
	loaded *bytes.Reader // nil before load
}

func (c *artifactContent) load() error {
	if c.loaded != nil {
		return nil
	}
	content, err := c.read()
	if err == nil {
		c.loaded = bytes.NewReader(content)
	}
	return err
}

// Read implements io.Reader.
func (c *artifactContent) Read(p []byte) (int, error) {
	if err := c.load(); err != nil {
		return 0, err
	}
	if c.at >= c.size {
		return 0, io.EOF
	}
	n, err := c.loaded.ReadAt(p, c.at)
	c.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// Seek implements io.Seeker.
func (c *artifactContent) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, errors.New("seek to before the beginning of an artifact")
	}
	c.at = offset
	return offset, nil
}

// mayMatch reports whether If-None-Match may select the entity tag. http.ServeContent decides.
func mayMatch(ifNoneMatch []string, etag string) bool {
	given := strings.Join(ifNoneMatch, ",")
	return strings.Contains(given, etag) || strings.Contains(given, "*")
}

func artifactETag(f projections.Artifact) string { return `"` + f.SHA256 + `"` }

// setArtifactHeaders sets headers under which no browser runs what a script wrote: the
// content and the media type are hostile.
func setArtifactHeaders(h http.Header, f projections.Artifact) {
	stated, _, err := mime.ParseMediaType(f.MIME)
	contentType := f.MIME
	if err != nil {
		contentType = typeBytes
	}
	disposition := "attachment"
	if err == nil && isPassive(stated) {
		disposition = "inline"
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": fileNameOf(f.Name)}))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("ETag", artifactETag(f))
}

// isPassive reports whether a browser can show content of a media type and runs no script
// in it.
func isPassive(mediaType string) bool {
	kind, sub, _ := strings.Cut(mediaType, "/")
	switch kind {
	case "audio", "video":
		return true
	case "image":
		return !strings.Contains(sub, "svg") && !strings.Contains(sub, "xml")
	}
	return mediaType == "text/plain"
}

// fileNameOf returns the name of an artifact without characters that separate the parts of
// a path.
func fileNameOf(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:`, r) {
			return '_'
		}
		return r
	}, name)
	if strings.Trim(name, ".") == "" {
		return "artifact"
	}
	return name
}
