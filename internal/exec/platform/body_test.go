package platform_test

import (
	"encoding/json"
	"strings"
	"testing"

	"daybook/internal/exec/platform"
)

// A body survives the way through JSON, and is as short as its bytes allow.
func TestBodies(t *testing.T) {
	t.Parallel()
	for body, isText := range map[string]bool{
		"": true, "plain": true, "{\"a\":[1]}": true, "日本 \U0001f600 <&>": true, "\ufeff": true, "\xff": false, "\xc3": false, strings.Repeat("\x01", 50): false,
	} {
		encoded, err := platform.Compute("encodeBody", [][]byte{[]byte(body)})
		if err != nil || !encoded.IsText {
			t.Fatal(encoded, err)
		}
		var got struct{ Text, Base64 *string }
		if err := json.Unmarshal(encoded.Bytes, &got); err != nil || (got.Text != nil) != isText || (got.Base64 != nil) == isText {
			t.Errorf("%q became %s", body, encoded.Bytes)
			continue
		}
		name, text := "decodeText", got.Text
		if !isText {
			name, text = "decodeBase64", got.Base64
		}
		if decoded, err := platform.Compute(name, [][]byte{[]byte(*text)}); err != nil || string(decoded.Bytes) != body || decoded.IsText {
			t.Errorf("%q became %q, %v", body, decoded.Bytes, err)
		}
	}
	if _, err := platform.Compute("decodeBase64", [][]byte{[]byte("?")}); platform.ErrorName(err) != "TypeError" {
		t.Errorf("%v", err)
	}
}
