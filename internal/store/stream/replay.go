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

// Headers that mark an event as one of history, told once more.
const (
	headerReplayed       = "ce-replayed"
	headerReplayPosition = "ce-sequence"
)

// Republish sends an event of history to those who listen to a subject, marked
// as replayed and otherwise with the headers and body that are on record. The
// subject must be one below "replay.<tenant>.", where nothing of the ledger
// listens. Nobody listening is no error.
func (s *Ledger) Republish(_ context.Context, subject string, e events.Event) error {
	rest, ok := strings.CutPrefix(subject, "replay."+e.Tenant+".")
	if !ok {
		return fmt.Errorf("republish event %d: %q is not a subject below replay.%s", e.Seq, subject, e.Tenant)
	}
	if err := jet.CheckTokens(strings.Split(rest, ".")...); err != nil {
		return fmt.Errorf("republish event %d: %w", e.Seq, err)
	}
	events.StripPlaintext(&e) // here, too, it is shown as it is on record
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
