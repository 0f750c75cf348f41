package audit

import (
	"fmt"
	"path/filepath"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// ExportedEvents calls fn with every event of an export, in order, as it was
// stored. It proves nothing: that is VerifyExport's.
func ExportedEvents(dir string, fn func(events.Stored) error) error {
	path := filepath.Join(dir, proof.EventsFile)
	err := eachLine(path, func(line []byte) error {
		m, err := proof.ParseLine(line)
		if err != nil {
			return err
		}
		return fn(eventproof.StoredOf(m))
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
