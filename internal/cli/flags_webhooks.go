package cli

import "daybook/embed"

// webhookFlags are the flags of embed.WebhookOptions.
type webhookFlags struct {
	AllowPrivate bool `name:"webhook-allow-private" option:"Webhooks.AllowPrivate" help:"Allow webhooks to this machine and private networks, and over plain HTTP."`
}

func (f webhookFlags) options() embed.WebhookOptions {
	return embed.WebhookOptions{AllowPrivate: f.AllowPrivate}
}
