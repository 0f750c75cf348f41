package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

type webhookCmd struct {
	Add    webhookAddCmd    `cmd:"" help:"Add a webhook, a URL that events are posted to."`
	List   webhookListCmd   `cmd:"" help:"List webhooks and their state."`
	Remove webhookRemoveCmd `cmd:"" help:"Delete a webhook."`
	Dead   webhookDeadCmd   `cmd:"" help:"List the dead letters of a webhook."`
	Retry  webhookRetryCmd  `cmd:"" help:"Redeliver dead letters and re-enable a webhook."`
}

type webhookAddCmd struct {
	clientFlags
	URL       string   `arg:"" help:"URL that events are posted to. It is recorded permanently; put no secret into it." placeholder:"URL"`
	Type      []string `help:"Event type to post, such as daybook.execution.completed.v1; may be repeated." placeholder:"TYPE"`
	Session   string   `help:"Named session whose run events to post." placeholder:"NAME"`
	Execution string   `help:"Execution whose events to post." placeholder:"ID"`
	After     *uint64  `help:"Position to start after, 0 for the beginning. Default: the current end of the ledger." placeholder:"SEQUENCE"`
}

// Run prints the id and the secret that deliveries are signed with. The secret is shown
// only here.
func (c *webhookAddCmd) Run(ctx context.Context, std *streams) error {
	body := map[string]any{"url": c.URL}
	for name, value := range map[string]string{"session": c.Session, "execution_id": c.Execution} {
		if value != "" {
			body[name] = value
		}
	}
	if len(c.Type) > 0 {
		body["types"] = c.Type
	}
	if c.After != nil {
		body["after"] = *c.After
	}
	var raw json.RawMessage
	if err := c.call(ctx, http.MethodPost, "/api/webhooks", body, &raw); err != nil {
		return err
	}
	if c.JSON {
		return std.out.printJSON(raw)
	}
	var added struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal(raw, &added); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	std.out.printf("id      %s\nsecret  %s\n", added.ID, added.Secret)
	fmt.Fprintln(std.err, "Keep the secret: deliveries are signed with it, and it is not shown again.")
	return nil
}

type webhookListCmd struct{ clientFlags }

func (c *webhookListCmd) Run(ctx context.Context, std *streams) error {
	return c.show(ctx, std.out, "/api/webhooks", func(raw []byte) error {
		var answer struct {
			Webhooks []struct {
				ID          string `json:"id"`
				URL         string `json:"url"`
				State       string `json:"state"`
				Position    string `json:"position"`
				DeadLetters int    `json:"dead_letters"`
				LastError   string `json:"last_error"`
			} `json:"webhooks"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		w := table(std.out, "WEBHOOK", "STATE", "POSITION", "DEAD", "URL", "LAST ERROR")
		for _, h := range answer.Webhooks {
			last := "-"
			if h.LastError != "" {
				last = oneLine(h.LastError, 80)
			}
			w.row(h.ID, h.State, h.Position, h.DeadLetters, h.URL, last)
		}
		return w.Flush()
	})
}

// oneWebhook is embedded in commands about one webhook.
type oneWebhook struct {
	ID string `arg:"" help:"Webhook id, or a unique prefix." placeholder:"ID"`
}

// path returns the REST path of the webhook, followed by rest.
func (o *oneWebhook) path(ctx context.Context, f clientFlags, rest string) (string, error) {
	if !wholeExecution.MatchString(o.ID) { // ids of webhooks have the form of execution ids
		var answer struct {
			Webhooks []struct {
				ID string `json:"id"`
			} `json:"webhooks"`
		}
		if err := f.call(ctx, http.MethodGet, "/api/webhooks", nil, &answer); err != nil {
			return "", err
		}
		ids := make([]string, len(answer.Webhooks))
		for i, h := range answer.Webhooks {
			ids[i] = h.ID
		}
		id, err := uniqueByPrefix("webhook", o.ID, ids)
		if err != nil {
			return "", err
		}
		o.ID = id
	}
	return "/api/webhooks/" + o.ID + rest, nil
}

type webhookRemoveCmd struct {
	clientFlags
	oneWebhook
}

func (c *webhookRemoveCmd) Run(ctx context.Context, std *streams) error {
	var raw json.RawMessage
	path, err := c.path(ctx, c.clientFlags, "")
	if err == nil {
		err = c.call(ctx, http.MethodDelete, path, nil, &raw)
	}
	return c.done(std, raw, err)
}

type webhookDeadCmd struct {
	clientFlags
	oneWebhook
}

func (c *webhookDeadCmd) Run(ctx context.Context, std *streams) error {
	path, err := c.path(ctx, c.clientFlags, "/dead-letters")
	if err != nil {
		return err
	}
	return c.show(ctx, std.out, path, func(raw []byte) error {
		var answer struct {
			DeadLetters []struct {
				Sequence       string `json:"sequence"`
				Type           string `json:"type"`
				Attempts       int    `json:"attempts"`
				DeadLetteredAt string `json:"dead_lettered_at"`
				Reason         string `json:"reason"`
				Retrying       bool   `json:"retrying"`
			} `json:"dead_letters"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		w := table(std.out, "SEQUENCE", "TYPE", "ATTEMPTS", "GIVEN UP", "REASON")
		for _, l := range answer.DeadLetters {
			reason := oneLine(l.Reason, 80)
			if l.Retrying {
				reason = "to be retried; " + reason
			}
			w.row(l.Sequence, l.Type, l.Attempts, l.DeadLetteredAt, reason)
		}
		return w.Flush()
	})
}

type webhookRetryCmd struct {
	clientFlags
	oneWebhook
	Sequences []string `arg:"" optional:"" help:"Positions of the events, as in \"daybook webhook dead\". Default: the oldest 1000." placeholder:"SEQUENCE"`
}

// Run requests new deliveries of dead letters.
func (c *webhookRetryCmd) Run(ctx context.Context, std *streams) error {
	body := map[string]any{}
	if len(c.Sequences) > 0 {
		body["sequences"] = c.Sequences
	}
	path, err := c.path(ctx, c.clientFlags, "/retry")
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.call(ctx, http.MethodPost, path, body, &raw); err != nil {
		return err
	}
	if c.JSON {
		return std.out.printJSON(raw)
	}
	var answer struct {
		Retrying int `json:"retrying"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	std.out.printf("Retrying %d. \"daybook webhook dead %s\" lists the events that fail again.\n", answer.Retrying, c.ID)
	return nil
}
