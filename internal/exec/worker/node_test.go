package worker_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/exec/worker"
)

// nodeCase is a program with its outcome in Node 24; see .ci/node/typescript.mjs.
type nodeCase struct {
	Kind    string   `json:"kind"`
	Code    string   `json:"code"`
	Refused bool     `json:"refused"`
	Result  *string  `json:"result"`
	Error   string   `json:"error"`
	Stack   []string `json:"stack"`
	Output  []string `json:"output"`
}

var framePosition = regexp.MustCompile(`case\.ts:(\d+:\d+)`)

// otherThanNode has the programs whose outcome in Daybook differs from that in Node, with the
// reasons.
var otherThanNode = map[string]string{
	"@dec class A {}":                              "V8 has no decorators, esbuild has",
	"class A { @dec x = 1 }":                       "V8 has no decorators, esbuild has",
	"class A { accessor x = 1 }":                   "V8 has no accessor fields, esbuild has",
	"using x = y as any":                           "a script cannot have it in Node",
	"await using x = y as any":                     "a script cannot have it in Node",
	"import x = A.B":                               "TypeScript leaves out an alias that nothing uses",
	"export as namespace X":                        "Node refuses what is only of use in declarations",
	"module X { type A = 1}":                       "Node refuses the older keyword",
	"let x = y as any!":                            "Node refuses the mark after a type",
	"declare\nlet x":                               "TypeScript takes no line end after declare, so it is a name",
	"class A { x = 1\n declare z: any\n *g() {} }": "Node joins the members before and behind an erased one",
	"class A { private x = 1; protected y?: string; public readonly z!: number; static readonly #p: number = 2; override foo(): void {} private static async *gen<T>(): any {} }": "Node checks what override is for",
	// Refused, because the grammar does not support them and the value at the end is not certain.
	"let as = 1; as as any":                                                                        "a variable called as",
	"let satisfies = 1; satisfies satisfies any":                                                   "a variable called satisfies",
	"function f(a /* x */ ? /* y */ : /* z */ number) {}":                                          "comments around the mark of an optional parameter",
	"class A { readonly x = 1; readonly = 2; declare = 3; abstract = 4; private = 5; static = 6 }": "fields called like modifiers",
	`export type * from "x"`:                                                                       "a form of export",
	`export type * as y from "x"`:                                                                  "a form of export",
	// The source maps of esbuild have no position for the call of a function expression.
	"enum E { A }; if (1) { (() => { throw new Error('é') })() }": "the call has the place of the brace before it",
	"var y: any = 1; enum EE { A }; y!\n[-1][0]":                  "the place of the brackets is that of the expression in them",
}

// TypeScript has the same value, output and positions as in Node 24.
func TestTypeScriptAsInNode(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../typescript/testdata/node.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []nodeCase
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 1000 {
		t.Fatalf("%d programs, %v", len(cases), err)
	}
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for i, c := range cases {
		// Of the generated combinations, the normal tier runs some.
		if (c.Kind == "generated" || c.Kind == "joined") && i%3 != 0 && !tier.Nightly() {
			continue
		}
		task := patient(c.Code)
		task.Stateful, task.FileName = false, "case.ts"
		var lines []events.Line
		o, err := pool.Run(t.Context(), task, collect(&lines))
		if err != nil {
			t.Fatalf("%s: %v", c.Code, err)
		}
		got := nodeCase{Kind: c.Kind, Code: c.Code, Result: o.Result, Refused: strings.HasPrefix(o.Error, "SyntaxError: ")}
		for _, l := range lines {
			got.Output = append(got.Output, l.Text)
		}
		if !got.Refused && o.Error != "" {
			first, frames, _ := strings.Cut(o.Error, "\n")
			got.Error = first
			for _, at := range framePosition.FindAllStringSubmatch(frames, -1) {
				got.Stack = append(got.Stack, at[1])
			}
		}
		known := otherThanNode[c.Code] != "" || strings.Contains(c.Code, "g<<T") || // the grammar reads << as a shift
			c.Kind == "joined" && c.Refused // Node refuses a sign on the line after the body of an arrow function
		if problem := compare(c, got); (problem != "") != known {
			t.Errorf("%s: %q, known to differ: %t\n%s", c.Kind, c.Code, known, problem)
		}
	}
}

func compare(want, got nodeCase) string {
	show := func(c nodeCase) string {
		b, _ := json.Marshal(struct {
			Refused bool
			Result  *string
			Error   string
			Stack   []string
			Output  []string
		}{c.Refused, c.Result, c.Error, c.Stack, c.Output})
		return string(b)
	}
	same := want.Refused == got.Refused && (want.Result == nil) == (got.Result == nil) && (want.Result == nil || *want.Result == *got.Result) &&
		want.Error == got.Error && slices.Equal(want.Stack, got.Stack) && slices.Equal(want.Output, got.Output)
	if same {
		return ""
	}
	return "got  " + show(got) + "\nwant " + show(want)
}
