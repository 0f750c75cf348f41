package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Entry is something that code may use.
type Entry struct {
	// ID names it, "<source>.<name>": what is copied into seeds. For a tool of a
	// server the source is "mcp.<server>".
	ID string
	// Source is what offers it.
	Source string
	// Summary is one line about it, for people and models.
	Summary string
	// Declaration declares it in TypeScript, as it is to be shown. Without a line
	// end at its end.
	Declaration string
	// Member places it in an object shared with others, for Table; zero for none.
	Member Member
}

// SHA256 is the hash of the declaration, in lowercase hex.
func (e Entry) SHA256() string { return digest(e.Declaration) }

// Source offers entries.
type Source interface {
	// Entries returns what a tenant may use now, in any order. It must not change
	// what it has returned. A source that cannot be reached offers nothing.
	Entries(ctx context.Context, tenant string) []Entry
}

// Catalog is what several sources offer together. It is safe for concurrent use
// if they are.
type Catalog struct {
	sources []Source
	aliases map[string]string
}

// New makes a catalogue. aliases are other names of sources or entries, from the
// operator; an entry or source of that name comes first.
func New(aliases map[string]string, sources ...Source) *Catalog {
	return &Catalog{sources: sources, aliases: aliases}
}

// Snapshot asks the sources what they offer to a tenant. Of two entries with one
// id the first source's counts.
func (c *Catalog) Snapshot(ctx context.Context, tenant string) *Snapshot {
	s := &Snapshot{byID: map[string]Entry{}, bySource: map[string][]Entry{}, aliases: c.aliases}
	for _, source := range c.sources {
		for _, e := range source.Entries(ctx, tenant) {
			if _, taken := s.byID[e.ID]; taken {
				continue
			}
			s.byID[e.ID] = e
			s.all = append(s.all, e)
		}
	}
	slices.SortFunc(s.all, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	for _, e := range s.all {
		s.bySource[e.Source] = append(s.bySource[e.Source], e)
	}
	return s
}

// Snapshot is what was offered at one moment. It does not change.
type Snapshot struct {
	all      []Entry // by id
	byID     map[string]Entry
	bySource map[string][]Entry
	aliases  map[string]string
}

// Entry returns an entry by its id.
func (s *Snapshot) Entry(id string) (Entry, bool) {
	e, ok := s.byID[id]
	return e, ok
}

// Hashes returns the hash of each entry's declaration by id.
func (s *Snapshot) Hashes() map[string]string {
	m := make(map[string]string, len(s.all))
	for _, e := range s.all {
		m[e.ID] = e.SHA256()
	}
	return m
}

// Sources returns, by source, the hash of all it offers: of the ids and hashes
// of its entries, sorted.
func (s *Snapshot) Sources() map[string]string {
	m := make(map[string]string, len(s.bySource))
	for name, list := range s.bySource {
		var b strings.Builder
		for _, e := range list {
			fmt.Fprintf(&b, "%s %s\n", e.ID, e.SHA256())
		}
		m[name] = digest(b.String())
	}
	return m
}

// UnknownError is a seed that names nothing.
type UnknownError struct {
	// Seed is what was asked for; Near are names that may have been meant.
	Seed string
	Near []string
}

// Error names the seed and what may have been meant.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("nothing is called %q here; there is %s", e.Seed, strings.Join(e.Near, ", "))
}

// MaxSeeds bounds the seeds of one request, in every interface.
const MaxSeeds = 256

// Resolve turns seeds into entries, by id and without repetition. A seed is the
// id of an entry, or the name of a source for all it offers. Aliases, the
// caller's before the operator's, are looked up first for a whole seed, else for
// its source. The error is an *UnknownError.
func (s *Snapshot) Resolve(seeds []string, aliases map[string]string) ([]Entry, error) {
	var found []Entry
	for _, seed := range seeds {
		list, ok := s.named(seed)
		if !ok {
			list, ok = s.named(s.canonical(seed, aliases))
		}
		if !ok {
			return nil, &UnknownError{Seed: seed, Near: s.near(seed)}
		}
		found = append(found, list...)
	}
	slices.SortFunc(found, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(found, func(a, b Entry) bool { return a.ID == b.ID }), nil
}

// Primary is the first source of entries in lexicographic order, whatever the
// order of the entries.
func Primary(list []Entry) string {
	primary := ""
	for _, e := range list {
		if primary == "" || e.Source < primary {
			primary = e.Source
		}
	}
	return primary
}

func (s *Snapshot) named(name string) ([]Entry, bool) {
	if e, ok := s.byID[name]; ok {
		return []Entry{e}, true
	}
	list, ok := s.bySource[name]
	return list, ok
}

// canonical applies aliases: an alias may stand for a whole name, or for the
// beginning of one up to a dot.
func (s *Snapshot) canonical(seed string, given map[string]string) string {
	lookUp := func(name string) (string, bool) {
		if to, ok := given[name]; ok {
			return to, true
		}
		to, ok := s.aliases[name]
		return to, ok
	}
	if to, ok := lookUp(seed); ok {
		return to
	}
	for at := len(seed) - 1; at > 0; at-- {
		if seed[at] != '.' {
			continue
		}
		if to, ok := lookUp(seed[:at]); ok {
			return to + seed[at:]
		}
	}
	return seed
}

// maxNear bounds how many names an UnknownError suggests.
const maxNear = 8

// near returns names that share a word with a seed, else the sources.
func (s *Snapshot) near(seed string) []string {
	var list []string
	for _, e := range s.Search("", seed, maxNear).Entries {
		list = append(list, e.ID)
	}
	if len(words(seed)) == 0 || len(list) == 0 {
		list = slices.Sorted(maps.Keys(s.bySource))
	}
	return list[:min(len(list), maxNear)]
}

// Offer is a source and how many entries it offers.
type Offer struct {
	Source  string
	Entries int
}

// Offers lists the sources, by name.
func (s *Snapshot) Offers() []Offer {
	var list []Offer
	for _, name := range slices.Sorted(maps.Keys(s.bySource)) {
		list = append(list, Offer{name, len(s.bySource[name])})
	}
	return list
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
