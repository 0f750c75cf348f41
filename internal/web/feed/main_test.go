package feed

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The NATS client may start this goroutine for storing an object only after
	// the object is stored; the goroutine then never ends.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}
