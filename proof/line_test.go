package proof_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"daybook/proof"
)

// samples are messages as a stream may contain them. The first ones have headers that a server
// adds on delivery. The last ones have records of version 2.
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
	second := func(more ...string) map[string][]string {
		return header(append(more, "ce-recordversion", "2")...)
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
		// The same event as the first.
		message(1, second("Nats-Sequence", "1", "Nats-Stream", "LEDGER-0001", "Nats-Time-Stamp", "2026-11-21T09:30:02.7Z", "Nats-Expected-Last-Subject-Sequence", "0"), `{"heap":"a665a459","content":{"plain":{"tags":{"env":"tëst","n":"\u0031"}}}}`),
		message(1043, second("ce-traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x-other", "left out", "cd-type", "left out", "content-type-x", "left out"), "{\"a\":\n1}"),
		message(10, second("ce-text", "quote \" back\\slash \u2028 \U0001F600 ,\"data\":{}", "ce-0", "", "ce-empty", ""), "\xff\x00 not text"),
		message(12, map[string][]string{"ce-recordversion": {"2"}}, ""),
	}
}

// sampleV2 is the index of the first sample with a record of version 2.
const sampleV2 = 7

type golden struct {
	Subject string              `json:"subject"`
	Seq     uint64              `json:"position"`
	Header  map[string][]string `json:"headers"`
	Body    []byte              `json:"payload_base64"`
	Record  string              `json:"record"`
	Leaf    proof.Hash          `json:"leaf"`
	Line    string              `json:"line"`
}

// TestGoldenLeaves compares records, leaves and lines with those of the first build that wrote them.
// They MUST NOT change.
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
		"version 1 as version 2":    replace(`ce-source: daybook\n`, `ce-recordversion: 2\nce-source: daybook\n`),
	} {
		if m, err := proof.ParseLine([]byte(line)); err == nil {
			t.Errorf("%s: %s is parsed as %+v", name, line, m)
		}
	}
}

// A line of version 2 has the covered headers and no others, each once.
func TestLinesOfVersion2ThatAreRefused(t *testing.T) {
	t.Parallel()
	line, err := proof.AppendLine(nil, samples()[sampleV2])
	if err != nil {
		t.Fatal(err)
	}
	good := string(line)
	if !strings.Contains(good, `,"recordversion":"2",`) || strings.Contains(good, "Nats-") {
		t.Fatalf("the line %s", good)
	}
	for name, edit := range map[string][2]string{
		"a later version":             {`ce-recordversion: 2\n`, `ce-recordversion: 3\n`},
		"a version with a space":      {`ce-recordversion: 2\n`, `ce-recordversion: 2 \n`},
		"two versions":                {`ce-recordversion: 2\n`, `ce-recordversion: 2\nce-recordversion: 2\n`},
		"no version":                  {`ce-recordversion: 2\n`, ``},
		"no attribute of the version": {`,"recordversion":"2"`, ``},
		"another attribute":           {`,"recordversion":"2"`, `,"recordversion":"3"`},
		"a header of the transport":   {`"natsheaders":"`, `"natsheaders":"Nats-Msg-Id: x\n`},
		"another header":              {`application/json\n"`, `application/json\nx-other: x\n"`},
		"a similar name":              {`"natsheaders":"`, `"natsheaders":"Ce-Type: x\n`},
		"an attribute twice":          {`ce-id: `, `ce-id: x\nce-id: `},
		"headers out of order":        {`ce-source: daybook\nce-specversion: 1.0\n`, `ce-specversion: 1.0\nce-source: daybook\n`},
		"a space after an attribute":  {`ce-source: daybook\n`, `ce-source: daybook \n`},
	} {
		if n := strings.Count(good, edit[0]); n != 1 {
			t.Fatalf("%s: %q is %d times in the line", name, edit[0], n)
		}
		if m, err := proof.ParseLine([]byte(strings.Replace(good, edit[0], edit[1], 1))); err == nil {
			t.Errorf("%s: the line is parsed as %+v", name, m)
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

// A header that a record of version 2 covers cannot be added, removed, repeated, moved, spelled or
// spaced otherwise without another leaf or an error. All other headers can.
func TestCoveredHeaders(t *testing.T) {
	t.Parallel()
	m := samples()[sampleV2+1]
	want, err := proof.LeafHash(m)
	if err != nil {
		t.Fatal(err)
	}
	edited := func(edit func(h map[string][]string)) (proof.Hash, error) {
		c := m
		c.Header = maps.Clone(m.Header)
		edit(c.Header)
		return proof.LeafHash(c)
	}
	covered := 0
	for name, v := range m.Header {
		other := strings.HasPrefix(name, "Nats-") || name == "x-other" || name == "cd-type" || name == "content-type-x"
		if !other {
			covered++
		}
		for what, edit := range map[string]func(h map[string][]string){
			"removed":          func(h map[string][]string) { delete(h, name) },
			"changed":          func(h map[string][]string) { h[name] = []string{"x" + v[0]} },
			"empty":            func(h map[string][]string) { h[name] = []string{""} },
			"without a value":  func(h map[string][]string) { h[name] = nil },
			"twice":            func(h map[string][]string) { h[name] = []string{v[0], v[0]} },
			"spaced":           func(h map[string][]string) { h[name] = []string{v[0] + "\t"} },
			"in capitals":      func(h map[string][]string) { delete(h, name); h[strings.ToUpper(name)] = v },
			"also in capitals": func(h map[string][]string) { h[strings.ToUpper(name)] = v },
			"named otherwise":  func(h map[string][]string) { delete(h, name); h["x"+name] = v },
		} {
			if got, err := edited(edit); (err == nil && got == want) != other {
				t.Errorf("%s is %s: same leaf %t, error %v", name, what, got == want, err)
			}
		}
	}
	if covered != 10 {
		t.Errorf("%d headers are covered", covered)
	}
	for _, name := range []string{"ce-added", "Ce-Id", "CE-ID", "ce-Id", "ce-", "Content-Type", "CONTENT-TYPE", " ce-id", "ce-id\t", "\x00ce-id", "\rce-id\x7f", "ce-i d", "ce-id:", "ce-\u00efd"} {
		if got, err := edited(func(h map[string][]string) { h[name] = []string{"x"} }); err == nil && got == want {
			t.Errorf("%q is added without another leaf", name)
		}
	}
	if got, err := edited(func(h map[string][]string) { h["x-other"] = []string{"\xff", ""} }); err != nil || got != want {
		t.Errorf("a header that is not covered and no text: the leaf is %s, error %v", got, err)
	}
	if got, err := edited(func(h map[string][]string) { h["x-other"] = []string{"x\r\nce-type: other"} }); err == nil {
		t.Errorf("a line end in a header that is not covered: the leaf is %s", got)
	}
	for version, say := range map[string]string{"3": "newer verifier", "1": "newer verifier", "": "newer verifier", " 2": "newer verifier", "2,2": "newer verifier"} {
		if _, err := edited(func(h map[string][]string) { h["ce-recordversion"] = []string{version} }); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if _, err := edited(func(h map[string][]string) { h["ce-recordversion"] = []string{"2", "2"} }); err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("two versions: %v", err)
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
		// The data of a line is in base64 or not. All else has one form.
		if form := bytes.Replace(line, []byte(`,"data_base64":"`+base64.StdEncoding.EncodeToString(m.Body)+`"`), []byte(`,"data":`+string(m.Body)), 1); !bytes.Equal(again, line) && !bytes.Equal(again, form) {
			t.Errorf("%q is read, and written as %q", line, again)
		}
		if n, err := proof.ParseLine(again); err != nil || n.Seq != m.Seq || !bytes.Equal(n.Body, m.Body) {
			t.Errorf("%q is read, written and read as something else: %v", line, err)
		}
		checkRecord(t, m)
		// A verifier may compute the record from the members, as verify.py does.
		var members struct{ RecordVersion, NATSSubject, NATSHeaders, Sequence string }
		if err := json.NewDecoder(bytes.NewReader(line)).Decode(&members); err != nil {
			return // the data is JSON only to an encoder that accepts halves of surrogate pairs
		}
		version := cmp.Or(members.RecordVersion, "1")
		record := fmt.Sprintf("daybook-event-v%s\n%s\n%s\n%s\n%x\n", version, members.Sequence, members.NATSSubject, members.NATSHeaders, sha256.Sum256(m.Body))
		if got, err := proof.AppendRecord(nil, m); err == nil && string(got) != record {
			t.Errorf("%q has the record\n%q, and its members make\n%q", line, got, record)
		}
	})
}

// checkRecord compares the record of a message with what a second reading of the specification
// makes of the message.
func checkRecord(t *testing.T, m proof.Record) {
	t.Helper()
	record, err := proof.AppendRecord(nil, m)
	if err != nil {
		return
	}
	first, rest, _ := strings.Cut(string(record), "\n")
	lead := fmt.Sprintf("%d\n%s\n", m.Seq, m.Subject)
	end := fmt.Sprintf("\n%x\n", sha256.Sum256(m.Body))
	if !strings.HasPrefix(rest, lead) || !strings.HasSuffix(rest, "\n"+end) && rest != lead+end {
		t.Fatalf("the record of %+v is %q", m, record)
	}
	lines := strings.Split(strings.TrimSuffix(rest[len(lead):len(rest)-len(end)], "\n"), "\n")
	if lines[0] == "" {
		lines = nil
	}
	var want []string
	version, second := m.Header["ce-recordversion"]
	if second != (first == "daybook-event-v2") || second && (len(version) != 1 || version[0] != "2") || !second && first != "daybook-event-v1" {
		t.Fatalf("the record of %v begins with %q", m.Header, first)
	}
	delivery := []string{"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Last-Sequence", "Nats-Num-Pending", "Nats-UpTo-Sequence", "Nats-Msg-Size", "Nats-Stream-Source"}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		values := m.Header[name]
		lower := strings.Trim(strings.ToLower(name), " \t")
		attribute := strings.HasPrefix(lower, "ce-") || lower == "content-type"
		if second && attribute && (name != lower || len(values) != 1 || values[0] != strings.Trim(values[0], " \t")) {
			t.Errorf("%q: %q has a record of version 2", name, values)
		}
		if second && !attribute || !second && slices.Contains(delivery, name) {
			continue
		}
		for _, v := range values {
			want = append(want, name+": "+strings.Trim(v, " \t"))
		}
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the record of %+v has the headers\n%q, want\n%q", m.Header, lines, want)
	}
}

// FuzzRecord makes records of messages with arbitrary headers. A record is what the specification
// says, and says which message it was made of.
func FuzzRecord(f *testing.F) {
	for _, m := range samples() {
		var header strings.Builder
		for name, values := range m.Header {
			for _, v := range values {
				fmt.Fprintf(&header, "%s:%s\n", name, v)
			}
		}
		f.Add(m.Seq, m.Subject, header.String(), m.Body, "Nats-Msg-Id", "x")
		f.Add(m.Seq, m.Subject, header.String(), m.Body, "Ce-Id", "x")
	}
	f.Fuzz(func(t *testing.T, seq uint64, subject, header string, body []byte, added, value string) {
		m := proof.Record{Seq: seq, Subject: subject, Header: map[string][]string{}, Body: body}
		for line := range strings.SplitSeq(header, "\n") {
			if name, v, ok := strings.Cut(line, ":"); ok {
				m.Header[name] = append(m.Header[name], v)
			}
		}
		checkRecord(t, m)
		before, err := proof.AppendRecord(nil, m)
		if err != nil {
			return
		}
		if line, err := proof.AppendLine(nil, m); err != nil {
			t.Errorf("%+v has a record, but no line: %v", m, err)
		} else if parsed, err := proof.ParseLine(line); err != nil && seq-1 < 1<<63-1 {
			t.Errorf("the line %s is not parsed: %v", line, err)
		} else if again, err2 := proof.AppendRecord(nil, parsed); err == nil && (err2 != nil || !bytes.Equal(again, before)) {
			t.Errorf("the line %s has another record than its message: %v", line, err2)
		}
		// A further header changes the record, or it is one that the record does not cover.
		m.Header = maps.Clone(m.Header)
		m.Header[added] = append(slices.Clone(m.Header[added]), value)
		checkRecord(t, m)
		after, err := proof.AppendRecord(nil, m)
		lower := strings.ToLower(strings.TrimSpace(added))
		if err == nil && bytes.Equal(before, after) && (strings.HasPrefix(lower, "ce-") || lower == "content-type") {
			t.Errorf("%q: %q was added without another record", added, value)
		}
	})
}

// The example of docs/reference/proof-formats.md is a golden vector, and so is the same event in version 1.
func TestIntegrityDocument(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "docs", "reference", "proof-formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := proof.LeafHash(samples()[0])
	if err != nil {
		t.Fatal(err)
	}
	m := samples()[sampleV2]
	record, err := proof.AppendRecord(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := proof.LeafHash(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"```text record\n" + string(record) + "```\n", leaf.String(), first.String(), string(m.Body)} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("docs/reference/proof-formats.md does not say\n%s", want)
		}
	}
}
