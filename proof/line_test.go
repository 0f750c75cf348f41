package proof_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/proof"
)

// samples are messages as a stream may contain them. The first ones have headers that a server
// adds on delivery.
func samples() []proof.Record {
	header := func(more ...string) map[string][]string {
		h := map[string][]string{
			"ce-specversion": {"1.0"}, "ce-id": {"019ab3c4-6a3e-7c51-8f0e-00000000000a"}, "ce-source": {"daybook"}, "ce-type": {"daybook.heap.tagged.v1"},
			"ce-subject": {"a665a459"}, "ce-time": {"2026-11-21T09:30:02.625Z"}, "ce-tenant": {"default"}, "content-type": {"application/json"},
			"Nats-Msg-Id": {"019ab3c4-6a3e-7c51-8f0e-00000000000a"},
		}
		for i := 0; i+1 < len(more); i += 2 {
			h[more[i]] = append(h[more[i]], more[i+1])
		}
		return h
	}
	message := func(seq uint64, h map[string][]string, body string) proof.Record {
		return proof.Record{Seq: seq, Subject: "ledger.0001.default.heap.a6", Header: h, Body: []byte(body)}
	}
	return []proof.Record{
		message(1, header("Nats-Sequence", "1", "Nats-Stream", "LEDGER-0001", "Nats-Time-Stamp", "2026-11-21T09:30:02.7Z"), `{"heap":"a665a459","content":{"plain":{"tags":{"env":"tëst","n":"\u0031"}}}}`),
		message(1042, header("ce-traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Nats-Expected-Last-Subject-Sequence", "17"), `{"a" : [1, 2.50e1] }`),
		message(7, header("x-twice", "b", "x-twice", "a"), "{\"a\":\n1}"),
		message(8, header("x-text", "quote \" back\\slash \u2028 \U0001F600 ,\"data\":{}", "X-Other", "\u00e9\x7f"), "\xff\x00 not text"),
		message(9, map[string][]string{}, ""),
		message(10, header("x-trimmed", " \tboth ends "), `"\ud800"`),
		message(9007199254740993, header(), `null`),
	}
}

type golden struct {
	Subject string              `json:"subject"`
	Seq     uint64              `json:"position"`
	Header  map[string][]string `json:"headers"`
	Body    []byte              `json:"payload_base64"`
	Record  string              `json:"record"`
	Leaf    proof.Hash          `json:"leaf"`
	Line    string              `json:"line"`
}

// TestGoldenLeaves compares records, leaves and lines with those of the first version. They MUST
// NOT change.
func TestGoldenLeaves(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "leaves.json")
	var list []golden
	for _, m := range samples() {
		record, err := proof.AppendRecord(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := proof.LeafHash(m)
		if err != nil {
			t.Fatal(err)
		}
		line, err := proof.AppendLine(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, golden{m.Subject, m.Seq, m.Header, m.Body, string(record), leaf, string(line)})
	}
	got, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	want, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Fatal("the vectors were missing and have been written")
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the vectors changed; got\n%s", got)
	}
}

// A line contains the whole record and is a CloudEvent.
func TestLineKeepsTheRecord(t *testing.T) {
	t.Parallel()
	for _, m := range samples() {
		line, err := proof.AppendLine(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(line, "\r\n") || !json.Valid(line) {
			t.Errorf("%s is not one line of JSON", line)
		}
		again, err := proof.ParseLine(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		want, _ := proof.LeafHash(m)
		if got, err := proof.LeafHash(again); err != nil || got != want || !bytes.Equal(again.Body, m.Body) {
			t.Errorf("the parsed line %s has another leaf, error %v", line, err)
		}
		var ce map[string]any
		if err := json.Unmarshal(line, &ce); err != nil {
			t.Fatal(err)
		}
		if id := m.Header["ce-id"]; id != nil && (ce["id"] != id[0] || ce["specversion"] != "1.0") {
			t.Errorf("%s is no CloudEvent", line)
		}
	}
}

func TestLinesThatAreRefused(t *testing.T) {
	t.Parallel()
	good, err := proof.AppendLine(nil, samples()[0])
	if err != nil {
		t.Fatal(err)
	}
	replace := func(from, to string) string {
		if !bytes.Contains(good, []byte(from)) {
			t.Fatalf("%q is not in the line", from)
		}
		return string(bytes.Replace(good, []byte(from), []byte(to), 1))
	}
	for name, line := range map[string]string{
		"empty":                     "",
		"no object":                 "[]",
		"no data":                   `{"sequence":"1"}`,
		"a blank":                   replace(`,"id":`, `, "id":`),
		"another way to write it":   replace(`"id":"0`, `"id":"\u0030`),
		"an attribute changed":      replace(`"type":"daybook.heap`, `"type":"daybook.neap`),
		"an additional attribute":   replace(`{"specversion"`, `{"extra":"1","specversion"`),
		"an attribute twice":        replace(`{"specversion":"1.0"`, `{"specversion":"1.0","specversion":"1.0"`),
		"position 0":                replace(`"sequence":"1"`, `"sequence":"0"`),
		"a position with a sign":    replace(`"sequence":"1"`, `"sequence":"+1"`),
		"headers out of order":      replace(`Nats-Msg-Id: 019ab3c4-6a3e-7c51-8f0e-00000000000a\nce-id: 019ab3c4-6a3e-7c51-8f0e-00000000000a\n`, `ce-id: 019ab3c4-6a3e-7c51-8f0e-00000000000a\nNats-Msg-Id: 019ab3c4-6a3e-7c51-8f0e-00000000000a\n`),
		"a header of a delivery":    replace(`"natsheaders":"`, `"natsheaders":"Nats-Sequence: 1\n`),
		"a header without a value":  replace(`"natsheaders":"`, `"natsheaders":"x\n`),
		"data that is no JSON":      replace(`"data":{`, `"data":{{`),
		"something after the data":  string(good[:len(good)-1]) + `,"x":1}`,
		"base64 with a blank in it": replace(`"data":{`, `"data_base64":"AA ==","data":{`),
	} {
		if m, err := proof.ParseLine([]byte(line)); err == nil {
			t.Errorf("%s: %s is parsed as %+v", name, line, m)
		}
	}
}

// Messages that no client could have stored have no record.
func TestMessagesWithoutARecord(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]proof.Record{
		"no subject":           {},
		"a blank in a subject": {Subject: "a b"},
		"a colon in a name":    {Subject: "a", Header: map[string][]string{"x:": {"1"}}},
		"no name":              {Subject: "a", Header: map[string][]string{"": {"1"}}},
		"a line end":           {Subject: "a", Header: map[string][]string{"x": {"1\n2"}}},
		"no text":              {Subject: "a", Header: map[string][]string{"x": {"\xff"}}},
		"too long":             {Subject: "a", Header: map[string][]string{"x": {string(bytes.Repeat([]byte("x"), 1<<16))}}},
	} {
		m.Seq = 1
		if h, err := proof.LeafHash(m); err == nil {
			t.Errorf("%s: the leaf is %s", name, h)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	for _, m := range samples() {
		line, err := proof.AppendLine(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := proof.ParseLine(line)
		if err != nil {
			return
		}
		again, err := proof.AppendLine(nil, m)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", line, err)
		}
		if n, err := proof.ParseLine(again); err != nil || n.Seq != m.Seq || !bytes.Equal(n.Body, m.Body) {
			t.Errorf("%q is read, written and read as something else: %v", line, err)
		}
	})
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add([]byte("daybook/x\n12\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u2014 daybook/x AAAAAAAA\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := proof.ParseCheckpoint(raw)
		if err == nil && (c.Origin == "" || bytes.Count(raw, []byte("\n")) < 3) {
			t.Errorf("%q is parsed as %+v", raw, c)
		}
		if _, err := proof.OpenCheckpoint(raw); err == nil {
			t.Errorf("%q is accepted without a key", raw)
		}
	})
}

// The example of docs/integrity.md is a golden vector.
func TestIntegrityDocument(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "docs", "integrity.md"))
	if err != nil {
		t.Fatal(err)
	}
	record, err := proof.AppendRecord(nil, samples()[0])
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := proof.LeafHash(samples()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"```text record\n" + string(record) + "```\n", leaf.String(), string(samples()[0].Body)} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("docs/integrity.md does not say\n%s", want)
		}
	}
}
