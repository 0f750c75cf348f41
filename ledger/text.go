package ledger

import (
	"context"
	"encoding/json"
	"strings"

	"daybook/events"
)

// inlineJSONBytes bounds inline text as JSON, where a control character takes
// six bytes: with the largest tags, or with a result and an error both, an
// event still fits events.MaxEventBytes.
const inlineJSONBytes = 2 * events.InlineBytes

// Bounds of the warnings a runner may put on record.
const (
	maxWarnings     = 32
	maxWarningBytes = 512
)

// storeBody keeps short text for the event and stores longer text as a blob first,
// so that no event is ever refused for its size.
func (l *Ledger) storeBody(ctx context.Context, tenant, text string) (events.Body, error) {
	return l.storeEncryptedBody(ctx, tenant, "", text)
}

// storeEncryptedBody is body for an event that is encrypted under a key, if it is not
// empty, and the blob with it.
func (l *Ledger) storeEncryptedBody(ctx context.Context, tenant, keyID, text string) (events.Body, error) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= events.InlineBytes && jsonLen(text) <= inlineJSONBytes {
		return events.Body{Text: text}, nil
	}
	return l.blobUnder(ctx, tenant, keyID, text)
}

// blobUnder stores a text as a blob, encrypted under a key if it is not empty.
func (l *Ledger) blobUnder(ctx context.Context, tenant, keyID, text string) (events.Body, error) {
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

// jsonLen is the length of v as the event will hold it.
func jsonLen(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return events.MaxEventBytes // strings and maps of strings always encode
	}
	return len(b)
}

// clampWarnings cuts a runner's warnings to a bounded number and length.
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
