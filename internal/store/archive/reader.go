package archive

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"daybook/events"
)

// ErrDamaged is returned for a part that is missing or cannot be decoded.
var ErrDamaged = errors.New("the archive is damaged")

// Reader reads an archive. It is safe for concurrent use and needs no closing.
type Reader struct {
	m     Manifest
	parts Parts
	cache *Cache
	lost  func(first, last uint64) bool
	all   []int // the numbers of all frames

	// filter is read by the first lookup that needs it.
	mu     sync.Mutex
	filter filter
}

// Open reads the manifest of a volume and returns a Reader. The error is events.ErrNotFound if
// there is no complete archive. lost reports whether all positions of a range are recorded as
// lost: a frame of such positions may be missing.
func Open(ctx context.Context, parts Parts, volume events.Volume, cache *Cache, lost func(first, last uint64) bool) (*Reader, error) {
	raw, err := parts.Get(ctx, ManifestPart)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of the archive of volume %d: %w", volume, err)
	}
	m, err := DecodeManifest(raw)
	if err == nil && m.Volume != volume {
		err = fmt.Errorf("it is that of volume %d", m.Volume)
	}
	if err != nil {
		return nil, fmt.Errorf("the manifest of the archive of volume %d: %w: %w", volume, err, ErrDamaged)
	}
	return NewReader(parts, m, cache, lost), nil
}

// NewReader is Open for a manifest that is known.
func NewReader(parts Parts, m Manifest, cache *Cache, lost func(first, last uint64) bool) *Reader {
	r := &Reader{m: m, parts: parts, cache: cache, lost: lost, all: make([]int, len(m.frames))}
	for i := range r.all {
		r.all[i] = i
	}
	return r
}

// Manifest returns the manifest.
func (r *Reader) Manifest() Manifest { return r.m }

// Read returns the events from a position on, in order: at most limit, and not more than maxBytes
// bytes of bodies, but at least one if there is one. maxBytes 0 is no limit.
func (r *Reader) Read(ctx context.Context, from uint64, limit, maxBytes int) ([]events.Stored, error) {
	list, _, err := r.collect(ctx, r.all, nil, from, limit, maxBytes)
	return list, err
}

// Next is Read for the events whose subject matches a pattern of single-token wildcards. more
// reports that others follow.
func (r *Reader) Next(ctx context.Context, pattern string, from uint64, limit, maxBytes int) (list []events.Stored, more bool, err error) {
	frames, err := r.framesFor(ctx, pattern)
	if err != nil || len(frames) == 0 {
		return nil, false, err
	}
	return r.collect(ctx, frames, matcher(pattern), from, limit, maxBytes)
}

// Last returns the last event whose subject matches a pattern, or events.ErrNotFound.
func (r *Reader) Last(ctx context.Context, pattern string) (events.Stored, error) {
	list, err := r.lastOfEach(ctx, pattern, true)
	if err != nil {
		return events.Stored{}, err
	}
	if len(list) == 0 {
		return events.Stored{}, events.ErrNotFound
	}
	return list[0], nil
}

// LastOfEach returns the last event on each subject that a pattern matches, in order.
func (r *Reader) LastOfEach(ctx context.Context, pattern string) ([]events.Stored, error) {
	return r.lastOfEach(ctx, pattern, false)
}

func (r *Reader) lastOfEach(ctx context.Context, pattern string, one bool) ([]events.Stored, error) {
	frames, err := r.framesFor(ctx, pattern)
	if err != nil {
		return nil, err
	}
	matches := matcher(pattern)
	seen := map[string]bool{}
	var list []events.Stored
	for _, n := range slices.Backward(frames) {
		f, err := r.frame(ctx, n)
		if err != nil {
			return nil, err
		}
		for _, x := range slices.Backward(f.list) {
			if !matches(x.subject) || seen[string(x.subject)] {
				continue
			}
			seen[string(x.subject)] = true
			if list = append(list, x.stored()); one {
				return list, nil
			}
		}
	}
	slices.Reverse(list)
	return list, nil
}

// collect returns the events of some frames from a position on that match; nil matches all.
func (r *Reader) collect(ctx context.Context, frames []int, matches func(subject []byte) bool, from uint64, limit, maxBytes int) (list []events.Stored, more bool, err error) {
	at, _ := slices.BinarySearchFunc(frames, from, func(n int, from uint64) int { return cmp.Compare(r.m.frames[n].last, from) })
	size := 0
	for _, n := range frames[at:] {
		f, err := r.frame(ctx, n)
		if err != nil {
			return nil, false, err
		}
		begin, _ := slices.BinarySearchFunc(f.list, from, func(x record, from uint64) int { return cmp.Compare(x.seq, from) })
		for _, x := range f.list[begin:] {
			if matches != nil && !matches(x.subject) {
				continue
			}
			if size += len(x.body); len(list) == limit || len(list) > 0 && maxBytes > 0 && size > maxBytes {
				return list, true, nil
			}
			list = append(list, x.stored())
		}
		if matches == nil {
			// A reader in order does not come back, and would replace what lookups use.
			r.cache.drop(partName{r.m.Volume, r.m.frames[n].part()})
		}
		if matches == nil && len(list) == limit {
			return list, true, nil // without the next frame; the caller asks again in any case
		}
	}
	return list, false, nil
}

// framesFor returns the frames that may have events whose subject matches a pattern.
func (r *Reader) framesFor(ctx context.Context, pattern string) ([]int, error) {
	k, ok := keyFor(pattern)
	if !ok {
		return r.all, nil
	}
	known, err := r.loadFilter(ctx)
	if err != nil {
		return nil, err
	}
	i := pageOf(r.m.pages, k)
	if i < 0 || !known.mayHave(k) {
		return nil, nil
	}
	page, err := r.page(ctx, i)
	if err != nil {
		return nil, err
	}
	frames, err := findInPage(page, k, len(r.m.frames))
	if err != nil {
		return nil, r.damaged(pagePart(i), err)
	}
	return frames, nil
}

func (r *Reader) loadFilter(ctx context.Context) (filter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.filter != nil {
		return r.filter, nil
	}
	known := make(filter, 0, r.m.filterBytes)
	for i := range r.m.filterParts() {
		part, err := r.content(ctx, filterPart(i))
		if err != nil {
			return nil, err
		}
		known = append(known, part...)
	}
	if len(known) != r.m.filterBytes {
		return nil, r.damaged(filterPart(0), fmt.Errorf("the filter has %d bytes, not %d", len(known), r.m.filterBytes))
	}
	r.filter = known
	return known, nil
}

func (r *Reader) damaged(part string, err error) error {
	return fmt.Errorf("part %s of the archive of volume %d: %w: %w", part, r.m.Volume, err, ErrDamaged)
}

// get returns a part that must exist.
func (r *Reader) get(ctx context.Context, part string) ([]byte, error) {
	raw, err := r.parts.Get(ctx, part)
	if errors.Is(err, events.ErrNotFound) {
		return nil, r.damaged(part, errors.New("it is missing"))
	}
	if err != nil {
		return nil, fmt.Errorf("read part %s of the archive of volume %d: %w", part, r.m.Volume, err)
	}
	return raw, nil
}

// content returns a part that must exist and ends with a checksum, without the checksum.
func (r *Reader) content(ctx context.Context, part string) ([]byte, error) {
	raw, err := r.get(ctx, part)
	if err != nil {
		return nil, err
	}
	content, err := withoutChecksum(raw, fullName(r.m.Volume, part))
	if err != nil {
		return nil, r.damaged(part, err)
	}
	return content, nil
}

func (r *Reader) page(ctx context.Context, i int) ([]byte, error) {
	name := partName{r.m.Volume, pagePart(i)}
	if p, ok := r.cache.get(name); ok {
		return p.page, nil
	}
	page, err := r.readPage(ctx, i)
	if err != nil {
		return nil, err
	}
	r.cache.put(cached{name: name, page: page, size: len(page)})
	return page, nil
}

// readPage is page without the cache.
func (r *Reader) readPage(ctx context.Context, i int) ([]byte, error) {
	page, err := r.content(ctx, pagePart(i))
	if err != nil {
		return nil, err
	}
	if len(page) < keyBytes || key(binary.BigEndian.Uint64(page)) != r.m.pages[i] {
		return nil, r.damaged(pagePart(i), errors.New("it is another page"))
	}
	return page, nil
}

// CheckIndex reads all parts but the frames and the manifest. The error is ErrDamaged if one is
// damaged or missing.
func (r *Reader) CheckIndex(ctx context.Context) error {
	if _, err := r.loadFilter(ctx); err != nil {
		return err
	}
	for i := range r.m.pages {
		page, err := r.readPage(ctx, i)
		if err != nil {
			return err
		}
		if _, err := findInPage(page, math.MaxUint64, len(r.m.frames)); err != nil {
			return r.damaged(pagePart(i), err)
		}
	}
	if !r.m.OpensLoss {
		return nil
	}
	raw, err := r.get(ctx, Opening)
	if err != nil {
		return err
	}
	if _, err := decodeFrame(raw); err != nil {
		return r.damaged(Opening, err)
	}
	return nil
}

// frame returns a frame. It is empty if it is missing and recorded as lost.
func (r *Reader) frame(ctx context.Context, n int) (*frame, error) {
	e := r.m.frames[n]
	name := partName{r.m.Volume, e.part()}
	if p, ok := r.cache.get(name); ok {
		return p.frame, nil
	}
	raw, err := r.get(ctx, name.name)
	if err != nil {
		if errors.Is(err, ErrDamaged) && r.lost(e.first, e.last) {
			return &frame{}, nil
		}
		return nil, err
	}
	f, err := decodeFrame(raw)
	if err == nil && (f.list[0].seq != e.first || f.list[len(f.list)-1].seq != e.last) {
		err = fmt.Errorf("it holds positions %d to %d", f.list[0].seq, f.list[len(f.list)-1].seq)
	}
	if err != nil {
		return nil, r.damaged(name.name, err)
	}
	f.list = slices.DeleteFunc(f.list, func(x record) bool { return r.lost(x.seq, x.seq) })
	r.cache.put(cached{name: name, frame: f, size: f.size})
	return f, nil
}

// DecodeFrame returns the events of a frame, which may come from anyone.
func DecodeFrame(packed []byte) ([]events.Stored, error) {
	f, err := decodeFrame(packed)
	if err != nil {
		return nil, err
	}
	list := make([]events.Stored, len(f.list))
	for i, r := range f.list {
		list[i] = r.stored()
	}
	return list, nil
}
