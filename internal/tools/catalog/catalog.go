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

// Entry is an API that code may use.
type Entry struct {
	// ID is "<source>.<name>". Clients pass it as a seed. The source of a server's tool
	// is "mcp.<server>".
	ID string
	// Source is the name of the source that offers the entry.
	Source string
	// Summary is one line for users and models.
	Summary string
	// Declaration is the TypeScript declaration, without a final line end.
	Declaration string
	// Member describes the entry as a member of an object that entries share, for Table;
	// zero for none.
	Member Member
}

// hash returns the hash of the declaration in lower-case hex.
func (e Entry) hash() string { return digest(e.Declaration) }

// Source offers entries.
type Source interface {
	// Entries returns the entries that a tenant may use now, in any order. It MUST NOT
	// change entries that it has returned. A source that cannot be reached returns none.
	Entries(ctx context.Context, tenant string) []Entry
}

// Catalog combines several sources. It is safe for concurrent use if its sources are.
type Catalog struct {
	sources []Source
	aliases map[string]string
}

// New returns a Catalog of sources. aliases are other names of sources or entries that
// the operator has configured. An entry or a source takes precedence over an alias of
// the same name.
func New(aliases map[string]string, sources ...Source) *Catalog {
	return &Catalog{sources: sources, aliases: aliases}
}

// Snapshot returns the entries that the sources offer to a tenant now. If several sources
// offer an entry with the same id, it returns the entry of the first of these sources.
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

// Snapshot holds the entries of one moment. It does not change.
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

// hashes returns the hash of each entry's declaration by id.
func (s *Snapshot) hashes() map[string]string {
	m := make(map[string]string, len(s.all))
	for _, e := range s.all {
		m[e.ID] = e.hash()
	}
	return m
}

// sourceHashes returns the hash of each source by name. It is computed from the ids and
// hashes of the entries of the source, ordered by id.
func (s *Snapshot) sourceHashes() map[string]string {
	m := make(map[string]string, len(s.bySource))
	for name, list := range s.bySource {
		var b strings.Builder
		for _, e := range list {
			fmt.Fprintf(&b, "%s %s\n", e.ID, e.hash())
		}
		m[name] = digest(b.String())
	}
	return m
}

// UnknownError is returned for a seed that names neither an entry nor a source.
type UnknownError struct {
	// Seed is the unknown seed. Near are similar names.
	Seed string
	Near []string
}

// Error returns a message with the seed and similar names.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("no entry or source is named %q; existing names: %s", e.Seed, strings.Join(e.Near, ", "))
}

// MaxSeeds is the maximum number of seeds in one request of any interface.
const MaxSeeds = 256

// Resolve returns the entries of seeds, ordered by id and without repetition. A seed is
// the id of an entry, or the name of a source for all entries of that source. If a seed is
// neither, Resolve applies aliases to the whole seed, or otherwise to its longest beginning
// up to a dot that has an alias. The argument aliases takes precedence over the aliases of
// the operator. The error is an *UnknownError.
func (s *Snapshot) Resolve(seeds []string, aliases map[string]string) ([]Entry, error) {
	var found []Entry
	for _, seed := range seeds {
		list, ok := s.find(seed)
		if !ok {
			list, ok = s.find(s.resolveAlias(seed, aliases))
		}
		if !ok {
			return nil, &UnknownError{Seed: seed, Near: s.suggest(seed)}
		}
		found = append(found, list...)
	}
	slices.SortFunc(found, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(found, func(a, b Entry) bool { return a.ID == b.ID }), nil
}

// PrimarySource returns the first source of entries in lexicographic order, regardless of the
// order of the entries.
func PrimarySource(list []Entry) string {
	primary := ""
	for _, e := range list {
		if primary == "" || e.Source < primary {
			primary = e.Source
		}
	}
	return primary
}

func (s *Snapshot) find(name string) ([]Entry, bool) {
	if e, ok := s.byID[name]; ok {
		return []Entry{e}, true
	}
	list, ok := s.bySource[name]
	return list, ok
}

// resolveAlias replaces an alias in a seed. An alias may stand for a whole seed, or for the
// beginning of a seed up to a dot.
func (s *Snapshot) resolveAlias(seed string, aliases map[string]string) string {
	lookUp := func(name string) (string, bool) {
		if to, ok := aliases[name]; ok {
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

// maxNear is the maximum number of names in an UnknownError.
const maxNear = 8

// suggest returns names that share a word with a seed, or the sources if there are none.
func (s *Snapshot) suggest(seed string) []string {
	var list []string
	for _, e := range s.Search("", seed, maxNear).Entries {
		list = append(list, e.ID)
	}
	if len(words(seed)) == 0 || len(list) == 0 {
		list = slices.Sorted(maps.Keys(s.bySource))
	}
	return list[:min(len(list), maxNear)]
}

// Offer is a source with the number of its entries.
type Offer struct {
	Source  string
	Entries int
}

// Offers returns the sources, ordered by name.
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
