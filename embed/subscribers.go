package embed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"daybook/events"
	"daybook/internal/store/natscreds"
	"daybook/internal/store/natsserver"
)

// admitSubscribers accepts the subscribers with a credential in the data directory, and
// follows changes of the credentials. A server without tokens has one tenant, whose
// credential it creates at the first start.
func (d *Daybook) admitSubscribers() error {
	// Earlier versions kept one password for all tenants in this file.
	err := ignoreMissing(os.Remove(filepath.Join(d.opts.DataDir, "nats-reader.json")))
	if err != nil {
		return fmt.Errorf("delete the password of subscribers: %w", err)
	}
	if d.opts.NATS.Addr == "" {
		return nil
	}
	if d.auth == nil {
		if err := natscreds.EnsureDefault(d.credentialsDir(), events.DefaultTenant, time.Now()); err != nil {
			return fmt.Errorf("create the credential of subscribers: %w", err)
		}
	}
	list, err := natscreds.Active(d.credentialsDir())
	if err == nil {
		err = d.nats.SetSubscribers(subscribersOf(list))
	}
	if err != nil {
		return fmt.Errorf("admit subscribers: %w", err)
	}
	d.admitting = startTask(context.Background(), func(ctx context.Context) {
		natscreds.Follow(ctx, d.credentialsDir(), d.opts.Logger, func(list []natscreds.Credential) error {
			return d.nats.SetSubscribers(subscribersOf(list))
		})
	})
	return nil
}

func subscribersOf(list []natscreds.Credential) []natsserver.Subscriber {
	subscribers := make([]natsserver.Subscriber, len(list))
	for i, c := range list {
		subscribers[i] = natsserver.Subscriber{ID: c.ID, Tenant: c.Tenant, PublicKey: c.PublicKey}
	}
	return subscribers
}

func (d *Daybook) credentialsDir() string { return filepath.Join(d.opts.DataDir, "nats") }

// SubscriberCredentials returns the path of the credentials file, for any NATS client,
// of a subscriber to the events of the only tenant. It is empty if there is none: with
// several tenants, without NATS.Addr, or after the credential was revoked.
func (d *Daybook) SubscriberCredentials() string {
	if d.nats == nil || d.opts.NATS.Addr == "" || d.auth != nil {
		return ""
	}
	list, err := natscreds.Active(d.credentialsDir())
	if err != nil {
		return ""
	}
	for _, c := range list {
		if _, err := os.Stat(c.File(d.credentialsDir())); c.Tenant == events.DefaultTenant && !errors.Is(err, os.ErrNotExist) {
			return c.File(d.credentialsDir())
		}
	}
	return ""
}
