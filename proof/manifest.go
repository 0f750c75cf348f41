package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// exportFormat is the version of the export format.
const exportFormat = "daybook-export-v1"

// Names in the directory of an export.
const (
	ManifestFile   = "manifest.json"
	UnfinishedFile = "manifest.partial"
	CheckpointFile = "checkpoint"
	EventsFile     = "events.ndjson"
	ProofsFile     = "proofs.ndjson"
	BlobsDir       = "blobs"
)

// ExportSelection selects the events of an export. Empty fields select all.
type ExportSelection struct {
	// From and To are positions, both included. A To of 0 means the size of the checkpoint.
	From, To uint64
	// Since and Until limit the time in the events, both included.
	Since, Until time.Time
	// Tenant, Execution and Session are as in events.Selection.
	Tenant, Execution, Session string
}

// IsUnfiltered reports whether every event of the range is selected.
func (s ExportSelection) IsUnfiltered() bool {
	return s.Tenant == "" && s.Execution == "" && s.Session == "" && s.Since.IsZero() && s.Until.IsZero()
}

// IsComplete reports whether the selection is everything that a checkpoint of the given size
// covers. The tree can then be computed from the events, and no proofs are needed.
func (s ExportSelection) IsComplete(size uint64) bool {
	return s.IsUnfiltered() && s.From == 1 && s.To == size
}

// SkipRemoved sets From to the first position after the removed volumes if From is 0. removed is
// the last position of these volumes, or 0 if there are none. SkipRemoved returns an error if From
// is a removed position.
func (s ExportSelection) SkipRemoved(removed uint64) (ExportSelection, error) {
	switch {
	case removed == 0 || s.From > removed:
	case s.From != 0:
		return s, fmt.Errorf("positions %d to %d were removed: export from %d on; the exports of the removed volumes have the rest", s.From, removed, removed+1)
	default:
		s.From = removed + 1
	}
	return s, nil
}

// Resolve sets the positions that are 0, and checks the range against the size of the checkpoint.
func (s ExportSelection) Resolve(size uint64) (ExportSelection, error) {
	s.From = max(s.From, 1)
	if s.To == 0 {
		s.To = size
	}
	switch {
	case s.From > size:
		return s, fmt.Errorf("position %d, where the range begins, is beyond the checkpoint, which covers positions 1 to %d; begin at one of them", s.From, size)
	case s.From > s.To:
		return s, fmt.Errorf("the range begins at %d and ends before it, at %d; give the smaller position as the first one", s.From, s.To)
	case s.To > size:
		return s, fmt.Errorf("position %d is beyond the checkpoint, which covers %d events: %w", s.To, size, ErrBeyond)
	case !s.Since.IsZero() && !s.Until.IsZero() && s.Until.Before(s.Since):
		return s, errors.New("the time until comes before the time since; exchange them")
	}
	s.Since, s.Until = s.Since.UTC().Truncate(time.Millisecond), s.Until.UTC().Truncate(time.Millisecond)
	return s, nil
}

// Manifest is the table of contents of an export. Its file has exactly one form.
type Manifest struct {
	Origin    string
	VKeys     []string
	Size      uint64
	Root      Hash
	Selection ExportSelection
	Events    uint64
	Blobs     bool
	// Signers are the statements about the signers, as Signers.Bytes returns them. Without changes of
	// the signers it is empty.
	Signers string
	Files   []ExportFile
}

// ExportFile is an entry of a manifest: a file of the export.
type ExportFile struct {
	Name   string `json:"name"`
	Bytes  uint64 `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Encode returns the content of the manifest file: one line of ASCII, with the members in a fixed
// order.
func (m Manifest) Encode() []byte {
	b := append([]byte(`{"format":`), `"`+exportFormat+`"`...)
	text := func(name, value string) {
		b = append(b, `,"`+name+`":`...)
		b = appendString(b, value)
	}
	number := func(name string, n uint64) {
		b = append(b, `,"`+name+`":`...)
		b = strconv.AppendUint(b, n, 10)
	}
	text("origin", m.Origin)
	b = append(b, `,"vkeys":[`...)
	for i, key := range m.VKeys {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, key)
	}
	b = append(b, ']')
	number("size", m.Size)
	text("root", EncodeHash(m.Root))
	number("from", m.Selection.From)
	number("to", m.Selection.To)
	text("since", FormatBound(m.Selection.Since))
	text("until", FormatBound(m.Selection.Until))
	text("tenant", m.Selection.Tenant)
	text("execution", m.Selection.Execution)
	text("session", m.Selection.Session)
	number("events", m.Events)
	b = append(b, `,"blobs":`...)
	b = strconv.AppendBool(b, m.Blobs)
	if m.Signers != "" {
		text("signers", m.Signers)
	}
	b = append(b, `,"files":[`...)
	for i, f := range m.Files {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendString(b, f.Name)
		b = append(b, `,"bytes":`...)
		b = strconv.AppendUint(b, f.Bytes, 10)
		b = append(b, `,"sha256":`...)
		b = appendString(b, f.SHA256)
		b = append(b, '}')
	}
	return append(b, "]}\n"...)
}

// boundFormat is the format of times in a manifest: RFC 3339 in UTC with milliseconds, as in
// events.
const boundFormat = "2006-01-02T15:04:05.000Z"

// FormatBound returns a time bound as a manifest writes it, empty for none.
func FormatBound(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(boundFormat)
}

func parseBound(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, s)
}

// ParseManifest parses a manifest. It accepts only what Encode returns.
func ParseManifest(raw []byte) (m Manifest, err error) {
	var p struct {
		Format    string       `json:"format"`
		Origin    string       `json:"origin"`
		VKeys     []string     `json:"vkeys"`
		Size      uint64       `json:"size"`
		Root      string       `json:"root"`
		From      uint64       `json:"from"`
		To        uint64       `json:"to"`
		Since     string       `json:"since"`
		Until     string       `json:"until"`
		Tenant    string       `json:"tenant"`
		Execution string       `json:"execution"`
		Session   string       `json:"session"`
		Events    uint64       `json:"events"`
		Blobs     bool         `json:"blobs"`
		Signers   string       `json:"signers"`
		Files     []ExportFile `json:"files"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return m, fmt.Errorf("the manifest is no JSON object: %w", err)
	}
	if p.Format != exportFormat {
		return m, fmt.Errorf("the export is of the format %.40q; this version reads %s", p.Format, exportFormat)
	}
	m = Manifest{
		Origin: p.Origin, VKeys: p.VKeys, Size: p.Size, Events: p.Events, Blobs: p.Blobs, Signers: p.Signers, Files: p.Files,
		Selection: ExportSelection{From: p.From, To: p.To, Tenant: p.Tenant, Execution: p.Execution, Session: p.Session},
	}
	if m.Root, err = DecodeHash(p.Root); err != nil {
		return m, fmt.Errorf("the manifest's tree hash: %w", err)
	}
	for _, key := range m.VKeys {
		if canonicalVKey(key) != key {
			return m, fmt.Errorf("the manifest's key %.80q is not in its only form", key)
		}
	}
	if m.Selection.Since, err = parseBound(p.Since); err != nil {
		return m, fmt.Errorf("the manifest's time: %w", err)
	}
	if m.Selection.Until, err = parseBound(p.Until); err != nil {
		return m, fmt.Errorf("the manifest's time: %w", err)
	}
	if !bytes.Equal(m.Encode(), raw) {
		return m, errors.New("the manifest is not written as an export writes it")
	}
	return m, nil
}
