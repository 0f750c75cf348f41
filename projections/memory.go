package projections

import "daybook/internal/resources/cmemory"

// ReleaseMemory returns the memory of SQLite's page caches to the operating system.
// Queries in progress keep theirs. It is safe for concurrent use.
func (s *Store) ReleaseMemory() {
	// A closed connection frees all its memory; the next query opens another one.
	s.reader.SetMaxIdleConns(0)
	s.reader.SetMaxIdleConns(maxReaders)
	// An error means that the file cannot be read. The next query reports that.
	_, _ = s.writer.Exec("PRAGMA shrink_memory")
	cmemory.GiveBack()
}
