package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"daybook/events"
)

// TestTranscripts plays the transcripts in testdata/*.txtar. A section "request" holds
// a request as on the wire, followed by a section "response". A section "run" drives an
// execution in place of a runner. Ids and times are replaced by names in order of
// appearance: ID1 in a request is the first id of the transcript. Run with -update to
// record the responses again.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := &player{s: start(t)}
			for i := range archive.Files {
				section := &archive.Files[i]
				switch section.Name {
				case "request":
					p.request(section.Data)
				case "run":
					p.run(section.Data)
				case "response":
					if *update {
						section.Data = p.last
					} else if !bytes.Equal(section.Data, p.last) {
						t.Errorf("section %d: got\n%s\nwant\n%s", i, p.last, section.Data)
					}
				default:
					t.Fatalf("section %q", section.Name)
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

type player struct {
	s    *stack
	ids  []string
	last []byte
	// attempt is the run that "run" sections drive.
	attempt *attempt
}

var (
	idForm   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timeForm = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	seedForm = regexp.MustCompile(`"seed":"[0-9a-f]{32}"`)
	waitForm = regexp.MustCompile(`"queued_ms":\d+`)
	hostForm = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	// shown are the headers that transcripts show.
	shown = []string{"Allow", "Content-Type", "Daybook-Sequence", "Daybook-Last-Sequence", "Retry-After"}
)

// hide replaces texts that differ between two runs of the test.
func (p *player) hide(s string) string {
	s = idForm.ReplaceAllStringFunc(s, func(id string) string {
		i := slices.Index(p.ids, id)
		if i < 0 {
			i = len(p.ids)
			p.ids = append(p.ids, id)
		}
		return fmt.Sprintf("ID%d", i+1)
	})
	s = timeForm.ReplaceAllString(s, "TIME")
	s = waitForm.ReplaceAllString(s, `"queued_ms":MS`)
	s = seedForm.ReplaceAllString(s, `"seed":"SEED"`)
	return hostForm.ReplaceAllString(s, "HOST")
}

func (p *player) show(s string) string {
	for i, id := range slices.Backward(p.ids) {
		s = strings.ReplaceAll(s, fmt.Sprintf("ID%d", i+1), id)
	}
	return s
}

func (p *player) request(section []byte) {
	p.s.t.Helper()
	head, body, _ := strings.Cut(p.show(string(section)), "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	req, err := http.NewRequest(method, p.s.url+path, strings.NewReader(strings.TrimSuffix(body, "\n")))
	if err != nil {
		p.s.t.Fatal(err)
	}
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ": ")
		req.Header.Set(name, value)
	}
	resp, err := p.s.client.Do(req)
	if err != nil {
		p.s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		p.s.t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintln(&b, resp.Status)
	for _, name := range shown {
		if v := resp.Header.Get(name); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	fmt.Fprintf(&b, "\n%s", p.hide(string(raw)))
	p.last = []byte(b.String())
	if !bytes.HasSuffix(p.last, []byte("\n")) {
		p.last = append(p.last, '\n')
	}
}

// run reads "start ID", "print TEXT", and "STATUS RESULT [HEAP]" lines.
func (p *player) run(section []byte) {
	p.s.t.Helper()
	for l := range strings.Lines(p.show(string(section))) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(l), " ")
		switch verb {
		case "start":
			p.attempt = p.s.begin(rest)
		case "print":
			p.attempt.print(rest)
		case "":
		default:
			result, heap, _ := strings.Cut(rest, " heap ")
			p.attempt.finish(events.Status(verb), result, heap)
		}
	}
	p.s.catchUp()
}
