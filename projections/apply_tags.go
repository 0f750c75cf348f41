package projections

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"daybook/events"
)

// setTags puts tags in force on a heap from a position, unless newer ones are.
func (a *applier) setTags(e *events.Event, heap string, effective uint64, tags map[string]string) error {
	if !events.ValidHash(heap) {
		return a.anomaly(e, "tags of %.80q, which is no heap", heap)
	}
	var since uint64
	var before string
	err := a.row(a.s.inForce, e.Tenant, heap).Scan(&since, &before)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	now := asJSON(tags) // keys in order: equal tags have equal texts
	if since > effective || since == effective && before == now {
		return nil
	}
	if err := a.exec(a.s.force, e.Tenant, heap, effective, now); err != nil {
		return err
	}
	if before == now {
		return nil // the edit of a run's tags comes right after its end
	}
	had := map[string]string{}
	if before != "" {
		if err := json.Unmarshal([]byte(before), &had); err != nil {
			return err
		}
	}
	return a.indexTags(e.Tenant, heap, had, tags)
}

// indexTags brings the way from pairs to heaps up to date.
func (a *applier) indexTags(tenant, heap string, had, has map[string]string) error {
	key, err := hex.DecodeString(heap)
	if err != nil {
		return err
	}
	// In order, so that equal ledgers give equal files. What is kept is counted
	// before it is counted off, or its pair would be forgotten in between.
	var carried []int64
	for _, k := range slices.Sorted(maps.Keys(has)) {
		var pair int64
		if err := a.row(a.s.pair, tenant, k, has[k]).Scan(&pair); err != nil {
			return err
		}
		carried = append(carried, pair)
	}
	for _, k := range slices.Sorted(maps.Keys(had)) {
		var pair int64
		if err := a.row(a.s.unpair, tenant, k, had[k]).Scan(&pair); err != nil {
			return err
		}
		if slices.Contains(carried, pair) {
			continue
		}
		if err := errors.Join(a.exec(a.s.untag, pair, key), a.exec(a.s.forgetPair, pair)); err != nil {
			return err
		}
	}
	for _, pair := range carried {
		if err := a.exec(a.s.tag, pair, key, maskOf(carried...)); err != nil {
			return err
		}
	}
	return nil
}

// maskOf has a bit for each of some pairs, which others may share: a heap whose
// mask lacks a bit of a pair's does not carry the pair.
func maskOf(pairs ...int64) (mask int64) {
	for _, pair := range pairs {
		mask |= 1 << (pair % 62)
	}
	return mask
}
