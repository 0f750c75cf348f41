package arch_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "lower the counts of testdata/old-words.txt to what the tree still holds")

// oldWords is the file with the phrases that the tree had when the check was added.
var oldWords = filepath.Join("testdata", "old-words.txt")

// TestWords fails for a replaced phrase of words.txt in new text: comments and string
// literals of Go files, Markdown, and the other sources and scripts.
//
// Old text still has such phrases. The file old-words.txt counts them, each with the word
// before and the word after it. The counts are for the whole tree, so that text can be
// moved between files and wrapped differently.
func TestWords(t *testing.T) {
	t.Parallel()
	phrases := readPhrases(t)
	found := map[occurrence][]string{}
	for path, words := range treeWords(t) {
		for _, m := range match(words, phrases) {
			found[m.occurrence] = append(found[m.occurrence], fmt.Sprintf("%s:%d", path, m.line))
		}
	}
	known, err := readOldWords()
	if os.IsNotExist(err) && *update {
		known = map[occurrence]int{}
		for o, places := range found {
			known[o] = len(places)
		}
	} else if err != nil {
		t.Fatal(err)
	}
	for _, line := range news(found, known, phrases) {
		t.Error(line)
	}
	if t.Failed() {
		t.Log("To name a phrase as a phrase, put it in backquotes in Markdown or in a comment. A Go comment with the marker \"words: quote\" exempts itself and the string literals on its line and on the next.")
	}
	if !*update {
		return
	}
	for o := range known {
		known[o] = min(known[o], len(found[o]))
	}
	if err := writeOldWords(known); err != nil {
		t.Fatal(err)
	}
}

// news returns a line for each place of a phrase that occurs more often than known.
func news(found map[occurrence][]string, known map[occurrence]int, phrases map[string]string) (lines []string) {
	for o, places := range found {
		if len(places) <= known[o] {
			continue
		}
		which := ""
		if known[o] > 0 {
			which = fmt.Sprintf(" (%d of the %d places with these words are old)", known[o], len(places))
		}
		for _, place := range places {
			lines = append(lines, fmt.Sprintf("%s: %q: write %s%s", place, o.phrase, phrases[o.phrase], which))
		}
	}
	slices.Sort(lines)
	return lines
}

// occurrence is a phrase with the word before and the word after it. Punctuation and the
// ends of a text count as the word ".".
type occurrence struct{ phrase, before, after string }

// readPhrases reads words.txt: phrases with their replacements.
func readPhrases(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("words.txt")
	if err != nil {
		t.Fatal(err)
	}
	phrases := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		phrase, replacement, ok := strings.Cut(line, ": ")
		if !ok || phrase != strings.ToLower(strings.Join(strings.Fields(phrase), " ")) || phrases[phrase] != "" {
			t.Fatalf("words.txt: %q", line)
		}
		phrases[phrase] = replacement
	}
	return phrases
}

// readOldWords reads the counts of old-words.txt: lines of phrase, word before, word
// after and count, separated by tabs.
func readOldWords() (map[occurrence]int, error) {
	raw, err := os.ReadFile(oldWords)
	if err != nil {
		return nil, err
	}
	known := map[occurrence]int{}
	for line := range strings.Lines(string(raw)) {
		part := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(part) != 4 {
			return nil, fmt.Errorf("%s: %q", oldWords, line)
		}
		n, err := strconv.Atoi(part[3])
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", oldWords, line, err)
		}
		known[occurrence{part[0], part[1], part[2]}] = n
	}
	return known, nil
}

func writeOldWords(known map[occurrence]int) error {
	var lines []string
	for o, n := range known {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%d\n", o.phrase, o.before, o.after, n))
		}
	}
	slices.Sort(lines)
	return os.WriteFile(oldWords, []byte(strings.Join(lines, "")), 0o644)
}

// treeWords returns the words of each file that the check covers, by path.
func treeWords(t *testing.T) map[string][]word {
	t.Helper()
	const root = "../../.."
	files := map[string][]word{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			// Generated documents repeat comments and string literals.
			if d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root && name != ".ci" || name == "docs/reference" {
				return filepath.SkipDir
			}
			return nil
		}
		read := reader(name)
		if read == nil {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files[name] = read(src)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 500 {
		t.Fatalf("only %d files were read", len(files))
	}
	return files
}

// lineMark is what a line of a comment starts with in JavaScript and C, hashMark in shell
// and Python scripts.
var (
	lineMark = regexp.MustCompile(`(?m)^[ \t]*(//|/?\*+)`)
	hashMark = regexp.MustCompile(`(?m)^[ \t]*#`)
)

// reader returns the function that splits a file into words, or nil.
func reader(name string) func(src []byte) []word {
	switch {
	case name == "docs/events.md": // generated
		return nil
	case name == "CHANGELOG.md":
		return func(src []byte) []word { return markdownWords(firstSection(src)) }
	case filepath.Ext(name) == ".go":
		return goWords
	case filepath.Ext(name) == ".md":
		return markdownWords
	}
	mark := lineMark
	switch filepath.Ext(name) {
	case ".js", ".mjs", ".c", ".cc", ".h":
	case ".py", ".sh":
		mark = hashMark
	case "":
		if name != "Makefile" && !strings.HasPrefix(name, ".ci/") {
			return nil
		}
		mark = hashMark
	default:
		return nil
	}
	return func(src []byte) []word {
		return addWords(nil, mark.ReplaceAllString(string(src), ""), 1, false, true)
	}
}

// firstSection returns a changelog up to its second section: released ones are not
// edited.
func firstSection(src []byte) []byte {
	first := bytes.Index(src, []byte("\n## "))
	if first < 0 {
		return src
	}
	if second := bytes.Index(src[first+1:], []byte("\n## ")); second >= 0 {
		return src[:first+1+second]
	}
	return src
}

// word is a word of a text in lower case, or "." for punctuation and the end of a text,
// which no phrase spans.
type word struct {
	text string
	line int
}

const stop = "."

// match returns the occurrences of phrases, each with the line of its first word.
func match(words []word, phrases map[string]string) (list []matched) {
	byFirst := map[string][][]string{}
	for phrase := range phrases {
		parts := strings.Fields(phrase)
		byFirst[parts[0]] = append(byFirst[parts[0]], parts)
	}
	at := func(i int) string {
		if i < 0 || i >= len(words) {
			return stop
		}
		return words[i].text
	}
	for i, w := range words {
		for _, parts := range byFirst[w.text] {
			same := true
			for k, part := range parts {
				same = same && at(i+k) == part
			}
			if same {
				list = append(list, matched{occurrence{strings.Join(parts, " "), at(i - 1), at(i + len(parts))}, w.line})
			}
		}
	}
	return list
}

type matched struct {
	occurrence
	line int
}

// addWords appends the words of a text that starts on a line. It skips backquoted text
// if quotes is set, and counts lines if the text has those of its file.
func addWords(list []word, text string, line int, quotes, lines bool) []word {
	flush := func(s string) {
		if s = strings.ToLower(strings.Trim(s, "-'")); s != "" {
			list = append(list, word{s, line})
		}
	}
	from := -1
	skip := 0
	for i, r := range text {
		if i < skip {
			if r == '\n' && lines {
				line++
			}
			continue
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '-' || r == '\'' {
			if from < 0 {
				from = i
			}
			continue
		}
		if from >= 0 {
			flush(text[from:i])
			from = -1
		}
		switch {
		case r == '\n' && lines:
			line++
		case unicode.IsSpace(r):
		default:
			list = append(list, word{stop, line})
			if r == '`' && quotes {
				skip = i + quoted(text[i:])
			}
		}
	}
	if from >= 0 {
		flush(text[from:])
	}
	return append(list, word{stop, line})
}

// quoted returns the length of the backquoted text at the start of s, or 0 if it has no
// end.
func quoted(s string) int {
	mark := s[:len(s)-len(strings.TrimLeft(s, "`"))]
	end := strings.Index(s[len(mark):], mark)
	if end < 0 {
		return 0
	}
	return len(mark) + end + len(mark)
}

// quoteMarker exempts a comment and the string literals on its line and on the next.
const quoteMarker = "words: quote"

// goWords returns the words of comments and of string literals. Comments on consecutive
// lines are one text, and so are literals that are added to each other.
func goWords(src []byte) (list []word) {
	file := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	var comment strings.Builder
	first, last := 0, 0 // lines of the comment
	exempt := map[int]bool{}
	end := func() {
		if last > 0 && strings.Contains(comment.String(), quoteMarker) {
			for line := first; line <= last+1; line++ {
				exempt[line] = true
			}
		} else if last > 0 {
			list = addWords(list, comment.String(), first, true, true)
		}
		comment.Reset()
		last = 0
	}
	var before, between token.Token
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			end()
			break
		}
		line := file.Line(pos)
		switch tok {
		case token.COMMENT:
			if line != last+1 {
				end()
				first = line
			} else {
				comment.WriteByte('\n')
			}
			comment.WriteString(commentText(lit))
			last = line + strings.Count(lit, "\n")
			continue
		case token.STRING:
			end()
			if before == token.STRING && between == token.ADD {
				list = list[:len(list)-1] // the end of the literal before
			}
			if text, err := strconv.Unquote(lit); err == nil {
				list = addWords(list, text, line, false, lit[0] == '`')
			} else {
				list = append(list, word{stop, line})
			}
		}
		before, between = between, tok
	}
	for i, w := range list {
		if exempt[w.line] {
			list[i].text = stop
		}
	}
	return list
}

// commentText returns a comment without its marks, with the same number of lines.
func commentText(lit string) string {
	if strings.HasPrefix(lit, "//go:") || strings.HasPrefix(lit, "//nolint") {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(lit, "//"), "/*"), "*/")
}

// markdownWords returns the words of a document without its code.
func markdownWords(src []byte) (list []word) {
	var paragraph strings.Builder
	first, line, fence := 1, 0, false
	end := func() {
		list = addWords(list, paragraph.String(), first, true, true)
		paragraph.Reset()
	}
	for text := range strings.Lines(string(src)) {
		line++
		trimmed := strings.TrimSpace(text)
		isFence := strings.HasPrefix(trimmed, "```")
		if isFence || fence || trimmed == "" {
			end()
			first = line + 1
			fence = fence != isFence
			continue
		}
		paragraph.WriteString(text)
	}
	end()
	return list
}

func TestWordsOfTexts(t *testing.T) {
	t.Parallel()
	phrases := map[string]string{"on record": "recorded", "anew": "again"}
	for _, tc := range []struct {
		name, file, src string
		want            []string
	}{
		{"a comment", "a.go", "package a\n\n// It is on\n// record now, and Anew.\nvar x int // anew\n", []string{"3 is on record now", "4 and anew .", "5 . anew ."}},
		{"an end of a sentence", "a.go", "package a\n\n// It goes on. Record it.\n", nil},
		{"two comments", "a.go", "package a\n\n// It is on\n\n// record now\n", nil},
		{"identifiers", "a.go", "package a\n\nvar anew, record = on, record\n", nil},
		{"literals", "a.go", "package a\n\nvar x = \"is on \" +\n\t\"record\" + `x\nanew`\nvar y = f(\"on\", \"record\")\n", []string{"3 is on record x", "5 x anew ."}},
		{"backquotes", "a.go", "package a\n\n// Not `on record`, but `anew\n// anew` and anew.\n", []string{"4 and anew ."}},
		{"the marker", "a.go", "package a\n\nvar x = \"anew\" // words: quote\nvar y = \"anew\"\nvar z = \"anew\"\n", []string{"5 . anew ."}},
		{"a directive", "a.go", "package a\n\n//nolint:anew // anew\nvar x int\n", nil},
		{"Markdown", "a.md", "# Anew\n\nIt is on\nrecord. `anew` ``a ` anew``\n\n```\nanew\n```\n| anew |\n", []string{"1 . anew .", "3 is on record .", "9 . anew ."}},
		{"a changelog", "CHANGELOG.md", "# C\n\n## New\n\nanew\n\n## Old\n\nanew\n", []string{"5 . anew ."}},
		{"JavaScript", "a.js", "/* It is on\n * record. */\n// on\nlet x = `it is anew ${on} record`\n", []string{"1 is on record .", "4 is anew ."}},
	} {
		var got []string
		for _, m := range match(reader(tc.file)([]byte(tc.src)), phrases) {
			got = append(got, fmt.Sprintf("%d %s %s %s", m.line, m.before, m.phrase, m.after))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestNewWords(t *testing.T) {
	t.Parallel()
	is, was := occurrence{"anew", "is", "."}, occurrence{"anew", "was", "."} // words: quote
	phrases := map[string]string{is.phrase: "again"}
	found := map[occurrence][]string{is: {"a.go:3", "b.go:1"}, was: {"a.md:7"}}
	for _, tc := range []struct {
		known map[occurrence]int
		want  []string
	}{
		{map[occurrence]int{is: 2, was: 1}, nil},
		{map[occurrence]int{is: 3, was: 1}, nil},
		{map[occurrence]int{is: 2}, []string{`a.md:7: "anew": write again`}}, // words: quote
		{map[occurrence]int{is: 1, was: 1}, []string{
			`a.go:3: "anew": write again (1 of the 2 places with these words are old)`, // words: quote
			`b.go:1: "anew": write again (1 of the 2 places with these words are old)`, // words: quote
		}},
	} {
		if got := news(found, tc.known, phrases); !slices.Equal(got, tc.want) {
			t.Errorf("%v: %q, want %q", slices.Collect(maps.Values(tc.known)), got, tc.want)
		}
	}
}
