package translog_test

import (
	"testing"

	"go.uber.org/goleak"

	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/translog/translogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	start          = translogtest.Start
	request        = translogtest.Request
	fill           = translogtest.Fill
	mustCheckpoint = translogtest.Checkpoint
)

func newStore(t testing.TB) *jetstream.Store { return storetest.Start(t) }
