package projections

import "daybook/internal/resources/cmemory"

// ReleaseMemory gives back the memory of page caches to the operating system. Queries
// that run keep theirs.
func (s *Store) ReleaseMemory() {
	// Connections that are closed give back all they hold; the next query opens one.
	s.reader.SetMaxIdleConns(0)
	s.reader.SetMaxIdleConns(maxReaders)
	// An error means that the file cannot be read, which the next query reports.
	_, _ = s.writer.Exec("PRAGMA shrink_memory")
	cmemory.GiveBack()
}
