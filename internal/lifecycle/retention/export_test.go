package retention

// SetBatch sets the number of heaps whose collection is recorded before their blobs are deleted.
func (s *Service) SetBatch(n int) { s.batch = n }
