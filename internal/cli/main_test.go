package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/embed"
	"daybook/internal/cli"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// nats.go may start this goroutine for a stored object only after the
		// object is stored; it then never learns that it is to end.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		goleak.Cleanup(func(code int) {
			if builtDir != "" {
				os.RemoveAll(builtDir)
			}
			os.Exit(code)
		}))
}

// patience is the maximum time that a test waits for a condition.
const patience = 2 * time.Minute

// serve runs a Daybook with HTTP on a free port until the test ends.
func serve(t *testing.T) *embed.Daybook {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	book, err := embed.Start(ctx, embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}, Slots: embed.SlotOptions{Total: 2}, MCP: embed.MCPOptions{SessionID: "stdio"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := book.Close(); err != nil {
			t.Error(err)
		}
	})
	return book
}

// answer is the outcome of a command line.
type answer struct {
	status      int
	stdout, err string
}

// daybook runs a command line in this process.
func daybook(stdin string, args ...string) answer {
	var out, errs bytes.Buffer
	status := cli.Main(args, strings.NewReader(stdin), &out, &errs)
	return answer{status, out.String(), errs.String()}
}

// step is a command line with its expected outcome. The patterns must match the complete output;
// "" requires no output. $name in the arguments and patterns of later steps is the text of the
// group of that name.
type step struct {
	args           string // separated by spaces; "·" is a space within one
	stdin          string
	status         int
	stdout, stderr string
	// eventually repeats the step until its output matches: the session entry and tags of a
	// run are recorded after its end.
	eventually bool
}

// play runs steps in order.
func play(t *testing.T, known map[string]string, steps []step) {
	t.Helper()
	for _, s := range steps {
		problem := s.play(t, known)
		for late := time.After(patience); s.eventually && problem != ""; problem = s.play(t, known) {
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-late:
			}
			break
		}
		if problem != "" {
			t.Error(problem)
		}
	}
}

// play runs a command line and returns how its outcome differs, or an empty text.
func (s step) play(t *testing.T, known map[string]string) (problem string) {
	t.Helper()
	expand := func(text string, quote func(string) string) string {
		return os.Expand(text, func(name string) string {
			if v, ok := known[name]; ok {
				return quote(v)
			}
			return "$" + name
		})
	}
	var args []string
	for arg := range strings.FieldsSeq(s.args) {
		args = append(args, strings.ReplaceAll(expand(arg, strings.Clone), "·", " "))
	}
	got := daybook(s.stdin, args...)
	if got.status != s.status {
		problem += fmt.Sprintf("exit status %d, want %d\n", got.status, s.status)
	}
	for _, stream := range []struct{ name, got, want string }{{"stdout", got.stdout, s.stdout}, {"stderr", got.err, s.stderr}} {
		pattern, err := regexp.Compile(`\A(?s:` + expand(stream.want, regexp.QuoteMeta) + `)\z`)
		if err != nil {
			t.Fatal(err)
		}
		groups := pattern.FindStringSubmatch(stream.got)
		if groups == nil {
			problem += fmt.Sprintf("%s does not match %s\n", stream.name, pattern)
			continue
		}
		for i, name := range pattern.SubexpNames() {
			if name != "" {
				known[name] = groups[i]
			}
		}
	}
	if problem != "" {
		problem = fmt.Sprintf("daybook %s: %sstdout: %s\nstderr: %s", s.args, problem, got.stdout, got.err)
	}
	return problem
}

// written creates a file in the directory of the test and returns its path.
func written(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// builtDir is the directory of the built command, or empty.
var builtDir string

// build builds the real command once for all tests.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "daybook-cli-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	bin := filepath.Join(dir, "daybook")
	return bin, buildInto(bin)
})
