package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/internal/web/access"
	"daybook/internal/web/pages"
)

// router registers operations with huma and completes their documentation.
type router struct {
	api huma.API
	a   *api
}

// bodyTimeout is negative so that huma sets no deadline. A deadline for the whole body
// would cut slow uploads, and a deadline that stays after the body would cancel the
// request. See body.
const bodyTimeout = -1

// register adds an operation to the mux and to the document. errs are its error
// statuses besides the common ones.
func register[I, O any](r *router, op huma.Operation, errs []int, handler func(context.Context, *I) (*O, error)) {
	problem := r.schema(reflect.TypeFor[Problem]())
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	common := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusServiceUnavailable}
	for _, code := range append(common, errs...) {
		op.Responses[strconv.Itoa(code)] = &huma.Response{
			Description: http.StatusText(code),
			Content:     map[string]*huma.MediaType{problemType: {Schema: problem}},
		}
	}
	if scope := scopeOf(op); scope != "" {
		r.a.gate.scopes[op.Method+" "+op.Path] = scope
		op.Security = []map[string][]string{{bearerScheme: {string(scope)}}, {}}
	}
	op.BodyReadTimeout = bodyTimeout
	op.MaxBodyBytes = -1       // withChecks sets the limit
	op.SkipValidateBody = true // the handlers validate bodies
	huma.Register(r.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, op, func() (*O, error) { return handler(ctx, in) })
		if err != nil {
			var about subject
			if n, ok := any(in).(interface{ about() subject }); ok {
				about = n.about()
			}
			return nil, r.a.toFailure(ctx, err, about)
		}
		return out, nil
	})
}

// handle calls a handler. If the operation is heavy, handle first waits for a permit. If
// the memory for a GET is held by other responses, handle waits for the memory and calls
// the handler again.
func handle[O any](ctx context.Context, op huma.Operation, handler func() (*O, error)) (out *O, err error) {
	permitted := func() (err error) {
		if isHeavy(op) {
			if err := takePermit(ctx); err != nil {
				return err
			}
		}
		if out, err = handler(); err != nil {
			reads.From(ctx).Yield() // the next try may first wait for memory
		}
		return err
	}
	if op.Method != http.MethodGet {
		err = permitted()
		return out, err
	}
	err = budget.Retry(ctx, permitted)
	return out, err
}

// bearerScheme is the name of the security scheme in the document.
const bearerScheme = "bearer"

// scopeKey is the metadata key for the scope of an operation that differs from the default
// of its method; an empty scope means none.
const scopeKey = "scope"

// scopeOf returns the scope that an operation needs. The default under /api/ is read
// for GET and run for other methods.
func scopeOf(op huma.Operation) access.Scope {
	if s, ok := op.Metadata[scopeKey].(access.Scope); ok {
		return s
	}
	switch {
	case !strings.HasPrefix(op.Path, "/api/"):
		return ""
	case op.Method == http.MethodGet:
		return access.Read
	default:
		return access.Run
	}
}

func (r *router) schema(t reflect.Type) *huma.Schema {
	return r.api.OpenAPI().Components.Schemas.Schema(t, true, "")
}

// mediaOf returns the media type of a body of type T.
func mediaOf[T any](r *router) *huma.MediaType {
	return &huma.MediaType{Schema: r.schema(reflect.TypeFor[T]())}
}

// bounds documents the range of a parameter; 0 for high means no limit. Handlers check
// the range, so that a value out of range is a 400 that names the range.
func (r *router) bounds(method, path, param string, low, high float64, def any) {
	item := r.api.OpenAPI().Paths[path]
	op := map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodDelete: item.Delete}[method]
	for _, p := range op.Parameters {
		if p.Name != param {
			continue
		}
		s := *p.Schema
		s.Minimum = &low
		if high > 0 {
			s.Maximum = &high
		}
		s.Default = def
		p.Schema = &s
		return
	}
	panic("httpapi: no parameter " + param + " on " + path)
}

// document is the complete OpenAPI document. Its two forms are created on first use,
// because creating them takes as long as registering all routes.
type document struct {
	api *huma.OpenAPI
	// json returns the document as indented JSON, page the HTML reference.
	json, page func() ([]byte, error)
}

func (r *router) document() *document {
	doc := r.api.OpenAPI()
	// Huma documents its own error model although no operation refers to it.
	schemas := doc.Components.Schemas.Map()
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	delete(schemas, "ExecBody") // its two forms are documented instead
	refineSchemas(schemas, requestSchemas(doc))
	for _, op := range operationsOf(doc) {
		for _, p := range op.Parameters {
			p.Schema.Nullable = false // a parameter can be absent but not null
		}
	}
	d := &document{api: doc}
	d.json = sync.OnceValues(d.encode)
	d.page = sync.OnceValues(func() ([]byte, error) { return pages.RenderReference(d.api) })
	return d
}

// encode returns the document as indented JSON.
func (d *document) encode() ([]byte, error) {
	raw, err := json.Marshal(d.api)
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	if strings.Contains(string(raw), "schemas/ErrorModel") {
		return nil, fmt.Errorf("an operation documents errors with the error model of huma")
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("indent the OpenAPI document: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
