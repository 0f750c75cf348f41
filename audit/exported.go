package audit

import (
	"fmt"
	"path/filepath"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// ExportedEvents calls fn with every stored event of an export, in order. It verifies nothing; see
// VerifyExport.
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
