package stream

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jet"
)

// Headers that mark an event as replayed.
const (
	headerReplayed       = "ce-replayed"
	headerReplayPosition = "ce-sequence"
)

// Republish publishes a recorded event on a subject again, with its recorded headers
// and body and with headers that mark it as replayed. The subject MUST begin with
// "replay.<tenant>.", which no stream of the ledger stores. Republish does not report
// whether a client received the event.
func (s *Ledger) Republish(_ context.Context, subject string, e events.Event) error {
	rest, ok := strings.CutPrefix(subject, "replay."+e.Tenant+".")
	if !ok {
		return fmt.Errorf("republish event %d: %q is not a subject below replay.%s", e.Seq, subject, e.Tenant)
	}
	if err := jet.CheckTokens(strings.Split(rest, ".")...); err != nil {
		return fmt.Errorf("republish event %d: %w", e.Seq, err)
	}
	events.StripPlaintext(&e) // replayed events contain no more than recorded ones
	w, err := events.Encode(e)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: subject, Header: nats.Header(w.Header), Data: w.Body}
	m.Header.Set(headerReplayed, "true")
	m.Header.Set(headerReplayPosition, strconv.FormatUint(e.Seq, 10))
	if err := s.jet.Conn.PublishMsg(m); err != nil {
		return fmt.Errorf("republish event %d: %w", e.Seq, err)
	}
	return nil
}
