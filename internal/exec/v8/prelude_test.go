package v8_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"daybook/internal/exec/v8"
)

// modes are the two kinds of isolates. Each case must have the same outcome in both.
var modes = []struct {
	name string
	cfg  v8.Config
}{
	{"saved", v8.Config{}},
	{"plain", v8.Config{Plain: true}},
}

// message is one console message with its level by name.
type message struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

var levelNames = []string{"log", "debug", "info", "warn", "error", "trace"}

// messages records console messages.
type messages struct{ list []message }

func (m *messages) WriteMessage(level uint8, _ time.Time, text []byte) error {
	m.list = append(m.list, message{Level: levelNames[level], Text: string(text)})
	return nil
}

// print runs source in an isolate that is not saved afterwards.
func print(tb testing.TB, cfg v8.Config, source string) (v8.Result, []message) {
	tb.Helper()
	var out messages
	cfg.Output, cfg.Start = &out, start
	if cfg.HeapLimit == 0 {
		cfg.HeapLimit = 64 << 20
	}
	i, err := v8.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	defer i.Dispose()
	r, err := i.Run(v8.Script{Source: []byte(source)})
	if err != nil {
		tb.Fatal(err)
	}
	return r, out.list
}

// textOf returns the text of a result, or a placeholder if there is none.
func textOf(r v8.Result) string {
	if r.Text == nil {
		return "<none>"
	}
	return *r.Text
}

// recorded returns the cases that testdata/record.mjs wrote.
func recorded[T any](tb testing.TB, name string) []T {
	tb.Helper()
	data, err := os.ReadFile("prelude/testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	var cases []T
	if err := json.Unmarshal(data, &cases); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return cases
}

// withoutFrames precedes the source of a case. It turns off stack frames, because they contain the
// names of files, which differ between engines.
const withoutFrames = "void (Error.stackTraceLimit = 0);\n"

// Inspection prints the same as Node's util.inspect when the cases were recorded.
func TestInspectAsNode(t *testing.T) {
	cases := recorded[struct{ Expr, Want string }](t, "inspect.json")
	var script strings.Builder
	script.WriteString(withoutFrames)
	for _, c := range cases {
		// %O also inspects strings, which console.log prints without quotes.
		fmt.Fprintf(&script, "try { console.log('%%O', (() => (%s))()) } catch (e) { console.log('thrown ' + e) }\n", c.Expr)
	}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			r, got := print(t, mode.cfg, script.String())
			if r.Status != v8.Completed || len(got) != len(cases) {
				t.Fatalf("status %v, %s, %d messages for %d cases", r.Status, textOf(r), len(got), len(cases))
			}
			for n, c := range cases {
				if got[n].Text != c.Want {
					t.Errorf("%s\n got %q\nwant %q", c.Expr, got[n].Text, c.Want)
				}
			}
		})
	}
}

// The console writes the same as Node's. Each message has its level.
func TestConsoleAsNode(t *testing.T) {
	cases := recorded[struct {
		Code string
		Want []message
	}](t, "console.json")
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			for _, c := range cases {
				r, got := print(t, mode.cfg, withoutFrames+"{"+c.Code+"\n}")
				for n := range got {
					if got[n].Level == "trace" {
						got[n].Text, _, _ = strings.Cut(got[n].Text, "\n    at ")
					}
				}
				if r.Status != v8.Completed || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.Want) {
					t.Errorf("%s (%s)\n got %q\nwant %q", c.Code, textOf(r), got, c.Want)
				}
			}
		})
	}
}

// The result of a run follows the rules of the contract.
func TestResultText(t *testing.T) {
	cases := recorded[struct {
		Code string
		Want *string
	}](t, "result.json")
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			for _, c := range cases {
				r, _ := print(t, mode.cfg, withoutFrames+c.Code)
				if r.Status != v8.Completed || textOf(r) != textOf(v8.Result{Text: c.Want}) {
					t.Errorf("%s: status %v\n got %q\nwant %q", c.Code, r.Status, textOf(r), textOf(v8.Result{Text: c.Want}))
				}
			}
		})
	}
}
