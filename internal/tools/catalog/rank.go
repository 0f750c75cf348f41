package catalog

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Found is the answer to a search.
type Found struct {
	// Entries are the best matches first, then by id.
	Entries []Entry
	// Total is how many match, of which Entries may be a part.
	Total int
}

// What a word of an entry is worth, by where it stands, and a word of the
// search, by where it comes from.
const (
	inName    = 5.0
	inSource  = 3.0
	inSummary = 2.0
	ofQuery   = 3.0
	ofIntent  = 1.0
	// similar is what a word is worth that only begins like the one looked for.
	similar = 0.5
	// least is the part of the best score below which a match is chance.
	least = 0.1
)

// Search ranks the entries by what they share with a goal, the intent, and with
// words to look for, the query, which count more. Rare words count more than
// frequent ones. Without any word in either, all entries are found, by id. At
// most limit are returned.
func (s *Snapshot) Search(intent, query string, limit int) Found {
	wanted := map[string]float64{}
	for _, w := range words(intent) {
		wanted[w] = ofIntent
	}
	for _, w := range words(query) {
		wanted[w] = ofQuery
	}
	list := s.all
	if len(wanted) > 0 {
		list = s.rank(wanted)
	}
	return Found{Entries: list[:min(len(list), limit)], Total: len(list)}
}

// rank returns the entries that share a word with those wanted, by weight, the
// best first.
func (s *Snapshot) rank(wanted map[string]float64) []Entry {
	search := slices.Sorted(maps.Keys(wanted)) // sums of floats depend on their order
	hits := make([][]float64, len(s.all))      // by entry and word
	matched := make([]float64, len(search))    // how many entries have a word
	for i, e := range s.all {
		hits[i] = worth(e, search)
		for j, v := range hits[i] {
			if v > 0 {
				matched[j]++
			}
		}
	}
	type scored struct {
		Entry
		score float64
	}
	var list []scored
	best := 0.0
	for i, e := range s.all {
		score := 0.0
		for j, v := range hits[i] {
			if v > 0 {
				score += v * wanted[search[j]] * math.Log(1+float64(len(s.all))/matched[j])
			}
		}
		if score > 0 {
			list = append(list, scored{e, score})
			best = max(best, score)
		}
	}
	list = slices.DeleteFunc(list, func(h scored) bool { return h.score < best*least })
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(b.score, a.score) }) // they are by id
	found := make([]Entry, len(list))
	for i, h := range list {
		found[i] = h.Entry
	}
	return found
}

// worth is what each word of a search is worth in an entry.
func worth(e Entry, search []string) []float64 {
	name := strings.TrimPrefix(e.ID, e.Source)
	places := []struct {
		words []string
		worth float64
	}{{words(name), inName}, {words(e.Source), inSource}, {words(e.Summary), inSummary}}
	values := make([]float64, len(search))
	for i, w := range search {
		for _, place := range places {
			for _, have := range place.words {
				values[i] = max(values[i], place.worth*likeness(w, have))
			}
		}
	}
	return values
}

// likeness is 1 for equal words, similar for words that begin alike, else 0.
func likeness(a, b string) float64 {
	switch {
	case a == b:
		return 1
	case !ascii(a) || !ascii(b):
		// Some scripts do not separate words.
		if strings.Contains(a, b) || strings.Contains(b, a) {
			return similar
		}
		return 0
	}
	const root = 4
	short, long := a, b
	if len(short) > len(long) {
		short, long = long, short
	}
	// "search" and "searching", "repository" and "repositories".
	if len(short) >= root && (strings.HasPrefix(long, short) || len(short) > root+2 && strings.HasPrefix(long, short[:len(short)-1])) {
		return similar
	}
	return 0
}

func ascii(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0 }

// maxWords bounds what is looked for: a hostile text must not cost more.
const maxWords = 64

// words are the first words of a text or of a name, in lower case and once each, in
// order, without those that say nothing.
func words(text string) []string {
	var list []string
	var word []rune
	end := func() {
		if len(list) == maxWords {
			return
		}
		if w := strings.ToLower(string(word)); len(w) > 1 && !empty[w] && !slices.Contains(list, w) {
			list = append(list, w)
		}
		word = word[:0]
	}
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			end()
			continue
		// "listIssues" is two words, "JSON" is one.
		case unicode.IsUpper(r) && len(word) > 0 && !unicode.IsUpper(word[len(word)-1]):
			end()
		}
		word = append(word, r)
	}
	end()
	return list
}

// empty are words that a goal is made of, and no entry.
var empty = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`an and any are as at be by can do for from has have how if in into is it its like me my need no not of on or our
		out please so some that the their them then there these they this to up use used using via want was we what when which will with you your`) {
		m[w] = true
	}
	return m
}()
