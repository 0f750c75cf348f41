package catalog

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
)

// SearchResult is the result of a search.
type SearchResult struct {
	// Entries are the best matches, ordered by score and then by id.
	Entries []Entry
	// Total is the number of matches. Entries may hold a part of them.
	Total int
}

// Weights of a word of an entry by its place, and of a word of the search by its origin.
const (
	inName    = 5.0
	inSource  = 3.0
	inSummary = 2.0
	ofQuery   = 3.0
	ofIntent  = 1.0
	// similarWeight is the weight of a word that only starts like the word of the search.
	similarWeight = 0.5
	// minScoreShare is the fraction of the best score below which a match is dropped as
	// accidental.
	minScoreShare = 0.1
)

// Search ranks the entries by the words that they share with the intent and with the
// query. Words of the query count more than words of the intent, and rare words more
// than frequent ones. If neither has a word, it finds all entries, ordered by id. It
// returns at most limit entries.
func (s *Snapshot) Search(intent, query string, limit int) SearchResult {
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
	return SearchResult{Entries: list[:min(len(list), limit)], Total: len(list)}
}

// rank returns the entries that share a word with wanted, ordered by score, best first.
func (s *Snapshot) rank(wanted map[string]float64) []Entry {
	search := slices.Sorted(maps.Keys(wanted)) // sums of floats depend on the order
	hits := make([][]float64, len(s.all))      // by entry and word
	matched := make([]float64, len(search))    // the number of entries that have a word
	for i, e := range s.all {
		hits[i] = weights(e, search)
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
	list = slices.DeleteFunc(list, func(h scored) bool { return h.score < best*minScoreShare })
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(b.score, a.score) }) // entries are ordered by id
	found := make([]Entry, len(list))
	for i, h := range list {
		found[i] = h.Entry
	}
	return found
}

// weights returns, for each word of a search, its weight in an entry; 0 if the entry does
// not have the word.
func weights(e Entry, search []string) []float64 {
	name := strings.TrimPrefix(e.ID, e.Source)
	places := []struct {
		words []string
		worth float64
	}{{words(name), inName}, {words(e.Source), inSource}, {words(e.Summary), inSummary}}
	values := make([]float64, len(search))
	for i, w := range search {
		for _, place := range places {
			for _, have := range place.words {
				values[i] = max(values[i], place.worth*similarity(w, have))
			}
		}
	}
	return values
}

// similarity returns 1 for equal words, similarWeight for words that start alike, and 0
// otherwise.
func similarity(a, b string) float64 {
	switch {
	case a == b:
		return 1
	case !isASCII(a) || !isASCII(b):
		// Some scripts do not separate words.
		if strings.Contains(a, b) || strings.Contains(b, a) {
			return similarWeight
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
		return similarWeight
	}
	return 0
}

func isASCII(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0 }

// maxWords is the maximum number of words that are taken from a text, so that a hostile text
// does not cost more.
const maxWords = 64

// words returns the first words of a text or of a name in lower case, without
// repetitions and without stop words, in order.
func words(text string) []string {
	var list []string
	var word []rune
	end := func() {
		if len(list) == maxWords {
			return
		}
		if w := strings.ToLower(string(word)); len(w) > 1 && !stopWords[w] && !slices.Contains(list, w) {
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

// stopWords are the stop words: they occur in intents and describe no entry.
var stopWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`an and any are as at be by can do for from has have how if in into is it its like me my need no not of on or our
		out please so some that the their them then there these they this to up use used using via want was we what when which will with you your`) {
		m[w] = true
	}
	return m
}()
