package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"daybook/events"
)

// key is what the index knows of a subject: 64 bits of a hash. Different subjects with equal keys
// cost time and nothing else, because a reader compares the subjects of the events that it finds.
type key uint64

func keyOf(text string) key {
	sum := sha256.Sum256([]byte(text))
	return key(binary.BigEndian.Uint64(sum[:]))
}

// Kinds of subjects with many events. Patterns over all subjects of such a kind have no key: no
// frame would be without them.
var frequent = map[string]bool{"run": true, "exec": true, "out": true}

// keysOf returns the keys of a stored subject: its own, and that of the pattern over all subjects
// of its kind. Runs have a key without the pool, because they are looked up in any pool.
func keysOf(subject string) []key {
	t := split(subject)
	switch {
	case len(t) == 4 && t[1] == "run":
		return []key{runKey(t)}
	case len(t) == 3 && !frequent[t[1]]:
		return []key{keyOf(strings.Join(t, ".")), kindKey(t[1])}
	default:
		return []key{keyOf(strings.Join(t, "."))}
	}
}

// keyFor returns the key of a stored subject or a pattern. It returns false if no key answers the
// pattern; all events are then read.
func keyFor(pattern string) (key, bool) {
	exact := !strings.Contains(pattern, "*")
	if exact && !strings.Contains(pattern, ".run.") { // most lookups
		return keyOf(withoutVolume(pattern)), true
	}
	t := split(pattern)
	switch {
	case len(t) == 4 && t[1] == "run" && t[0] != "*" && t[3] != "*":
		return runKey(t), true
	case exact:
		return keyOf(strings.Join(t, ".")), true
	case len(t) == 3 && t[1] != "*" && !frequent[t[1]]:
		return kindKey(t[1]), true
	}
	return 0, false
}

func runKey(t []string) key { return keyOf(t[0] + ".run." + t[3]) }

// kindKey returns the key of all subjects of a kind. No subject of an object contains "*".
func kindKey(kind string) key { return keyOf("*." + kind + ".*") }

// split returns the tokens of a stored subject or pattern, without the volume.
func split(subject string) []string { return strings.Split(withoutVolume(subject), ".") }

func withoutVolume(subject string) string {
	if rest, ok := events.WithoutVolume(subject); ok {
		return rest
	}
	return subject
}

// matcher returns a function that reports whether a pattern matches a stored subject, of any
// volume.
func matcher(pattern string) func(subject []byte) bool {
	pattern = withoutVolume(pattern)
	// Most subjects differ at their end.
	end := []byte(pattern[strings.LastIndexByte(pattern, '*')+1:])
	if len(end) == len(pattern) {
		return func(subject []byte) bool {
			return bytes.HasSuffix(subject, end) && withoutVolume(string(subject)) == pattern
		}
	}
	want := strings.Split(pattern, ".")
	return func(subject []byte) bool {
		if !bytes.HasSuffix(subject, end) {
			return false
		}
		have := split(string(subject))
		for i, token := range want {
			if len(have) != len(want) || token != "*" && token != have[i] {
				return false
			}
		}
		return true
	}
}
