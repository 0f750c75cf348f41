package projections

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"daybook/events"
)

// setTags makes the tags of an event current on a heap from a position, unless newer tags
// are.
func (a *applier) setTags(e *events.Event, heap string, effective uint64, tags map[string]string) error {
	if !events.ValidHash(heap) {
		return a.recordAnomaly(e, "tags of %.80q, which is no heap", heap)
	}
	var currentFrom uint64
	var oldJSON string
	err := a.queryRow(a.s.inForce, e.Tenant, heap).Scan(&currentFrom, &oldJSON)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	newJSON := asJSON(tags) // keys are sorted: equal tags have equal texts
	if currentFrom > effective || currentFrom == effective && oldJSON == newJSON {
		return nil
	}
	if oldJSON == "" {
		if err := a.countTaggedHeap(e.Tenant, heap); err != nil {
			return err
		}
	}
	if err := a.exec(a.s.force, e.Tenant, heap, effective, newJSON, orNull(events.ContentKeyID(e.Data))); err != nil {
		return err
	}
	if oldJSON == newJSON {
		return nil // the tag edit of a run repeats the tags that its end made current
	}
	oldTags := map[string]string{}
	if oldJSON != "" {
		if err := json.Unmarshal([]byte(oldJSON), &oldTags); err != nil {
			return err
		}
	}
	return a.indexTags(e.Tenant, heap, oldTags, tags)
}

// countTaggedHeap counts a heap that has tags for the first time, unless a known run
// produced it.
func (a *applier) countTaggedHeap(tenant, heap string) error {
	var known int64
	err := a.queryRow(a.s.heapKnown, tenant, heap).Scan(&known)
	a.usageOf(tenant).TaggedHeaps += 1 - known
	return err
}

// uncountTaggedHeap subtracts a tagged heap from the count because a run has left it
// now.
func (a *applier) uncountTaggedHeap(tenant, heap string) error {
	var tagged int64
	err := a.queryRow(a.s.isTagged, tenant, heap).Scan(&tagged)
	a.usageOf(tenant).TaggedHeaps -= tagged
	return err
}

// indexTags updates heap_tags to the current tags of a heap. The number of statements
// does not depend on the number of tags.
func (a *applier) indexTags(tenant, heap string, oldTags, newTags map[string]string) error {
	key, err := hex.DecodeString(heap)
	if err != nil {
		return err
	}
	var carried, dropped []pairHash
	for k, v := range newTags {
		carried = append(carried, pairOf(tenant, k, v))
	}
	for k, v := range oldTags {
		if newValue, ok := newTags[k]; !ok || newValue != v {
			dropped = append(dropped, pairOf(tenant, k, v))
		}
	}
	if len(dropped) > 0 {
		if err := a.exec(a.s.untag, key, hexList(dropped)); err != nil {
			return err
		}
	}
	if len(carried) == 0 {
		return nil
	}
	return a.exec(a.s.tag, key, maskOf(carried...), hexList(carried))
}

// pairHash identifies a tag of a tenant, key and value, in heap_tags. Its length is
// independent of theirs.
type pairHash [16]byte

// pairOf returns the hash of a tag of a tenant.
func pairOf(tenant, key, value string) (p pairHash) {
	text := strconv.AppendInt(nil, int64(len(tenant)), 10)
	text = append(append(text, ' '), tenant...)
	text = append(strconv.AppendInt(text, int64(len(key)), 10), ' ')
	sum := sha256.Sum256(append(append(text, key...), value...))
	copy(p[:], sum[:])
	return p
}

// hexList returns a JSON array of the sorted pairs, so that rows are written in the
// order of heap_tags.
func hexList(pairs []pairHash) string {
	slices.SortFunc(pairs, func(a, b pairHash) int { return bytes.Compare(a[:], b[:]) })
	list := make([]string, len(pairs))
	for i, p := range pairs {
		list[i] = hex.EncodeToString(p[:])
	}
	return asJSON(list)
}

// maskOf returns a bit for each pair. Pairs may share a bit. A heap whose mask lacks
// the bit of a pair does not carry the pair.
func maskOf(pairs ...pairHash) (mask int64) {
	for _, p := range pairs {
		mask |= 1 << (binary.BigEndian.Uint64(p[:]) % 62)
	}
	return mask
}
