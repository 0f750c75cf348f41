package cli_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var updateGuide = flag.Bool("update", false, "write what the commands of docs/guides/sessions.md print into the guide")

var (
	consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```\n")
	// Values that differ from one run of the guide to the next.
	differing = []struct {
		pattern *regexp.Regexp
		as      string
	}{
		{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "EXECUTION"},
		{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "KEY"},
		{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "SHORT"},
		{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{3}Z)?`), "TIME"},
		{regexp.MustCompile(`\b\d+(\.\d+)? m?s\b`), "DURATION"},
		{regexp.MustCompile(` +`), " "},
	}
)

func undiffering(text string) string {
	for _, d := range differing {
		text = d.pattern.ReplaceAllString(text, d.as)
	}
	return text
}

// words splits a command line at spaces outside of single quotes.
func words(line string) (list []string) {
	quoted := false
	word := ""
	for _, r := range line + " " {
		switch {
		case r == '\'':
			quoted = !quoted
		case r == ' ' && !quoted:
			if word != "" {
				list = append(list, word)
			}
			word = ""
		default:
			word += string(r)
		}
	}
	return list
}

// The output of the commands in the guide equals the output in the guide. HEAP in a command is the
// heap of the run before the last one.
func TestSessionsGuide(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "guides", "sessions.md")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t).URL()
	var heaps []string
	heapLine := regexp.MustCompile(`(?m)^heap:   ([0-9a-f]{64})$`)
	got := consoleBlock.ReplaceAllStringFunc(string(raw), func(block string) string {
		var b strings.Builder
		b.WriteString("```console\n")
		for line := range strings.Lines(consoleBlock.FindStringSubmatch(block)[1]) {
			command, ok := strings.CutPrefix(line, "$ daybook ")
			if !ok {
				continue
			}
			b.WriteString(line)
			args := words(strings.TrimSuffix(command, "\n"))
			for i, arg := range args {
				if arg == "HEAP" {
					args[i] = heaps[len(heaps)-2]
				}
			}
			a := daybook("", append(args, "--server", server)...)
			b.WriteString(a.stdout + a.err)
			if m := heapLine.FindStringSubmatch(a.err); m != nil {
				heaps = append(heaps, m[1])
			}
		}
		b.WriteString("```\n")
		return b.String()
	})
	if *updateGuide {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, now := strings.Split(undiffering(string(raw)), "\n"), strings.Split(undiffering(got), "\n")
	for i := range min(len(want), len(now)) {
		if want[i] != now[i] {
			t.Fatalf("line %d of the guide is %q, and the command prints %q; if that is intended, run: go test ./internal/cli -run SessionsGuide -update", i+1, want[i], now[i])
		}
	}
	if len(want) != len(now) {
		t.Errorf("the guide has %d lines, with the present output %d", len(want), len(now))
	}
}
