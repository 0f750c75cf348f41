package audit_test

import (
	"testing"

	"go.uber.org/goleak"

	"daybook/audit/audittest"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/jetstream/jetstreamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type running = audittest.Running

var (
	start          = audittest.Start
	request        = audittest.Request
	fill           = audittest.Fill
	mustCheckpoint = audittest.Checkpoint
)

func newStore(t testing.TB) *jetstream.Store { return jetstreamtest.Start(t) }
