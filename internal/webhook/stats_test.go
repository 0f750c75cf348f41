package webhook_test

import (
	"net/http"
	"testing"

	"daybook/internal/webhook"
)

// Stats counts deliveries, failures and dead letters.
func TestStats(t *testing.T) {
	t.Parallel()
	h := build(t)
	if st := h.service.Stats(); st.Webhooks[webhook.StateActive] != 0 || len(st.Webhooks) != 4 || st.Delivered+st.Failed != 0 {
		t.Errorf("before: %+v", st)
	}
	well, gone := receive(t, status(http.StatusNoContent)), receive(t, status(http.StatusGone))
	well.expect(h.register(well.url).Secret)
	unwanted := h.register(gone.url)
	gone.expect(unwanted.Secret)
	for range 3 {
		h.request("")
	}
	well.count(3)
	var st webhook.Stats
	h.until(unwanted.Hook.ID, func(webhook.Hook) bool {
		st = h.service.Stats()
		return st.Webhooks[webhook.StateDisabled] == 1 && st.Delivered == 3 && st.MaxLag > 0
	})
	if st.Webhooks[webhook.StateActive] != 1 || st.Failed != 1 || st.DeadLetters != 0 {
		t.Errorf("%+v", st)
	}
}
