package verifypython_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// reading is what a reader sees in an export: the events, each with its position, subject, covered
// headers and payload, and the blobs. It is read by encoding/json, not by the code under test.
//
// An edit that leaves a reading as it was is outside of what the proof covers. There are two:
//
//   - A payload is written in base64, or as it is: the line differs, its payload does not.
//   - An event is removed from a partial export together with its proof. A partial export proves that
//     its events are recorded, not that they are all.
type reading struct {
	events []string
	blobs  map[string][]byte
	// ledger are the origin, the size and the tree hash.
	ledger string
}

func readExport(files map[string][]byte) (*reading, error) {
	r := &reading{blobs: map[string][]byte{}}
	for line := range bytes.Lines(files["events.ndjson"]) {
		var e struct {
			Sequence, NATSSubject, NATSHeaders string
			Data                               json.RawMessage
			Coded                              *string `json:"data_base64"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("a line is not JSON: %w", err)
		}
		body := []byte(e.Data)
		if e.Coded != nil {
			var err error
			if body, err = base64.StdEncoding.DecodeString(*e.Coded); err != nil {
				return nil, err
			}
		}
		r.events = append(r.events, fmt.Sprintf("%s\n%s\n%s\n%s", e.Sequence, e.NATSSubject, e.NATSHeaders, body))
	}
	var m struct {
		Origin, Root string
		Size         uint64
	}
	if err := json.Unmarshal(files["manifest.json"], &m); err != nil {
		return nil, fmt.Errorf("the manifest is not JSON: %w", err)
	}
	r.ledger = fmt.Sprint(m.Origin, m.Size, m.Root)
	for name, content := range files {
		if len(name) > 6 && name[:6] == "blobs/" {
			r.blobs[name] = content
		}
	}
	return r, nil
}

// comparesWith returns an error unless a reader of the files sees what r has. If part is true, events
// may be missing.
func (r *reading) comparesWith(files map[string][]byte, part bool) error {
	got, err := readExport(files)
	if err != nil {
		return err
	}
	if got.ledger != r.ledger {
		return fmt.Errorf("the ledger is %s, not %s", got.ledger, r.ledger)
	}
	rest := r.events
	for _, e := range got.events {
		i := slices.Index(rest, e)
		if i < 0 || i > 0 && !part {
			return fmt.Errorf("this event was not recorded here: %.300q", e)
		}
		rest = rest[i+1:]
	}
	if len(rest) > 0 && !part {
		return fmt.Errorf("%d events are missing", len(rest))
	}
	for name, content := range got.blobs {
		if !bytes.Equal(content, r.blobs[name]) {
			return fmt.Errorf("%s has another content", name)
		}
	}
	if len(got.blobs) < len(r.blobs) && !part {
		return errors.New("blobs are missing")
	}
	return nil
}
