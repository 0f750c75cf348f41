package events

import (
	"strings"
	"unicode/utf8"
)

// Limits of artifacts. A run that exceeds one gets an error from artifact().
const (
	// ArtifactMaxBytes is the maximum size of an artifact in bytes.
	ArtifactMaxBytes = 16 << 20
	// ArtifactMaxCount is the maximum number of artifacts of an attempt, ArtifactMaxTotal
	// their maximum size in total, in bytes.
	ArtifactMaxCount = 1000
	ArtifactMaxTotal = 256 << 20
	// ArtifactMaxName is the maximum length of the name of an artifact in bytes of UTF-8,
	// ArtifactMaxMIME that of its media type.
	ArtifactMaxName = 256
	ArtifactMaxMIME = 128
)

// ExecutionArtifactCreated records that a script created an artifact: bytes with a name
// and a media type. A script may create several of one name; the last one replaces those
// before it, which stay recorded.
//
// Appended by the runner when the script creates the artifact, after the bytes are stored
// as a blob, and before the terminal event of the execution.
type ExecutionArtifactCreated struct {
	// ExecutionID is the id of the execution.
	ExecutionID string `json:"execution_id"`
	// Attempt is the attempt that created the artifact. Artifacts that were recorded
	// before the newest started event are void: the attempt creates them again.
	Attempt int `json:"attempt"`
	// Number counts the artifacts of the attempt from 1.
	Number int `json:"number"`
	// SHA256 is the hash of the bytes. It is a keyed hash if Content is encrypted.
	SHA256 string `json:"sha256"`
	// Size is the number of bytes.
	Size int64 `json:"size"`
	// Line is the number of the line of output that follows the artifact: lines before it
	// were written earlier.
	Line int64 `json:"line"`
	// TimeMillis is the time on the script's clock, in milliseconds since 1970.
	TimeMillis int64 `json:"time_ms"`
	// Content holds the name, the media type and the blob.
	Content Content[ArtifactContent] `json:"content"`
}

// ArtifactContent is the erasable part of ExecutionArtifactCreated.
type ArtifactContent struct {
	// Name is the name that the script chose, 1 to 256 bytes of UTF-8. It is not a path.
	Name string `json:"name"`
	// MIME is the media type that the script stated, for example "image/png". The bytes
	// need not be of this type.
	MIME string `json:"mime"`
	// Blob is the hash of the blob that holds the bytes: their hash, or that of the
	// encrypted bytes if the content is encrypted.
	Blob string `json:"blob"`
}

// CheckArtifactName returns what is wrong with the name of an artifact, or an empty text.
func CheckArtifactName(name string) string {
	switch {
	case name == "":
		return "key must be a non-empty string"
	case len(name) > ArtifactMaxName:
		return "key must be at most 256 bytes of UTF-8"
	case !utf8.ValidString(name):
		return "key must be valid UTF-8"
	}
	for _, r := range name {
		if r < 0x20 || r == 0x7f {
			return "key must not contain control characters"
		}
	}
	return ""
}

// ValidArtifactMIME reports whether a text can be the media type of an artifact: visible
// ASCII of at most 128 bytes with "/" between two parts.
func ValidArtifactMIME(mime string) bool {
	slash := strings.IndexByte(mime, '/')
	if slash < 1 || slash == len(mime)-1 || len(mime) > ArtifactMaxMIME {
		return false
	}
	for i := range len(mime) {
		if mime[i] < 0x20 || mime[i] > 0x7e {
			return false
		}
	}
	return mime[slash+1] != ' ' && mime[slash+1] != ';'
}

func (d *ExecutionArtifactCreated) sealable() sealable { return &d.Content }
func (d *ExecutionArtifactCreated) prepared() (Data, []string) {
	copied := *d
	if d.Content.Plain == nil {
		return &copied, nil
	}
	return &copied, []string{d.Content.Plain.Blob}
}
