package verifypython_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"daybook/events"
	"daybook/internal/dev/verdicts"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// Both verifiers refuse payloads that readers could understand differently, although the key signed them: some
// readers use the first of two members with one name, others the last, and some take a name in other letters for the
// same. They accept what clients choose, and members and events that they do not know.
func TestAmbiguousPayloads(t *testing.T) {
	verdicts.PathOfPython(t)
	l := newSignedLedger(t)
	of := func(typ events.Type) int {
		i := slices.IndexFunc(l.list, func(r proof.Record) bool { return eventproof.HasType(eventproof.StoredOf(r), typ) })
		if i < 0 {
			t.Fatalf("there is no %s", typ)
		}
		return i
	}
	original := slices.Clone(l.list)
	python := verdicts.StartPython(t, "--key", l.opts.Keys[0])
	expect := func(what, want string, after uint64) {
		t.Helper()
		l.resign(t, after)
		dir := l.write(t)
		got, line, err := python.Verdict(dir)
		if other := verdict(t, dir, l.opts); err != nil || got != want || other != want {
			t.Errorf("%s: package audit says %s, verify.py %s (%s, %v), want %s", what, other, got, line, err, want)
		}
	}
	for _, typ := range []events.Type{events.TypeExecutionRequested, events.TypeLedgerCheckpointed, events.TypeLedgerSignersChanged} {
		i := of(typ)
		for _, tt := range []struct{ member, want string }{
			{`"added":1`, "INTACT"},
			{`"added":{"b":1},"other":[{"b":1},{"b":2}]`, "INTACT"},
			{`"tags":{"A":"1","a":"2","b":"3","b":"4","B":{"C":1}}`, "INTACT"},
			{`"a\u0064ded":1`, "INTACT"},
			{`"Note":"x"`, "NOT INTACT"},
			{`"Size":7`, "NOT INTACT"},
			{`"ADDED":1`, "NOT INTACT"},
			{`"added":1,"added":1`, "NOT INTACT"},
			{`"added":1,"a\u0064ded":1`, "NOT INTACT"},
			{`"added":{"b":1,"b":1}`, "NOT INTACT"},
			{`"added":[[{"b":{"C":1}}]]`, "NOT INTACT"},
			{`"\u017fize":7`, "NOT INTACT"},
			{`"tags":{},"tags":{}`, "NOT INTACT"},
			{`"":1`, "NOT INTACT"},
			{`"ledger_id":"l","execution_id":"l"`, "NOT INTACT"}, // one of them is there already
		} {
			l.list = slices.Clone(original)
			r := &l.list[i]
			r.Body = slices.Concat(bytes.TrimSuffix(r.Body, []byte("}")), []byte(","+tt.member+"}"))
			expect(string(typ)+" with "+tt.member, tt.want, r.Seq)
		}
	}
	for body, want := range map[string]string{`{"A":1,"A":2}`: "INTACT", `7`: "INTACT", "\xff": "INTACT"} {
		l.list = slices.Clone(original)
		r := &l.list[of(events.TypeExecutionRequested)]
		r.Header, r.Body = maps.Clone(r.Header), []byte(body)
		r.Header["ce-type"] = []string{"example.of.others"}
		expect("another type with "+body, want, r.Seq)
		r.Header["ce-type"] = []string{"daybook.of.later.v1"}
		if want = "NOT INTACT"; body == "7" {
			want = "INTACT"
		}
		expect("a later type with "+body, want, r.Seq)
	}
}
