package ledger

import "daybook/events"

// sessionTrace returns the trace context of a run in a logical session: that of the
// client, or one whose trace id is derived from the session. A collector then shows the
// runs of a session together, from any server.
func sessionTrace(s Submission, execution string) string {
	if own := validTraceparent(s.Traceparent); own != "" {
		return own
	}
	trace := events.Hash([]byte("daybook trace\x00" + s.Tenant + "\x00" + s.LogicalSession))
	span := events.Hash([]byte("daybook span\x00" + execution))
	return "00-" + trace[:32] + "-" + span[:16] + "-01"
}
