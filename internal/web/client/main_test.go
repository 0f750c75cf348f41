package client_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/embed"
	"daybook/internal/web/client"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// nats.go may start this goroutine for a stored object only after the object is
		// stored; the goroutine then never ends.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// patience is the longest time of one test.
const patience = 2 * time.Minute

// within returns a context that ends when patience does.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	t.Cleanup(stop)
	return ctx
}

// start runs a Daybook until the test ends, and returns its address.
func start(t testing.TB, opts embed.Options) string {
	t.Helper()
	opts.DataDir, opts.HTTP.Addr, opts.NATS.NoSync, opts.Runs.DrainWait = t.TempDir(), "127.0.0.1:0", true, -1
	book, err := embed.Start(within(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := book.Close(); err != nil {
			t.Error(err)
		}
	})
	return book.URL()
}

// must returns an answer, or ends the test.
func must[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(got T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

// run runs a script to its end.
func run(t testing.TB, c *client.Client, r client.Run) client.Execution {
	t.Helper()
	receipt := must[client.Answer[client.Receipt]](t)(c.Submit(within(t), r))
	return must[client.Answer[client.Execution]](t)(c.Wait(within(t), receipt.Body.ExecutionID)).Body
}
