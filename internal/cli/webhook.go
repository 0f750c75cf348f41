package cli

import (
	"context"
	"fmt"

	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type webhookCmd struct {
	Add    webhookAddCmd    `cmd:"" help:"Register a webhook, a URL that events are posted to."`
	List   webhookListCmd   `cmd:"" help:"List webhooks and their state."`
	Remove webhookRemoveCmd `cmd:"" help:"Delete a webhook."`
	Dead   webhookDeadCmd   `cmd:"" help:"List the dead letters of a webhook."`
	Retry  webhookRetryCmd  `cmd:"" help:"Retry dead letters and re-enable a webhook."`
}

type webhookAddCmd struct {
	clientFlags
	URL       string   `arg:"" help:"URL that deliveries are posted to: https, and a public address unless the server was started with --webhook-allow-private. It is recorded permanently: it must not contain a secret." placeholder:"URL"`
	Type      []string `help:"Event type to post, such as daybook.execution.completed.v1; may be repeated." placeholder:"TYPE"`
	Session   string   `help:"Named session to post: the events of its runs, and its entries." placeholder:"NAME"`
	Execution string   `help:"Execution whose events to post." placeholder:"ID"`
	After     *uint64  `help:"Position to start after, 0 for the beginning. Default: events recorded from now on." placeholder:"SEQUENCE"`
}

// Run prints the id and the secret that deliveries are signed with. The secret is shown
// only here.
func (c *webhookAddCmd) Run(ctx context.Context, std *streams) error {
	added, err := c.api().AddWebhook(ctx, client.NewWebhook{URL: c.URL, Types: c.Type, Session: c.Session, ExecutionID: c.Execution, After: c.After})
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.PrintJSON(added.JSON)
	}
	std.out.Printf("id      %s\nsecret  %s\n", added.Body.ID, added.Body.Secret)
	fmt.Fprintln(std.err, "Keep the secret, which signs the deliveries: it is not shown again.")
	return nil
}

type webhookListCmd struct{ clientFlags }

func (c *webhookListCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().Webhooks(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	w := terminal.Table(std.out, "WEBHOOK", "STATE", "POSITION", "DEAD", "URL", "LAST ERROR")
	for _, h := range answer.Body.Webhooks {
		last := "-"
		if h.LastError != "" {
			last = terminal.OneLine(h.LastError, 80)
		}
		w.Row(h.ID, h.State, h.Position, h.DeadLetters, h.URL, last)
	}
	return w.Flush()
}

// oneWebhook is embedded in commands about one webhook.
type oneWebhook struct {
	ID string `arg:"" help:"Webhook id, or a unique prefix." placeholder:"ID"`
}

// resolveID replaces a prefix by the id of the webhook.
func (o *oneWebhook) resolveID(ctx context.Context, f clientFlags) error {
	if wholeExecution.MatchString(o.ID) { // ids of webhooks have the form of execution ids
		return nil
	}
	answer, err := f.api().Webhooks(ctx)
	if err != nil {
		return err
	}
	ids := make([]string, len(answer.Body.Webhooks))
	for i, h := range answer.Body.Webhooks {
		ids[i] = h.ID
	}
	id, err := uniqueByPrefix("webhook", o.ID, ids)
	if err != nil {
		return err
	}
	o.ID = id
	return nil
}

type webhookRemoveCmd struct {
	clientFlags
	oneWebhook
}

func (c *webhookRemoveCmd) Run(ctx context.Context, std *streams) error {
	if err := c.resolveID(ctx, c.clientFlags); err != nil {
		return err
	}
	answer, err := c.api().RemoveWebhook(ctx, c.ID)
	return c.done(std, answer, err)
}

type webhookDeadCmd struct {
	clientFlags
	oneWebhook
}

func (c *webhookDeadCmd) Run(ctx context.Context, std *streams) error {
	if err := c.resolveID(ctx, c.clientFlags); err != nil {
		return err
	}
	answer, err := c.api().DeadLetters(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	w := terminal.Table(std.out, "SEQUENCE", "TYPE", "ATTEMPTS", "GIVEN UP", "REASON")
	for _, l := range answer.Body.DeadLetters {
		reason := terminal.OneLine(l.Reason, 80)
		if l.Retrying {
			reason = "to be retried; " + reason
		}
		w.Row(l.Sequence, l.Type, l.Attempts, l.DeadLetteredAt, reason)
	}
	return w.Flush()
}

type webhookRetryCmd struct {
	clientFlags
	oneWebhook
	Sequences []string `arg:"" optional:"" help:"Positions of the events to deliver, as in \"daybook webhook dead\". Default: the oldest 1000 dead letters." placeholder:"SEQUENCE"`
}

// Run requests new deliveries of dead letters.
func (c *webhookRetryCmd) Run(ctx context.Context, std *streams) error {
	if err := c.resolveID(ctx, c.clientFlags); err != nil {
		return err
	}
	answer, err := c.api().RetryWebhook(ctx, c.ID, c.Sequences)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.PrintJSON(answer.JSON)
	}
	std.out.Printf("Retrying %d. \"daybook webhook dead %s\" lists the events that fail again.\n", answer.Body.Retrying, c.ID)
	return nil
}
