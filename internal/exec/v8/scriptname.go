package v8

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._/@+-]`)

// ScriptName returns the name that a script has in the heap: its file's name, #, and
// the first eight hex digits of the SHA-256 of the source as its caller gave it.
// Characters that a sourceURL comment or a stack trace cannot hold become "_".
func ScriptName(file string, source []byte) string {
	sum := sha256.Sum256(source)
	return unsafeInName.ReplaceAllString(file, "_") + "#" + hex.EncodeToString(sum[:4])
}
