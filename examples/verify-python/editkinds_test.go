package verifypython_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"daybook/internal/dev/verdicts"
	"daybook/proof"
)

// editor edits a copy of an export in memory.
type editor struct {
	*original
	rng *rand.Rand
	// signer is the genuine key, if the test has it.
	signer note.Signer
	forger verdicts.Forger

	// files are the edited files. kind and what describe the edit.
	files      map[string][]byte
	kind, what string
	// expected is the verdict if a reader sees the edit.
	expected string
}

// edit makes one edit of a random kind.
func (e *editor) edit() error {
	for range 1000 {
		e.files, e.expected = maps.Clone(e.original.files), "NOT INTACT"
		var ok bool
		switch e.rng.IntN(10) {
		case 0:
			ok = e.editFiles()
		case 1:
			ok = e.editRecord()
		case 2:
			ok = e.editTrue()
		case 3:
			ok = e.forge()
		default:
			ok = e.editBytes()
		}
		if ok && !maps.EqualFunc(e.files, e.original.files, bytes.Equal) {
			return nil
		}
	}
	return errors.New("no edit applies")
}

// named sets the description of an edit.
func (e *editor) named(kind, format string, args ...any) bool {
	e.kind, e.what = kind, kind+": "+fmt.Sprintf(format, args...)
	return true
}

// editBytes changes the bytes or lines of one file. Half of the edits update the manifest.
func (e *editor) editBytes() bool {
	refit := e.rng.IntN(2) == 0
	name := e.file(refit)
	changed, kind := e.change(name, e.files[name])
	if kind == "" {
		return false
	}
	e.files[name] = changed
	if refit {
		kind += ", and the manifest to fit"
		e.refit(name)
	}
	return e.named(kind, "%s", name)
}

// file picks a file. It picks small files as often as large ones.
func (e *editor) file(refit bool) string {
	names := []string{"events.ndjson", "events.ndjson", "checkpoint"}
	if e.part {
		names = append(names, "proofs.ndjson", "proofs.ndjson")
	}
	if !refit {
		names = append(names, "manifest.json")
	}
	names = append(names, e.blob())
	return names[e.rng.IntN(len(names))]
}

// blob picks a blob.
func (e *editor) blob() string {
	var blobs []string
	for name := range e.files {
		if strings.HasPrefix(name, "blobs/") {
			blobs = append(blobs, name)
		}
	}
	slices.Sort(blobs)
	return blobs[e.rng.IntN(len(blobs))]
}

var value = regexp.MustCompile(`"[a-z_]+":("[^"\\]+"|[0-9]+|true|false)`)

// change makes one kind of change to a file. It returns no kind if that does not apply.
func (e *editor) change(name string, old []byte) (changed []byte, kind string) {
	at := e.rng.IntN(len(old))
	changed = bytes.Clone(old)
	lines := bytes.SplitAfter(changed, []byte("\n"))
	lines = lines[:max(1, len(lines)-1)]
	i, j := e.rng.IntN(len(lines)), e.rng.IntN(len(lines))
	ndjson := strings.HasSuffix(name, ".ndjson")
	switch k := e.rng.IntN(10); {
	case k <= 1:
		changed[at] ^= 1 << e.rng.IntN(8)
		return changed, "a bit"
	case k == 2:
		return changed[:at], "a file is cut"
	case k == 3:
		return slices.Insert(changed, at, " \n0a\x00"[e.rng.IntN(5)]), "a byte more"
	case k == 4:
		return slices.Delete(changed, at, at+1), "a byte less"
	case k == 5 && ndjson:
		return bytes.Join(slices.Delete(lines, i, i+1), nil), "a line is missing"
	case k == 6 && ndjson:
		return bytes.Join(slices.Insert(slices.Clone(lines), j, lines[i]), nil), "a line is there twice"
	case k == 7 && ndjson:
		lines[i], lines[j] = lines[j], lines[i]
		return bytes.Join(lines, nil), "two lines are swapped"
	case k >= 8:
		return e.changeMember(changed), "another value of a member"
	}
	return nil, ""
}

// changeMember changes the value of one member of the JSON in a file, if it has any.
func (e *editor) changeMember(raw []byte) []byte {
	found := value.FindAllSubmatchIndex(raw, -1)
	if len(found) == 0 {
		return raw
	}
	m := found[e.rng.IntN(len(found))]
	from, to := m[2], m[3]
	text := string(raw[from:to])
	switch {
	case text == "true":
		text = "false"
	case text == "false":
		text = "true"
	case text[0] == '"':
		raw[from+1+e.rng.IntN(to-from-2)] = "abcdef0123456789"[e.rng.IntN(16)]
		return raw
	default:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return raw
		}
		text = strconv.FormatUint(n+1+uint64(e.rng.IntN(9)), 10)
	}
	return append(append(bytes.Clone(raw[:from]), text...), raw[to:]...)
}

// refit updates the entry of a file in the manifest, and the number of events.
func (e *editor) refit(name string) {
	raw := e.files[name]
	sum := sha256.Sum256(raw)
	entry := regexp.MustCompile(`\{"name":"` + regexp.QuoteMeta(name) + `","bytes":\d+,"sha256":"[0-9a-f]+"\}`)
	manifest := entry.ReplaceAll(e.files["manifest.json"],
		fmt.Appendf(nil, `{"name":"%s","bytes":%d,"sha256":"%s"}`, name, len(raw), hex.EncodeToString(sum[:])))
	if name == "events.ndjson" {
		count := bytes.Count(raw, []byte("\n"))
		manifest = regexp.MustCompile(`"events":\d+`).ReplaceAll(manifest, fmt.Appendf(nil, `"events":%d`, count))
	}
	e.files["manifest.json"] = manifest
}

// editFiles removes, adds, exchanges or renames a file.
func (e *editor) editFiles() bool {
	names := slices.Sorted(maps.Keys(e.files))
	name, other := names[e.rng.IntN(len(names))], names[e.rng.IntN(len(names))]
	switch e.rng.IntN(4) {
	case 0:
		delete(e.files, name)
		return e.named("a file is missing", "%s", name)
	case 1:
		added := []string{"more", "blobs/more", "more/more", ".hidden", "proofs.ndjson", "blobs/text-" + strings.Repeat("0", 64)}[e.rng.IntN(6)]
		if e.files[added] != nil {
			return false
		}
		e.files[added] = []byte("more\n")
		return e.named("a file more", "%s", added)
	case 2:
		e.files[name], e.files[other] = e.files[other], e.files[name]
		return e.named("two files are swapped", "%s and %s", name, other)
	default:
		name = e.blob()
		renamed := "blobs/text-" + strings.Repeat("0", 64)
		e.files[renamed] = e.files[name]
		delete(e.files, name)
		e.files["manifest.json"] = bytes.ReplaceAll(e.files["manifest.json"], []byte(name), []byte(renamed))
		return e.named("a blob is renamed, and the manifest to fit", "%s", name)
	}
}

// lineOf picks a line of the events and parses it.
func (e *editor) lineOf() (lines [][]byte, i int, r proof.Record, err error) {
	lines = bytes.SplitAfter(bytes.Clone(e.files["events.ndjson"]), []byte("\n"))
	lines = lines[:len(lines)-1]
	i = e.rng.IntN(len(lines))
	r, err = proof.ParseLine(bytes.TrimSuffix(lines[i], []byte("\n")))
	return lines, i, r, err
}

// setLine writes a record in the one valid form of a line.
func (e *editor) setLine(lines [][]byte, i int, r proof.Record) bool {
	line, err := proof.AppendLine(nil, r)
	if err != nil {
		return false
	}
	lines[i] = append(line, '\n')
	e.files["events.ndjson"] = bytes.Join(lines, nil)
	e.refit("events.ndjson")
	return true
}

// editRecord changes an event and writes it in its valid form, so that only the tree contradicts it.
func (e *editor) editRecord() bool {
	lines, i, r, err := e.lineOf()
	if err != nil {
		return false
	}
	switch e.rng.IntN(4) {
	case 0:
		body := bytes.Clone(r.Body)
		body[e.rng.IntN(len(body))] ^= 1
		r.Body = body
		return e.setLine(lines, i, r) && e.named("another payload in its valid form", "event %d", r.Seq)
	case 1:
		r.Subject += "0"
		return e.setLine(lines, i, r) && e.named("another subject in its valid form", "event %d", r.Seq)
	case 2:
		r.Header = maps.Clone(r.Header)
		names := slices.Sorted(maps.Keys(r.Header))
		name := names[e.rng.IntN(len(names))]
		r.Header[name] = []string{r.Header[name][0] + "0"}
		return e.setLine(lines, i, r) && e.named("another header in its valid form", "%s of event %d", name, r.Seq)
	default:
		r.Seq++
		return e.setLine(lines, i, r) && e.named("another position in its valid form", "event %d", r.Seq-1)
	}
}

// editTrue makes an edit after which a reader sees the same events, or fewer in a part.
func (e *editor) editTrue() bool {
	lines, i, r, err := e.lineOf()
	if err != nil {
		return false
	}
	if e.part && e.rng.IntN(2) == 0 {
		proofs := bytes.SplitAfter(bytes.Clone(e.files["proofs.ndjson"]), []byte("\n"))
		e.files["events.ndjson"] = bytes.Join(slices.Delete(lines, i, i+1), nil)
		e.files["proofs.ndjson"] = bytes.Join(slices.Delete(proofs, i, i+1), nil)
		e.refit("events.ndjson")
		e.refit("proofs.ndjson")
		return e.named("an event and its proof are missing", "event %d", r.Seq)
	}
	head, data, ok := bytes.Cut(lines[i], []byte(`,"data":`))
	if !ok {
		return false
	}
	data = bytes.TrimSuffix(data, []byte("}\n"))
	lines[i] = fmt.Appendf(nil, "%s,\"data_base64\":\"%s\"}\n", head, base64.StdEncoding.EncodeToString(data))
	e.files["events.ndjson"] = bytes.Join(lines, nil)
	e.refit("events.ndjson")
	return e.named("a payload in base64", "event %d", r.Seq)
}

var (
	manifestRoot  = regexp.MustCompile(`"root":"[^"]+"`)
	manifestVKeys = regexp.MustCompile(`"vkeys":\["[^]]+\]`)
)

// forge changes the source of a run, computes the tree again, and signs it: with another key of the
// same name, or with the genuine one.
func (e *editor) forge() bool {
	if e.part {
		return false
	}
	lines, i, r, err := e.lineOf()
	for err == nil && !bytes.Contains(r.Body, []byte("console.log(")) {
		lines, i, r, err = e.lineOf()
	}
	if err != nil {
		return false
	}
	r.Body = bytes.Replace(bytes.Clone(r.Body), []byte("console.log("), fmt.Appendf(nil, "forged%d(", e.rng.IntN(1000)), 1)
	if !e.setLine(lines, i, r) {
		return false
	}
	kind, signer := "a forged event, signed with another key", e.forger.Signer
	listed, recorded := e.rng.IntN(2) == 0, e.rng.IntN(2) == 0
	switch {
	case e.rng.IntN(3) == 0: // the attack of an operator: a second history under the genuine key
		kind, signer = "a forged event, signed with the genuine key", e.signer
		listed, recorded = false, false
		e.expected = "FORKED" // a recorded checkpoint contradicts it
	case listed && recorded:
		e.expected = "WRONG KEY"
	}
	if listed {
		kind += " that the export lists"
		e.files["manifest.json"] = manifestVKeys.ReplaceAllLiteral(e.files["manifest.json"], []byte(`"vkeys":["`+e.forger.VKey+`"]`))
	}
	if recorded {
		kind += ", with the recorded checkpoints"
	}
	c, err := e.sign(lines, signer, recorded)
	if err != nil {
		return false
	}
	e.files["checkpoint"] = c.Note
	e.refit("checkpoint")
	e.files["manifest.json"] = manifestRoot.ReplaceAllLiteral(e.files["manifest.json"], []byte(`"root":"`+proof.EncodeHash(c.Root)+`"`))
	return e.named(kind, "event %d", r.Seq)
}

// sign signs the tree over all events of a complete export. If recorded is set, it also replaces the
// checkpoints that events record.
func (e *editor) sign(lines [][]byte, signer note.Signer, recorded bool) (proof.Checkpoint, error) {
	list := make([]proof.Record, len(lines))
	for i, line := range lines {
		var err error
		if list[i], err = proof.ParseLine(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return proof.Checkpoint{}, err
		}
	}
	after := uint64(verdicts.None)
	if recorded {
		after = 0
	}
	c, _, err := verdicts.Resign(list, signer, after)
	for i, r := range list {
		e.setLine(lines, i, r)
	}
	return c, err
}
