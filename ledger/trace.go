package ledger

import "daybook/events"

// sessionTrace is the trace context of a run in a session that keeps state: the
// client's own, or else one whose trace id is that of the session, so that a
// collector shows the runs of a session together, from any server.
func sessionTrace(s Submission, execution string) string {
	if given := validTraceparent(s.Traceparent); given != "" {
		return given
	}
	trace := events.Hash([]byte("daybook trace\x00" + s.Tenant + "\x00" + s.LogicalSession))
	span := events.Hash([]byte("daybook span\x00" + execution))
	return "00-" + trace[:32] + "-" + span[:16] + "-01"
}
