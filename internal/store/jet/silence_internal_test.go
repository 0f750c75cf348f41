package jet

import (
	"context"
	"errors"
	"testing"

	"daybook/events"
)

// A request that ended because the server was silent returns that reason, also if the
// server answers again at that moment.
func TestSilenceThatEndsWithARequest(t *testing.T) {
	t.Parallel()
	w := &silenceDetector{server: "ledger.test:4222"}
	w.answeringCtx, w.end = context.WithCancelCause(context.Background())
	c := &Client{silence: w}
	w.set(true, false)
	ctx, ended := c.boundRead(t.Context())
	w.set(false, false)
	err := ctx.Err()
	if err == nil {
		t.Fatal("a silent server is asked")
	}
	ended(&err)
	if why, ok := errors.AsType[*events.NoAnswerError](err); !ok || why.Server != w.server {
		t.Errorf("the reason is %v", err)
	}
}
