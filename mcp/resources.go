package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/ledger"
)

// resource is a kind of object that clients can read by address. Tools return the same
// objects; a user can attach an address to a conversation.
type resource struct {
	name, title, description string
	// scheme and suffix enclose the id or name in the address.
	scheme, suffix string
	// inner, if set, encloses the id together with scheme. A name follows it, and read gets
	// the id, "/" and the name.
	inner string
	mime  string
	read  func(ctx context.Context, named string) (text string, err error)
	// readBytes replaces read for bytes of a media type that differs among the objects.
	readBytes func(ctx context.Context, named string) (mime string, content []byte, err error)
	// version returns a text that changes whenever the text of read does.
	version func(ctx context.Context, named string) (string, error)
	// Reads of a resource with skipContext are not noted in the conversation context.
	skipContext bool
}

const (
	jsonType = "application/json"
	textType = "text/plain; charset=utf-8"
)

func (s *Server) resources() []resource {
	heap := func(ctx context.Context, hash string) (string, error) {
		h, err := s.opts.Queries.Heap(ctx, s.tenant, hash)
		return asJSON(h, err)
	}
	return []resource{
		{
			name: "execution", title: "Execution", scheme: "execution://", mime: jsonType,
			description: "A run: status, result, error, heap and times.",
			read: func(ctx context.Context, id string) (string, error) {
				d, err := s.execution(ctx, id)
				shown := showExecution(d)
				if d.CutTexts != nil {
					preview(&shown)
				}
				return asJSON(shown, err)
			},
			version: s.executionVersion,
		},
		{
			name: "execution_output", title: "Console output", scheme: "execution://", suffix: "/output", mime: textType,
			description: "The console output of a run, as far as it was written.",
			read:        s.allOutput, version: s.executionVersion,
		},
		{
			name: "execution_result", title: "Result", scheme: "execution://", suffix: "/result", mime: textType,
			description: "The recorded value of a run's last expression, whole.",
			read:        s.fullResult, version: s.executionVersion,
		},
		{
			name: "execution_error", title: "Error", scheme: "execution://", suffix: "/error", mime: textType,
			description: "Why a run did not complete, with the stack.",
			read:        s.fullError, version: s.executionVersion,
		},
		{
			name: "heap", title: "Heap", scheme: "heap://", mime: jsonType,
			description: "A heap: its tags, size, and the run and heap it comes from.",
			read:        heap, version: heap,
		},
		{
			name: "session", title: "Session log", scheme: "session://", mime: jsonType,
			description: "The log of a named session: every run that ended, in order.",
			read: func(ctx context.Context, name string) (string, error) {
				entries, err := s.opts.Queries.Entries(ctx, s.tenant, name)
				if err == nil && len(entries) == 0 {
					err = events.ErrNotFound
				}
				return asJSON(entriesAnswer{Entries: showEntries(entries, entryFields)}, err)
			},
			// A session can be watched before its first run has ended.
			version: func(ctx context.Context, name string) (string, error) {
				n, err := s.opts.Queries.NextEntry(ctx, s.tenant, name)
				return strconv.FormatInt(n, 10), err
			},
		},
		s.artifactResource(),
		s.contextResource(),
	}
}

func (s *Server) executionVersion(ctx context.Context, id string) (string, error) {
	d, err := s.execution(ctx, id)
	return fmt.Sprintf("%d %d %t", d.Seq, d.TotalBytes, d.Queued), err
}

func asJSON(v any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	b, err := encode(v)
	return string(b), err
}

// template returns the RFC 6570 template of the resource's addresses.
func (r resource) template() *sdk.ResourceTemplate {
	variable := map[string]string{"heap://": "hash", "session://": "name"}[r.scheme]
	if variable == "" {
		variable = "id"
	}
	if r.inner != "" {
		variable += "}" + r.inner + "{name"
	}
	return &sdk.ResourceTemplate{
		Name: r.name, Title: r.title, Description: r.description, MIMEType: r.mime,
		URITemplate: r.scheme + "{" + variable + "}" + r.suffix,
	}
}

// nameIn returns the id or name in an address of this resource, and false for any other
// address.
func (r resource) nameIn(uri string) (string, bool) {
	rest, ok := strings.CutPrefix(uri, r.scheme)
	if !ok {
		return "", false
	}
	if r.inner != "" {
		id, name, ok := strings.Cut(rest, r.inner)
		name, err := url.PathUnescape(name)
		return id + "/" + name, ok && err == nil && id != "" && name != "" && !strings.ContainsAny(id, "/%")
	}
	if rest, ok = strings.CutSuffix(rest, r.suffix); !ok || strings.Contains(rest, "/") {
		return "", false
	}
	name, err := url.PathUnescape(rest)
	return name, err == nil && name != ""
}

// resourceHandler adapts a resource to the SDK.
func (s *Server) resourceHandler(r resource) sdk.ResourceHandler {
	return func(ctx context.Context, req *sdk.ReadResourceRequest) (res *sdk.ReadResourceResult, err error) {
		uri := req.Params.URI
		defer func() {
			if v := recover(); v != nil {
				res, err = nil, s.resourceError(ctx, uri, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
			}
		}()
		name, ok := r.nameIn(uri)
		if !ok {
			return nil, s.resourceError(ctx, uri, events.ErrNotFound)
		}
		ctx, stop := s.untilClose(ctx)
		defer stop()
		if err := takePermit(ctx); err != nil {
			return nil, s.resourceError(ctx, uri, err)
		}
		if r.readBytes != nil {
			mime, content, err := r.readBytes(ctx, name)
			if err != nil {
				return nil, s.resourceError(ctx, uri, err)
			}
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{resourceContents(uri, mime, content)}}, nil
		}
		text, err := r.read(ctx, name)
		if err == nil {
			err = takeEscapes(ctx, text)
		}
		if err != nil {
			return nil, s.resourceError(ctx, uri, err)
		}
		res = &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: r.mime, Text: text}}}
		if before := s.noteRead(ctx, r, uri, text); before != nil {
			res.Meta = sdk.Meta{metaFetched: before}
		}
		return res, nil
	}
}

// refuseBadAddresses answers reads of addresses that no resource has. The SDK would
// repeat the address at full length, and close the connection over text that it cannot
// encode.
func (s *Server) refuseBadAddresses(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		r, ok := req.(*sdk.ReadResourceRequest)
		if !ok || s.isFixture(r.Params.URI) {
			return next(ctx, method, req)
		}
		uri := r.Params.URI
		if len(uri) > maxURIBytes || strings.ContainsFunc(uri, func(c rune) bool { return c <= ' ' || c > '~' }) ||
			!slices.ContainsFunc(s.resources(), func(r resource) bool { _, ok := r.nameIn(uri); return ok }) {
			return nil, s.resourceError(ctx, uri, events.ErrNotFound)
		}
		return next(ctx, method, req)
	}
}

// maxURIBytes bounds an address, in bytes. The longest session name fits, escaped.
const maxURIBytes = 4 << 10

const unknownAddress = "nothing is recorded at this address; a uri is execution://{id}, execution://{id}/output, execution://{id}/result, execution://{id}/error, execution://{id}/artifacts/{name}, heap://{hash}, session://{name} or, under that name, session://{name}/context"

// resourceError returns the JSON-RPC error for an address that cannot be read.
func (s *Server) resourceError(ctx context.Context, uri string, err error) error {
	data, encodeErr := json.Marshal(map[string]string{"uri": clip(uri)})
	if encodeErr != nil {
		return encodeErr
	}
	if codeOf(err) == ledger.CodeNotFound {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: unknownAddress, Data: data}
	}
	message, ours := explain(ctx, err)
	if ours {
		s.logger.ErrorContext(ctx, "read resource", "uri", clip(uri), "err", err)
	}
	code := int64(jsonrpc.CodeInternalError)
	if c := codeOf(err); c == ledger.CodeInvalid || c == ledger.CodeGone {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: message, Data: data}
}
