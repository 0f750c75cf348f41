package catalog

// Hash returns the hash of the declaration.
func (e Entry) Hash() string { return e.hash() }

// Hashes returns the hash of each entry's declaration by id.
func (s *Snapshot) Hashes() map[string]string { return s.hashes() }

// SourceHashes returns the hash of each source by name.
func (s *Snapshot) SourceHashes() map[string]string { return s.sourceHashes() }
