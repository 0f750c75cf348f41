package globals_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"daybook/internal/globals"
)

var hash = strings.Repeat("ab", 32)

func global(name, kind, digest string) globals.Global {
	g := globals.Global{Name: name, Kind: kind, Type: "number", Preview: digest, SHA256: strings.Repeat(digest, 64)}
	if kind == globals.Accessor {
		g.Type = ""
	}
	return g
}

// A list that a worker cannot write is refused.
func TestDecode(t *testing.T) {
	valid := fmt.Sprintf(`{"name":"a","kind":"lexical","type":"object","class":"Map","size":3,"preview":"Map(3) {}","sha256":%q,"partial":true}`, hash)
	l, err := globals.Decode([]byte(`{"globals":[` + valid + `],"more":2}`))
	if err != nil || len(l.Globals) != 1 || l.More != 2 || *l.Globals[0].Size != 3 || !l.Globals[0].Partial {
		t.Fatalf("%+v, %v", l, err)
	}
	if l, err := globals.Decode([]byte(`{"globals":[]}`)); err != nil || l.Globals == nil || len(l.Globals) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	with := func(from, to string) string {
		if !strings.Contains(valid, from) {
			t.Fatalf("%s is not in the list", from)
		}
		return `{"globals":[` + strings.Replace(valid, from, to, 1) + `]}`
	}
	for _, text := range []string{
		"", "null x", "[]", `{"globals":[` + valid + `]} {}`, `{"globals":[` + valid + `],"unknown":1}`, with(`"size":3`, `"sizes":3`),
		with(`"size":3`, `"size":-1`), with(`"size":3`, `"size":1e300`), with(`"size":3`, `"size":1.5`), with(`"size":3`, `"size":9223372036854775807`),
		with(`lexical`, `let`), with(`lexical`, `accessor`), with(`"type":"object",`, ``), with(`"type":"object"`, `"type":"thing"`),
		with(hash, hash[2:]), with(hash, strings.ToUpper(hash)), with(hash, strings.Repeat("x", 64)), with(`"a"`, `"`+strings.Repeat("a", 1101)+`"`),
		with("Map(3) {}", strings.Repeat("x", 1025)), with(`"Map"`, `"`+strings.Repeat("x", 129)+`"`), with(`true`, `"yes"`),
		`{"globals":[` + strings.Replace(valid, `"a"`, `"b"`, 1) + "," + valid + `]}`, `{"globals":[],"more":1}`, `{"globals":[` + valid + `],"more":-1}`,
		`{"globals":[` + strings.Repeat(valid+",", 1000) + valid + `]}`, strings.Repeat(" ", globals.MaxText+1),
	} {
		if l, err := globals.Decode([]byte(text)); err == nil {
			t.Errorf("%.200s is accepted: %+v", text, l)
		}
	}
	if l, err := globals.Decode([]byte(with("Map(3) {}", `\ud800`))); err != nil || l.Globals[0].Preview != "\ufffd" {
		t.Errorf("a lone surrogate: %+v, %v", l, err)
	}
}

func TestCompare(t *testing.T) {
	g := global
	sized := func(n int64) globals.Global { x := g("s", "property", "1"); x.Size = &n; return x }
	partial := g("p", "lexical", "1")
	partial.Partial = true
	for _, test := range []struct {
		name string
		a, b globals.List
		want string
	}{
		{"empty", globals.List{}, globals.List{}, " 0 0"},
		{"equal", globals.List{Globals: []globals.Global{g("a", "lexical", "1"), partial}}, globals.List{Globals: []globals.Global{g("a", "lexical", "1"), partial}}, " 0 1"},
		{"added, removed, changed", globals.List{Globals: []globals.Global{g("a", "lexical", "1"), g("b", "lexical", "1"), g("d", "property", "1")}}, globals.List{Globals: []globals.Global{g("b", "lexical", "2"), g("c", "lexical", "1"), g("d", "property", "1")}}, "-a ~b +c 0 0"},
		{"another kind", globals.List{Globals: []globals.Global{g("a", "property", "1")}}, globals.List{Globals: []globals.Global{g("a", "lexical", "1")}}, "-a +a 0 0"},
		{"an accessor instead", globals.List{Globals: []globals.Global{g("a", "property", "1")}}, globals.List{Globals: []globals.Global{g("a", "accessor", "1")}}, "~a 0 0"},
		{"hidden by a declaration", globals.List{Globals: []globals.Global{g("a", "property", "1")}}, globals.List{Globals: []globals.Global{g("a", "property", "1"), g("a", "lexical", "1")}}, "+a 0 0"},
		{"size", globals.List{Globals: []globals.Global{sized(1)}}, globals.List{Globals: []globals.Global{sized(2)}}, "~s 0 0"},
		{"no size", globals.List{Globals: []globals.Global{sized(1)}}, globals.List{Globals: []globals.Global{g("s", "property", "1")}}, "~s 0 0"},
		{"cut", globals.List{Globals: []globals.Global{g("a", "lexical", "1"), g("c", "lexical", "1")}, More: 1}, globals.List{Globals: []globals.Global{g("a", "lexical", "1"), g("b", "lexical", "1"), g("c", "lexical", "1"), g("d", "lexical", "1")}}, "+b 4 0"},
		{"nothing listed", globals.List{More: 1}, globals.List{Globals: []globals.Global{g("a", "lexical", "1")}}, " 2 0"},
		{"both cut", globals.List{Globals: []globals.Global{g("a", "lexical", "1"), g("c", "lexical", "1")}, More: 1}, globals.List{Globals: []globals.Global{g("a", "lexical", "2"), g("b", "lexical", "1")}, More: 3}, "~a 6 0"},
	} {
		d := globals.Compare(test.a, test.b)
		got := ""
		for _, c := range d.Changes {
			switch {
			case c.B == nil:
				got += "-"
			case c.A == nil:
				got += "+"
			default:
				got += "~"
			}
			got += c.Name() + " "
		}
		if got = strings.TrimSuffix(got, " ") + fmt.Sprintf(" %d %d", d.Uncompared, d.Partial); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// FuzzDecode checks that an accepted list can be written and read again.
func FuzzDecode(f *testing.F) {
	f.Add(`{"globals":[{"name":"a","kind":"lexical","type":"number","preview":"1","sha256":"` + hash + `"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := globals.Decode([]byte(text))
		if err != nil {
			return
		}
		globals.Compare(l, globals.List{})
		again, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := globals.Decode(again); err != nil {
			t.Fatal(err)
		}
	})
}

// A text of many empty globals takes little memory to refuse.
func TestDecodeIsBounded(t *testing.T) {
	text := []byte(`{"globals":[` + strings.Repeat("{},", (globals.MaxText-20)/3) + `{}]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := globals.Decode(text)
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Error("no error")
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 8*globals.MaxText {
		t.Errorf("%d MiB for a text of %d MiB", taken>>20, len(text)>>20)
	}
}
