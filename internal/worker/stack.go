package worker

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sourcemap/sourcemap"
)

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._/@+-]`)

// scriptName makes a file name that V8 accepts in a sourceURL comment, which
// ends at white space and quotes.
func scriptName(file string) string { return unsafeInName.ReplaceAllString(file, "_") }

// source returns what V8 evaluates. The name comes last, so a sourceURL that the
// script itself carries loses.
func (p *program) source() []byte {
	out := make([]byte, 0, len(p.code)+len(p.name)+20)
	out = append(out, p.code...)
	out = append(out, "\n//# sourceURL="...)
	return append(out, p.name...)
}

// position maps a place in the code V8 saw, 1-based, to the caller's source.
func (p *program) position(m *sourcemap.Consumer, line, column int) (int, int, bool) {
	_, _, l, c, ok := m.Source(line, column-1)
	return l, c + 1, ok
}

func (p *program) consumer() *sourcemap.Consumer {
	if p.maps == nil {
		return nil
	}
	m, err := sourcemap.Parse("", p.maps)
	if err != nil {
		return nil // positions stay those of the code V8 saw
	}
	return m
}

var preludeFrame = regexp.MustCompile(`^    at (?:.* \()?daybook:prelude:\d+:\d+\)?$`)

func isPreludeFrame(line string) bool { return preludeFrame.MatchString(line) }

// mapStack rewrites the places of our script in the frames of a stack trace, and
// drops frames that are none of the script's business. Lines that are no frames are the script's own words and stay.
func (p *program) mapStack(stack string) string {
	frame := regexp.MustCompile(`(^|[( ])` + regexp.QuoteMeta(p.name) + `:(\d+):(\d+)(\)?)$`)
	var m *sourcemap.Consumer
	lines := slices.DeleteFunc(strings.Split(stack, "\n"), isPreludeFrame)
	for i, text := range lines {
		if !strings.HasPrefix(text, "    at ") {
			continue
		}
		at := frame.FindStringSubmatchIndex(text)
		if at == nil {
			continue
		}
		if m == nil && p.maps != nil {
			if m = p.consumer(); m == nil {
				return stack
			}
		}
		l, lineErr := strconv.Atoi(text[at[4]:at[5]])
		c, columnErr := strconv.Atoi(text[at[6]:at[7]])
		ok := lineErr == nil && columnErr == nil
		if m != nil {
			l, c, ok = p.position(m, l, c)
		}
		if !ok {
			continue
		}
		lines[i] = fmt.Sprintf("%s%s:%d:%d%s", text[:at[3]], p.file, l, c, text[at[8]:])
	}
	return strings.Join(lines, "\n")
}
