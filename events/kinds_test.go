package events_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"daybook/events"
)

// Every constant has a row in the table. An event of a type without a row could be
// recorded but not decoded.
func TestEveryTypeHasARow(t *testing.T) {
	t.Parallel()
	rows := map[events.Type]int{}
	for _, typ := range events.Types() {
		rows[typ]++
	}
	constants := typeConstants(t)
	for name, typ := range constants {
		if rows[typ] != 1 {
			t.Errorf("%s has %d rows", name, rows[typ])
		}
		if _, err := os.Stat(fixturePath(typ)); err != nil {
			t.Errorf("%s has no fixture: %v", name, err)
		}
	}
	if len(rows) != len(constants) {
		t.Errorf("%d rows for %d constants", len(rows), len(constants))
	}
}

// typeConstants reads the constants of type Type from the source.
func typeConstants(t *testing.T) map[string]events.Type {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "type.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]events.Type{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Type" {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || !strings.HasPrefix(value, "daybook.") {
			t.Errorf("%s is %q, %v", spec.Names[0].Name, value, err)
		}
		list[spec.Names[0].Name] = events.Type(value)
		return true
	})
	if len(list) == 0 {
		t.Fatal("the source has no constants of type Type")
	}
	return list
}

// What an event concerns follows from its type, and unknown types concern nothing.
func TestConcerns(t *testing.T) {
	t.Parallel()
	for _, d := range examples() {
		typ := events.TypeOf(d)
		about := events.New(events.DefaultTenant, began, d).About()
		for name, tt := range map[string]struct {
			claims bool
			id     string
		}{"an execution": {typ.OfExecution(), execution}, "a session": {typ.OfSession(), logical}, "a webhook": {typ.Webhook(), webhook}} {
			if typ == events.TypeSessionReset && name == "a session" {
				tt.id = session // that of a named session
			}
			if tt.claims && about != tt.id {
				t.Errorf("%s concerns %s, and is about %s", typ, name, about)
			}
		}
		if strings.HasPrefix(string(typ), "daybook.execution.") != typ.OfExecution() && !strings.HasPrefix(string(typ), "daybook.host.") {
			t.Errorf("%s of an execution: %t", typ, typ.OfExecution())
		}
		if strings.HasPrefix(string(typ), "daybook.webhook.") != typ.Webhook() {
			t.Errorf("%s about webhooks: %t", typ, typ.Webhook())
		}
	}
	if typ := events.Type("daybook.execution.paused.v1"); typ.OfExecution() || typ.OfSession() || typ.Webhook() {
		t.Errorf("%s is known", typ)
	}
}
