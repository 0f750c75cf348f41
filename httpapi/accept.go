package httpapi

import (
	"mime"
	"strconv"
	"strings"
)

// Media types of streams.
const (
	typeSSE    = "text/event-stream"
	typeNDJSON = "application/x-ndjson"
)

// streamType returns the media type of the highest weight in an Accept header among
// JSON and the stream types. It returns an empty string for JSON and if there is none.
// Wildcards, unknown types and malformed parts are skipped.
func streamType(accept []string) string {
	best, weight := "", 0.0
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if s, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(s, 64); err != nil {
				continue
			}
		}
		switch name {
		case "application/json", typeSSE, typeNDJSON:
			if q > weight {
				best, weight = name, q
			}
		}
	}
	if best == "application/json" {
		return ""
	}
	return best
}
