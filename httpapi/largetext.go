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
	// largeText is the length in bytes from which a text is encoded in pieces.
	largeText = 256 << 10
	// textPiece is how much of it is encoded at once, in bytes.
	textPiece = 16 << 10
)

// withTexts is an answer that may have large texts. JSON takes up to six bytes for one
// byte of a text, so the JSON of such an answer is never in memory whole.
type withTexts interface {
	// replaceTexts returns a copy of the answer in which each text is what replace
	// returns for it.
	replaceTexts(replace func(string) string) any
}

// encodeAnswer writes an answer as a line of JSON.
func encodeAnswer(w io.Writer, v any) error {
	var texts map[string]string // by the key that stands for each
	if answer, ok := v.(withTexts); ok {
		v = answer.replaceTexts(func(text string) string {
			if len(text) < largeText {
				return text
			}
			if texts == nil {
				texts = map[string]string{}
			}
			key := rand.Text() // no content of the answer can name it
			texts[key] = text
			return key
		})
	}
	if texts == nil {
		return encoder(w).Encode(v) //nolint:wrapcheck // the caller names the answer
	}
	var out bytes.Buffer
	if err := encoder(&out).Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return writeTexts(w, out.Bytes(), texts)
}

// writeTexts writes JSON with the texts in place of their keys.
func writeTexts(w io.Writer, raw []byte, texts map[string]string) error {
	type place struct {
		at, end int
		text    string
	}
	var places []place
	for key, text := range texts {
		at := bytes.Index(raw, []byte(key))
		if at < 0 {
			return fmt.Errorf("encode the answer: a text of %d bytes has no place in it", len(text))
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

// writeText writes the characters of a text as JSON, without the quotes.
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

// outputPage is a page of output as an answer.
type outputPage struct{ projections.OutputPage }

func (p outputPage) replaceTexts(replace func(string) string) any {
	p.Data = replace(p.Data)
	return p
}
