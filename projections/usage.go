package projections

import (
	"context"
	"fmt"
)

// Usage is the resource usage of a tenant as of a position.
type Usage struct {
	// Runs is the number of runs that have not ended.
	Runs int64
	// OutputBytes is the size of the stored output and artifacts, without voided ones.
	OutputBytes int64
	// HeapBytes is the size of the heaps that are kept. Each heap counts once with its
	// restored size, no matter how many runs left it.
	HeapBytes int64
	// Sessions is the number of logical sessions and named sessions.
	Sessions int64
	// Contexts is the number of recorded conversation contexts.
	Contexts int64
	// TaggedHeaps is the number of heaps that have or had tags and that no run has
	// left.
	TaggedHeaps int64
	// ShortNames is the number of short names of logical sessions, counted for every
	// holder.
	ShortNames int64
	// Applied is the position of the last event that is counted.
	Applied uint64
}

// maxCachedUsages is the number of tenants in the cache of usages. When it is reached,
// the cache is cleared.
const maxCachedUsages = 4096

// TenantUsage returns the usage of a tenant together with the position that it is valid
// for. A tenant without recorded events uses nothing. It is called for each submission,
// so it queries the file only for a tenant that is not cached.
func (s *Store) TenantUsage(ctx context.Context, tenant string) (u Usage, err error) {
	s.mu.Lock()
	u, isCached := s.usages[tenant]
	u.Applied = s.applied
	s.mu.Unlock()
	if isCached {
		return u, nil
	}
	err = s.reader.QueryRowContext(ctx, `SELECT p.applied, coalesce(u.runs, 0), coalesce(u.output_bytes, 0), coalesce(u.heap_bytes, 0),
		coalesce(u.sessions, 0), coalesce(u.contexts, 0), coalesce(u.tagged_heaps, 0), coalesce(u.short_names, 0)
		FROM position p LEFT JOIN tenant_usage u ON u.tenant = ?`, tenant).Scan(&u.Applied, &u.Runs, &u.OutputBytes, &u.HeapBytes, &u.Sessions, &u.Contexts, &u.TaggedHeaps, &u.ShortNames)
	if err != nil {
		return Usage{}, fmt.Errorf("read the usage of tenant %s: %w", tenant, err)
	}
	s.cacheUsage(tenant, u)
	return u, nil
}

// cacheUsage caches the usage of a tenant unless events were applied since it was read.
func (s *Store) cacheUsage(tenant string, u Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Applied != s.applied {
		return
	}
	if s.usages == nil || len(s.usages) >= maxCachedUsages {
		s.usages = map[string]Usage{}
	}
	s.usages[tenant] = u
}

// addUsage applies the changes of a commit to the cached usages. The caller must hold
// mu.
func (s *Store) addUsage(a *applier) {
	if a.hasRecounted {
		clear(s.usages)
		return
	}
	for tenant, change := range a.usageChanges {
		if u, isCached := s.usages[tenant]; isCached {
			u.add(*change)
			s.usages[tenant] = u
		}
	}
}

func (u *Usage) add(change Usage) {
	u.Runs += change.Runs
	u.OutputBytes += change.OutputBytes
	u.HeapBytes += change.HeapBytes
	u.Sessions += change.Sessions
	u.Contexts += change.Contexts
	u.TaggedHeaps += change.TaggedHeaps
	u.ShortNames += change.ShortNames
}

// LargestUsage returns, for each count of Usage separately, the largest value of any
// tenant.
func (s *Store) LargestUsage(ctx context.Context) (u Usage, err error) {
	err = s.reader.QueryRowContext(ctx, `SELECT (SELECT applied FROM position), coalesce(max(runs), 0), coalesce(max(output_bytes), 0), coalesce(max(heap_bytes), 0),
		coalesce(max(sessions), 0), coalesce(max(contexts), 0), coalesce(max(tagged_heaps), 0), coalesce(max(short_names), 0) FROM tenant_usage`).
		Scan(&u.Applied, &u.Runs, &u.OutputBytes, &u.HeapBytes, &u.Sessions, &u.Contexts, &u.TaggedHeaps, &u.ShortNames)
	if err != nil {
		return Usage{}, fmt.Errorf("read the largest usage of a tenant: %w", err)
	}
	return u, nil
}

// HasSession reports whether a named session with this name is applied.
func (s *Store) HasSession(ctx context.Context, tenant, name string) (bool, error) {
	return s.hasRow(ctx, `SELECT count(*) FROM sessions WHERE tenant = ? AND session = ?`, tenant, name)
}

// HasContext reports whether a conversation context with this key within the tenant is
// applied.
func (s *Store) HasContext(ctx context.Context, tenant, key string) (bool, error) {
	return s.hasRow(ctx, `SELECT count(*) FROM contexts WHERE tenant = ? AND context_key = ?`, tenant, key)
}

// HasTaggedHeap reports whether a heap has or had tags, or a run has left it.
func (s *Store) HasTaggedHeap(ctx context.Context, tenant, heap string) (bool, error) {
	return s.hasRow(ctx, `SELECT (SELECT count(*) FROM tagged WHERE tenant = ?1 AND heap = ?2) + (SELECT count(*) FROM heaps WHERE tenant = ?1 AND heap = ?2)`, tenant, heap)
}

func (s *Store) hasRow(ctx context.Context, query, tenant, name string) (bool, error) {
	var n int
	if err := s.reader.QueryRowContext(ctx, query, tenant, name).Scan(&n); err != nil {
		return false, fmt.Errorf("look up a name of tenant %s: %w", tenant, err)
	}
	return n > 0, nil
}

// UnfinishedTenants lists the tenants with runs that are queued or running.
func (s *Store) UnfinishedTenants(ctx context.Context) (tenants []string, err error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT tenant FROM tenant_usage WHERE runs > 0 ORDER BY tenant`)
	if err != nil {
		return nil, fmt.Errorf("list the tenants with unfinished runs: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var tenant string
		if err := rows.Scan(&tenant); err != nil {
			return nil, fmt.Errorf("list the tenants with unfinished runs: %w", err)
		}
		tenants = append(tenants, tenant)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list the tenants with unfinished runs: %w", err)
	}
	return tenants, nil
}

// UnfinishedRuns returns the number of runs of all tenants that have not ended.
func (s *Store) UnfinishedRuns(ctx context.Context) (n int64, err error) {
	if err := s.reader.QueryRowContext(ctx, `SELECT coalesce(sum(runs), 0) FROM tenant_usage`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the runs that have not ended: %w", err)
	}
	return n, nil
}

// usageOf returns the changes of the batch to the usage of a tenant.
func (a *applier) usageOf(tenant string) *Usage {
	u := a.usageChanges[tenant]
	if u == nil {
		u = new(Usage)
		a.usageChanges[tenant] = u
	}
	return u
}

// storeUsage writes the changes at the end of the batch.
func (a *applier) storeUsage() error {
	for tenant, u := range a.usageChanges {
		if *u == (Usage{}) {
			continue
		}
		if err := a.exec(a.s.use, tenant, u.Runs, u.OutputBytes, u.HeapBytes, u.Sessions, u.Contexts, u.TaggedHeaps, u.ShortNames); err != nil {
			return err
		}
	}
	return nil
}
