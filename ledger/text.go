package ledger

import (
	"context"
	"encoding/json"
	"strings"

	"daybook/events"
)

// inlineJSONBytes limits inline text as JSON, where a control character takes six bytes.
// An event still fits events.MaxEventBytes with the largest tags, or with both a result
// and an error.
const inlineJSONBytes = 2 * events.InlineBytes

// Limits of the recorded warnings of a runner.
const (
	maxWarnings     = 32
	maxWarningBytes = 512
)

// storeEncryptedBody returns short text inline and stores longer text as a blob first, so that
// no event is refused for its size. If keyID is not empty, it encrypts the blob; the event MUST
// then be encrypted too.
func (l *Ledger) storeEncryptedBody(ctx context.Context, tenant, keyID, text string) (events.Body, error) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= events.InlineBytes && jsonLen(text) <= inlineJSONBytes {
		return events.Body{Text: text}, nil
	}
	return l.storeBlob(ctx, tenant, keyID, text)
}

// storeBlob stores a text as a blob, encrypted if keyID is not empty.
func (l *Ledger) storeBlob(ctx context.Context, tenant, keyID, text string) (events.Body, error) {
	put := l.store.PutText
	if keyID != "" {
		put = func(ctx context.Context, tenant string, text []byte) (string, error) {
			return l.store.PutEncryptedText(ctx, tenant, keyID, text)
		}
	}
	hash, err := put(ctx, tenant, []byte(text))
	if err != nil {
		return events.Body{}, unavailable("store a text of the run", err)
	}
	return events.Body{Blob: &events.BlobRef{SHA256: hash, Size: int64(len(text)), Preview: truncate(text, events.PreviewBytes)}}, nil
}

// jsonLen returns the length of v in bytes as an event holds it.
func jsonLen(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return events.MaxEventBytes // strings and maps of strings always encode
	}
	return len(b)
}

// clampWarnings limits the number and length of a runner's warnings.
func clampWarnings(in []string) []string {
	if len(in) > maxWarnings {
		in = in[:maxWarnings]
	}
	var out []string
	for _, w := range in {
		out = append(out, truncate(strings.ToValidUTF8(w, "\uFFFD"), maxWarningBytes))
	}
	return out
}
