package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"daybook/events"
)

// If a command is refused and no event was sent, the error says that nothing was
// recorded, also if the time limit of the answer has passed.
func TestNothingSent(t *testing.T) {
	t.Parallel()
	if HasSentNothing(t.Context()) {
		t.Error("a context without a command counts as that of a command")
	}
	l := &Ledger{opts: Options{AnswerTimeout: time.Nanosecond}}
	for _, test := range []struct {
		notSent bool
		want    string
	}{
		{true, "submit the run: the NATS server at ledger.test:4222 does not answer; nothing was recorded; try again once it does"},
		{false, "the request may or may not be recorded"},
	} {
		ctx, answered := l.withAnswerDeadline(t.Context())
		<-ctx.Done()
		if !HasSentNothing(ctx) {
			t.Error("a new command has sent something")
		}
		err := unavailable("submit the run", fmt.Errorf("append: %w", &events.NoAnswerError{Server: "ledger.test:4222", NotSent: test.notSent}))
		if answered(&err); CodeOf(err) != CodeUnavailable || !strings.Contains(err.Error(), test.want) {
			t.Errorf("the answer is %v, not %q", err, test.want)
		}
		if NoteSent(ctx); HasSentNothing(ctx) {
			t.Error("a command that has sent an event counts as one that has sent nothing")
		}
	}
}
