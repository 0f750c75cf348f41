package webhook_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/webhook"
)

// Errors name the field, and nothing is recorded.
func TestRegistrationMistakes(t *testing.T) {
	t.Parallel()
	h := build(t, func(o *webhook.Options) { o.AllowPrivate = false })
	for _, tt := range []struct {
		name   string
		change func(*webhook.Registration)
		field  string
		says   string
	}{
		{"empty", func(r *webhook.Registration) { r.URL = "" }, "url", "full address"},
		{"relative", func(r *webhook.Registration) { r.URL = "/hooks" }, "url", "full address"},
		{"opaque", func(r *webhook.Registration) { r.URL = "mailto:a@example.com" }, "url", "full address"},
		{"file", func(r *webhook.Registration) { r.URL = "file://example.com/etc/passwd" }, "url", "https://"},
		{"plain", func(r *webhook.Registration) { r.URL = "http://example.com/" }, "url", "readable on the network"},
		{"user", func(r *webhook.Registration) { r.URL = "https://user:password@example.com/" }, "url", "user name"},
		{"fragment", func(r *webhook.Registration) { r.URL = "https://example.com/#here" }, "url", "fragment"},
		{"long", func(r *webhook.Registration) { r.URL = "https://example.com/" + strings.Repeat("x", 3000) }, "url", "longer"},
		{"control", func(r *webhook.Registration) { r.URL = "https://example.com/\n" }, "url", "full address"},
		{"localhost", func(r *webhook.Registration) { r.URL = "https://LocalHost./" }, "url", "this machine"},
		{"localhost below", func(r *webhook.Registration) { r.URL = "https://a.localhost:8443/" }, "url", "this machine"},
		{"loopback", func(r *webhook.Registration) { r.URL = "https://127.0.0.1/" }, "url", "this machine"},
		{"loopback 6", func(r *webhook.Registration) { r.URL = "https://[::1]/" }, "url", "this machine"},
		{"mapped", func(r *webhook.Registration) { r.URL = "https://[::ffff:10.0.0.1]/" }, "url", "private network"},
		{"metadata", func(r *webhook.Registration) { r.URL = "https://169.254.169.254/latest" }, "url", "private network"},
		{"type", func(r *webhook.Registration) { r.Types = []events.Type{"nonsense"} }, "types", "no event type"},
		{"type twice", func(r *webhook.Registration) { r.Types = []events.Type{events.TypeHeapTagged, events.TypeHeapTagged} }, "types", "twice"},
		{"type of its own", func(r *webhook.Registration) { r.Types = []events.Type{events.TypeWebhookDeadLettered} }, "types", "never posted"},
		{"execution", func(r *webhook.Registration) { r.ExecutionID = "x" }, "execution_id", "no execution id"},
		{"session", func(r *webhook.Registration) { r.Session = "a\x00b" }, "session", "control"},
		{"position", func(r *webhook.Registration) { r.After = ptr(uint64(99)) }, "after", "the ledger ends at"},
	} {
		r := webhook.Registration{Tenant: events.DefaultTenant, URL: "https://example.com/hooks", Actor: actor}
		tt.change(&r)
		_, err := h.service.Register(t.Context(), r)
		mistake, ok := errors.AsType[*webhook.Error](err)
		if !ok || mistake.Field != tt.field || !strings.Contains(mistake.Message, tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if last, err := h.store.LastSeq(t.Context()); err != nil || last != 0 {
		t.Errorf("%d recorded events, %v", last, err)
	}
	// The deliverer may have passed the registration itself, which it never posts.
	if got := h.register("https://example.com/hooks"); got.Hook.State != webhook.StateActive || got.Hook.Position != "0" && got.Hook.Position != "1" {
		t.Errorf("%+v", got)
	}
}

// A name that resolves to this machine is refused when it is dialed, even if it resolved
// differently before. Nothing connects.
func TestPrivateTargets(t *testing.T) {
	t.Parallel()
	h := build(t)
	var reached bool
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer server.Close()
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	reg := h.register("https://localhost:" + port + "/") // allowed here and now
	h.stop()
	h.opts.AllowPrivate = false
	h.start()
	h.arrivedAt(reg.Hook.ID, h.request(""))
	letters, err := h.service.DeadLetters(events.DefaultTenant, reg.Hook.ID)
	if err != nil || len(letters) != 1 || !strings.Contains(letters[0].Reason, "not a public address") {
		t.Errorf("%+v, %v", letters, err)
	}
	if reached {
		t.Error("the receiver was reached")
	}
}

// Tenants see only their own webhooks, and the limit is per tenant.
func TestTenants(t *testing.T) {
	t.Parallel()
	h := build(t, func(o *webhook.Options) { o.MaxPerTenant = 2 })
	r := receive(t, nil)
	reg := h.register(r.url)
	r.expect(reg.Secret)
	other := h.register(r.url, func(r *webhook.Registration) { r.Tenant = "other" })
	h.arrivedAt(reg.Hook.ID, h.request(""))
	h.until(reg.Hook.ID, func(webhook.Hook) bool {
		v, err := h.service.Get("other", other.Hook.ID)
		return err == nil && v.Position >= "3"
	})
	if n := len(r.deliveries()); n != 1 {
		t.Errorf("%d deliveries of one tenant's event", n)
	}
	if _, err := h.service.Get("other", reg.Hook.ID); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("get another tenant's: %v", err)
	}
	if _, err := h.service.Delete(t.Context(), "other", reg.Hook.ID, actor); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("delete another tenant's: %v", err)
	}
	if list := h.service.List("other"); len(list) != 1 || list[0].ID != other.Hook.ID {
		t.Errorf("%+v", list)
	}
	h.register(r.url)
	_, err := h.service.Register(t.Context(), webhook.Registration{Tenant: events.DefaultTenant, URL: r.url, Actor: actor})
	if mistake, ok := errors.AsType[*webhook.Error](err); !ok || !strings.Contains(mistake.Message, "delete one") {
		t.Errorf("past the most: %v", err)
	}
}
