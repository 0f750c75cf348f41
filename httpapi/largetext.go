package httpapi

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"daybook/projections"
)

const (
	// largeText is the length from which a text is encoded in pieces, in bytes.
	largeText = 256 << 10
	// textPiece is the length of these pieces, in bytes.
	textPiece = 16 << 10
)

// withTexts is a response body that may have large texts. JSON takes up to six bytes
// for one byte of a text, so the complete JSON of such a body is never in memory.
type withTexts interface {
	// replaceTexts returns a copy of the body with each text replaced by replace(text).
	replaceTexts(replace func(string) string) any
}

// encodeAnswer writes a response body as one line of JSON.
func encodeAnswer(w io.Writer, v any) error {
	var texts map[string]string // by the key that replaces each
	if answer, ok := v.(withTexts); ok {
		v = answer.replaceTexts(func(text string) string {
			if len(text) < largeText {
				return text
			}
			if texts == nil {
				texts = map[string]string{}
			}
			key := rand.Text() // unguessable, so no content of the body contains it
			texts[key] = text
			return key
		})
	}
	if texts == nil {
		return encoder(w).Encode(v) //nolint:wrapcheck // the caller names the answer
	}
	var out bytes.Buffer
	if err := encoder(&out).Encode(v); err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	return writeTexts(w, out.Bytes(), texts)
}

// writeTexts writes JSON with each key replaced by its text.
func writeTexts(w io.Writer, raw []byte, texts map[string]string) error {
	type place struct {
		at, end int
		text    string
	}
	var places []place
	for key, text := range texts {
		at := bytes.Index(raw, []byte(key))
		if at < 0 {
			return fmt.Errorf("encode the response: the key of a text of %d bytes is missing", len(text))
		}
		places = append(places, place{at, at + len(key), text})
	}
	slices.SortFunc(places, func(a, b place) int { return a.at - b.at })
	done := 0
	for _, p := range places {
		if _, err := w.Write(raw[done:p.at]); err != nil {
			return err //nolint:wrapcheck // the client's connection
		}
		if err := writeText(w, p.text); err != nil {
			return err
		}
		done = p.end
	}
	_, err := w.Write(raw[done:])
	return err //nolint:wrapcheck // the client's connection
}

// writeText writes a text as a JSON string without the quotes.
func writeText(w io.Writer, text string) error {
	var buf bytes.Buffer
	enc := encoder(&buf)
	for len(text) > 0 {
		n := min(textPiece, len(text))
		for back := 0; n < len(text) && back < utf8.UTFMax && !utf8.RuneStart(text[n]); back++ {
			n--
		}
		buf.Reset()
		if err := enc.Encode(text[:n]); err != nil {
			return fmt.Errorf("encode a text: %w", err)
		}
		if _, err := w.Write(buf.Bytes()[1 : buf.Len()-2]); err != nil { // without quotes and line end
			return err //nolint:wrapcheck // the client's connection
		}
		text = text[n:]
	}
	return nil
}

func (d executionDetail) replaceTexts(replace func(string) string) any {
	d.Code = replace(d.Code)
	for _, text := range []**string{&d.Result, &d.Error} {
		if *text != nil {
			*text = new(replace(**text))
		}
	}
	return d
}

func (b execBody) replaceTexts(replace func(string) string) any {
	if b.ended != nil {
		return b.ended.replaceTexts(replace)
	}
	return b.accepted
}

// outputPage is a page of output as a response body.
type outputPage struct{ projections.OutputPage }

func (p outputPage) replaceTexts(replace func(string) string) any {
	p.Data = replace(p.Data)
	return p
}
