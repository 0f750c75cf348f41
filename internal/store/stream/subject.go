package stream

import (
	"fmt"

	"daybook/events"
)

// StoredSubject returns the subject under which a volume stores events of a subject of
// package events: "ledger.0001.<tenant>.exec.<id>". It converts patterns of subjects
// too.
func StoredSubject(v events.Volume, subject string) string {
	return fmt.Sprintf("ledger.%04d.%s", int(v), subject)
}

// TenantSubjects returns a pattern that matches every subject of a tenant in a stream,
// or "" if the stream is no volume.
func TenantSubjects(stream, tenant string) string {
	v, ok := events.VolumeOf(stream)
	if !ok {
		return ""
	}
	return StoredSubject(v, tenant+".>")
}
