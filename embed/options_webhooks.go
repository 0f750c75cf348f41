package embed

// WebhookOptions configure the deliveries of webhooks.
type WebhookOptions struct {
	// AllowPrivate permits webhooks to this machine and to private networks, and over
	// plain HTTP. Clients that may add webhooks can then reach these networks.
	AllowPrivate bool
}
