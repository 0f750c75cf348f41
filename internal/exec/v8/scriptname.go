package v8

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._/@+-]`)

// ScriptName returns the name of a script in the heap: the name of its file, #, and the first
// eight hex digits of the SHA-256 of source. source is the text that the caller submitted.
// Characters that a sourceURL comment or a stack trace cannot contain are replaced by "_".
func ScriptName(file string, source []byte) string {
	sum := sha256.Sum256(source)
	return unsafeInName.ReplaceAllString(file, "_") + "#" + hex.EncodeToString(sum[:4])
}
