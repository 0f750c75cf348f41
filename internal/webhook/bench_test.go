package webhook_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/internal/webhook"
)

// BenchmarkDelivery measures the time per delivery to a receiver on the same machine.
// The position is synced to disk after each one.
func BenchmarkDelivery(b *testing.B) {
	store := storetest.Start(b)
	for range b.N {
		e := events.New(events.DefaultTenant, time.Now(), &events.ExecutionRequested{ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool})
		if _, err := store.Append(b.Context(), e, -1); err != nil {
			b.Fatal(err)
		}
	}
	last, err := store.LastSeq(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	got := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if got++; got == b.N { // one at a time
			close(done)
		}
	}))
	defer receiver.Close()
	service, err := webhook.Open(b.Context(), webhook.Options{
		Journal: store, Feed: store, Dir: filepath.Join(b.TempDir(), "webhooks"), AllowPrivate: true,
		SessionOf: func(context.Context, string, uint64, string) ([]string, error) { return nil, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	b.ResetTimer()
	if _, err := service.Register(b.Context(), webhook.Registration{Tenant: events.DefaultTenant, URL: receiver.URL, After: ptr(uint64(0)), Actor: actor}); err != nil {
		b.Fatal(err)
	}
	select {
	case <-done:
	case <-time.After(time.Minute + time.Duration(b.N)*100*time.Millisecond):
		b.Fatalf("%d of %d events were delivered", got, last)
	}
}
