package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/web"
	"daybook/internal/web/access"
	"daybook/internal/webhook"
	"daybook/ledger"
)

// Webhooks registers, deletes and lists webhooks, and retries dead letters.
// *webhook.Service implements it.
type Webhooks interface {
	Register(ctx context.Context, r webhook.Registration) (webhook.RegisterResult, error)
	Delete(ctx context.Context, tenant, id string, actor events.Actor) (uint64, error)
	List(tenant string) []webhook.Hook
	DeadLetters(tenant, id string) ([]webhook.DeadLetter, error)
	Retry(ctx context.Context, tenant, id string, seqs []uint64, actor events.Actor) (n int, seq uint64, err error)
}

func (a *api) webhookRoutes(r *router) {
	const base, one = "/api/webhooks", "/api/webhooks/{id}"
	op := func(id, method, path, summary, description string) huma.Operation {
		o := huma.Operation{OperationID: id, Method: method, Path: path, Tags: []string{tagLedger}, Summary: summary, Description: description}
		if method != http.MethodGet {
			// A webhook sends events to another service.
			o.Metadata = map[string]any{scopeKey: access.Admin}
		}
		return o
	}
	register(r, op("list-webhooks", http.MethodGet, base, "List webhooks", "Oldest first, with the state of their deliveries."), nil, a.listWebhooks)
	add := op("add-webhook", http.MethodPost, base, "Register a webhook",
		"Events recorded from now on, or after a position, are posted to the URL as CloudEvents in JSON, one at a time and in order. Deliveries are signed according to Standard Webhooks. "+
			"A delivery is retried with growing pauses until the receiver answers 2xx; after 15 attempts the event is a dead letter. Only this response has the secret that signs the deliveries.")
	add.DefaultStatus = http.StatusCreated
	add.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": mediaOf[webhookBody](r)}}
	register(r, add, []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, a.addWebhook)
	delete(add.RequestBody.Content, "application/octet-stream")
	register(r, op("delete-webhook", http.MethodDelete, one, "Delete a webhook", "Ends the deliveries and destroys the secret."),
		[]int{http.StatusNotFound}, a.deleteWebhook)
	register(r, markHeavy(op("list-dead-letters", http.MethodGet, one+"/dead-letters", "List the dead letters of a webhook", "In ledger order.")),
		[]int{http.StatusNotFound}, a.deadLetters)
	retry := op("retry-dead-letters", http.MethodPost, one+"/retry", "Retry dead letters",
		"Tries each dead letter once more, in order, while other deliveries continue; with an empty body, the oldest 1000. Enables a webhook that was disabled because its receiver answered 410 Gone.")
	retry.DefaultStatus = http.StatusAccepted
	retry.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": mediaOf[retryBody](r)}}
	register(r, retry, []int{http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, a.retryWebhook)
	delete(retry.RequestBody.Content, "application/octet-stream")
	retry.RequestBody.Required = false // huma treats every RawBody as required
}

// webhooks returns the service, or a failure if the server has none.
func (a *api) webhooks() (Webhooks, *failure) {
	if a.hooks == nil {
		return nil, absent("this server delivers no webhooks")
	}
	return a.hooks, nil
}

// hookFailure converts a *webhook.Error to a failure with status 400.
func hookFailure(err error) error {
	if m, ok := errors.AsType[*webhook.Error](err); ok {
		return invalid(m.Field, "%s", m.Message)
	}
	return err
}

// OneWebhook is embedded in the inputs of operations on one webhook.
type OneWebhook struct {
	ID string `path:"id" doc:"Id of the webhook."`
}

func (h OneWebhook) about() subject { return subject{"id", "Webhook", h.ID} }

type webhooksAnswer struct{ Body webhookList }

type webhookList struct {
	Webhooks []webhook.Hook `json:"webhooks"`
}

func (a *api) listWebhooks(ctx context.Context, _ *struct{}) (*webhooksAnswer, error) {
	hooks, f := a.webhooks()
	if f != nil {
		return nil, f
	}
	return &webhooksAnswer{webhookList{hooks.List(requestOf(ctx).tenant)}}, nil
}

// webhookBody documents the request body; decodeWebhook decodes it.
type webhookBody struct {
	URL         string   `json:"url" doc:"Address that deliveries are posted to: https, and a public address unless the server was started with --webhook-allow-private. It is recorded permanently: it must not contain a secret."`
	Types       []string `json:"types,omitempty" nullable:"true" doc:"Only events of these types; default: all except those about webhooks and the ledger itself."`
	Session     *string  `json:"session,omitempty" nullable:"true" doc:"Only events of runs logged under this session, and its entries."`
	ExecutionID *string  `json:"execution_id,omitempty" nullable:"true" doc:"Only events of this execution."`
	After       *int64   `json:"after,omitempty" nullable:"true" minimum:"0" doc:"Position to start after, 0 for the beginning; default: events recorded from now on."`
}

type addWebhookInput struct{ RawBody []byte }

type addedWebhook struct {
	Written
	Body newWebhook
}

type newWebhook struct {
	webhook.Hook
	Secret string `json:"secret" doc:"Secret that signs the deliveries; only in this response."`
}

func (a *api) addWebhook(ctx context.Context, in *addWebhookInput) (*addedWebhook, error) {
	hooks, f := a.webhooks()
	if f != nil {
		return nil, f
	}
	r := requestOf(ctx)
	reg := webhook.Registration{Tenant: r.tenant, Actor: r.actor}
	if f := decodeWebhook(r, in.RawBody, &reg); f != nil {
		return nil, f
	}
	added, err := hooks.Register(ctx, reg)
	if err != nil {
		return nil, hookFailure(err)
	}
	return &addedWebhook{a.noteWrite(added.Seq), newWebhook{added.Hook, added.Secret.Reveal()}}, nil
}

func decodeWebhook(r *request, raw []byte, reg *webhook.Registration) *failure {
	if f := requireJSON(r, raw, `curl -H 'Content-Type: application/json' --data '{"url":"https://..."}' ...`); f != nil {
		return f
	}
	var after *uint64
	given := false
	f := decodeObject(raw, map[string]member{
		"url":          text(&reg.URL, &given),
		"types":        types(&reg.Types),
		"session":      text(&reg.Session, nil),
		"execution_id": text(&reg.ExecutionID, nil),
		"after":        position(&after),
	})
	switch {
	case f != nil:
		return f
	case !given:
		return mistyped("url", "url is missing: give the address that deliveries are to be posted to")
	}
	reg.After = after
	return nil
}

// types decodes a list of event types. It does not check whether the types exist.
func types(list *[]events.Type) member {
	return func(where string, raw []byte) *failure {
		var given []*string
		if json.Unmarshal(raw, &given) != nil || slices.Contains(given, nil) {
			return mistyped(where, "%s must be a list of event types, such as [\"daybook.execution.completed.v1\"]", where)
		}
		for _, t := range given {
			*list = append(*list, events.Type(*t))
		}
		return nil
	}
}

func (a *api) deleteWebhook(ctx context.Context, in *OneWebhook) (*okAnswer, error) {
	hooks, f := a.webhooks()
	if f != nil {
		return nil, f
	}
	r := requestOf(ctx)
	seq, err := hooks.Delete(ctx, r.tenant, in.ID, r.actor)
	if err != nil {
		return nil, err
	}
	return &okAnswer{Written: a.noteWrite(seq), Body: ok{true}}, nil
}

type lettersAnswer struct{ Body letterList }

type letterList struct {
	DeadLetters []webhook.DeadLetter `json:"dead_letters"`
}

func (a *api) deadLetters(ctx context.Context, in *OneWebhook) (*lettersAnswer, error) {
	hooks, f := a.webhooks()
	if f != nil {
		return nil, f
	}
	list, err := hooks.DeadLetters(requestOf(ctx).tenant, in.ID)
	return &lettersAnswer{letterList{list}}, err
}

// retryBody documents the request body; retryWebhook decodes it.
type retryBody struct {
	Sequences []string `json:"sequences,omitempty" nullable:"true" doc:"Positions of the events to deliver, as in the list of dead letters."`
}

type retryInput struct {
	OneWebhook
	RawBody []byte
}

type retryAnswer struct {
	Written
	Body retried
}

type retried struct {
	Retrying int `json:"retrying" doc:"Number of dead letters that will be tried."`
}

func (a *api) retryWebhook(ctx context.Context, in *retryInput) (*retryAnswer, error) {
	hooks, f := a.webhooks()
	if f != nil {
		return nil, f
	}
	r := requestOf(ctx)
	var seqs []uint64
	if len(strings.TrimSpace(string(in.RawBody))) > 0 {
		if f := requireJSON(r, in.RawBody, `curl -H 'Content-Type: application/json' --data '{"sequences":[1]}' ..., or without a body`); f != nil {
			return nil, f
		}
		if f := decodeObject(in.RawBody, map[string]member{"sequences": positions(&seqs)}); f != nil {
			return nil, f
		}
	}
	n, seq, err := hooks.Retry(ctx, r.tenant, in.ID, seqs, r.actor)
	if err != nil {
		return nil, hookFailure(err)
	}
	return &retryAnswer{a.noteWrite(seq), retried{n}}, nil
}

// position decodes a position of the ledger or 0, as a number or as text. Responses
// have positions as text.
func position(to **uint64) member {
	return func(where string, raw []byte) *failure {
		text := string(raw)
		if unquoted, err := strconv.Unquote(text); err == nil {
			text = unquoted
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if whole, ok := web.WholeNumber(string(raw)); ok && whole >= 0 { // 5.0 is 5
			n, err = uint64(whole), nil
		}
		switch {
		case strings.HasPrefix(text, "-"):
			return invalid(where, "%s must not be negative", where)
		case errors.Is(err, strconv.ErrRange) || err == nil && n > math.MaxInt64:
			return invalid(where, "%s is out of range: %s; the largest position is %d", where, ledger.Excerpt(text), int64(math.MaxInt64))
		case err != nil:
			return mistyped(where, "%s must be a position in the ledger, such as 1041, not %s", where, ledger.Excerpt(string(raw)))
		}
		*to = &n
		return nil
	}
}

// positions decodes a list of positions, each as a number or as text.
func positions(list *[]uint64) member {
	return func(where string, raw []byte) *failure {
		var given []json.RawMessage
		if json.Unmarshal(raw, &given) != nil {
			return mistyped(where, "%s must be a list of positions, such as [\"1041\"]", where)
		}
		for _, g := range given {
			n, err := strconv.ParseUint(strings.Trim(string(g), `"`), 10, 64)
			if whole, ok := web.WholeNumber(string(g)); ok && whole >= 0 { // 5.0 is 5
				n, err = uint64(whole), nil
			}
			if err != nil || n == 0 {
				return mistyped(where, "%s: %s is not a position in the ledger", where, ledger.Excerpt(string(g)))
			}
			*list = append(*list, n)
		}
		return nil
	}
}
