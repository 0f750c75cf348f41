package client

import (
	"context"
	"net/http"
	"net/url"

	"daybook/internal/webhook"
)

// Webhooks are the webhooks of a tenant.
type Webhooks struct {
	Webhooks []webhook.Hook `json:"webhooks"`
}

// Webhooks returns the webhooks of the tenant.
func (c *Client) Webhooks(ctx context.Context) (Answer[Webhooks], error) {
	return call[Webhooks](ctx, c, http.MethodGet, "/api/webhooks", nil)
}

// NewWebhook is a webhook to add. Zero members select all events.
type NewWebhook struct {
	URL         string   `json:"url"`
	Types       []string `json:"types,omitempty"`
	Session     string   `json:"session,omitempty"`
	ExecutionID string   `json:"execution_id,omitempty"`
	// After is the position to start after; nil for the end of the ledger.
	After *uint64 `json:"after,omitempty"`
}

// AddedWebhook is a webhook with the secret that its deliveries are signed with. No other
// answer has the secret.
type AddedWebhook struct {
	webhook.Hook
	Secret string `json:"secret"`
}

// AddWebhook adds a webhook.
func (c *Client) AddWebhook(ctx context.Context, w NewWebhook) (Answer[AddedWebhook], error) {
	return call[AddedWebhook](ctx, c, http.MethodPost, "/api/webhooks", w)
}

func webhookPath(id string) string { return "/api/webhooks/" + url.PathEscape(id) }

// RemoveWebhook deletes a webhook.
func (c *Client) RemoveWebhook(ctx context.Context, id string) (Answer[OK], error) {
	return call[OK](ctx, c, http.MethodDelete, webhookPath(id), nil)
}

// DeadLetters are the events that could not be delivered to a webhook.
type DeadLetters struct {
	DeadLetters []webhook.DeadLetter `json:"dead_letters"`
}

// DeadLetters returns the dead letters of a webhook.
func (c *Client) DeadLetters(ctx context.Context, id string) (Answer[DeadLetters], error) {
	return call[DeadLetters](ctx, c, http.MethodGet, webhookPath(id)+"/dead-letters", nil)
}

// Retried is the number of dead letters that are delivered again.
type Retried struct {
	Retrying int `json:"retrying"`
}

// RetryWebhook requests new deliveries of the dead letters with the given positions, or of
// the oldest ones if sequences is empty.
func (c *Client) RetryWebhook(ctx context.Context, id string, sequences []string) (Answer[Retried], error) {
	body := struct {
		Sequences []string `json:"sequences,omitempty"`
	}{sequences}
	return call[Retried](ctx, c, http.MethodPost, webhookPath(id)+"/retry", body)
}
