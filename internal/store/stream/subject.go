package stream

import (
	"fmt"

	"daybook/events"
)

// StoredSubject returns the subject under which a volume stores what belongs on a
// subject of the package events: "ledger.0001.<tenant>.exec.<id>". It maps patterns
// of subjects likewise.
func StoredSubject(v events.Volume, subject string) string {
	return fmt.Sprintf("ledger.%04d.%s", int(v), subject)
}

// TenantSubjects matches every subject of a tenant in the volume of a stream. It is
// empty for the name of anything else.
func TenantSubjects(stream, tenant string) string {
	v, ok := events.VolumeOf(stream)
	if !ok {
		return ""
	}
	return StoredSubject(v, tenant+".>")
}
