package httpapi

import (
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
)

// requests has the names of the schemas of request bodies. They are closed: unknown
// fields are refused. Schemas of responses are open, because fields may be added.
var requests = map[string]bool{"Submission": true, "TagsBody": true, "WebhookBody": true, "RetryBody": true}

// meanings describes the response fields that other packages define, by name. A name
// has the same meaning in all responses.
var meanings = map[string]string{
	"actor":                  "Who asked for it.",
	"address":                "Network address of the client.",
	"attempt":                "Number of the newest attempt, from 1; 0 before the first.",
	"cancelled_by":           "Who cancelled it.",
	"client":                 "What the client called itself.",
	"code":                   "The source as given.",
	"completed_at":           "When it ended; null while running.",
	"cpu_ms":                 "CPU time in milliseconds.",
	"created_at":             "When the run that made it ended.",
	"data":                   "Exactly the bytes from start_byte up to end_byte, line ends included.",
	"end_byte":               "Offset after the last byte of the page.",
	"end_line":               "Last line of the page; start_line - 1 when it is empty.",
	"engine_id":              "Identity of the engine.",
	"error":                  "Why it did not complete; null while running and when it did.",
	"execution_id":           "Id of the execution.",
	"execution_timeout_secs": "Wall-clock limit in seconds.",
	"file_name":              "Name shown in stack traces.",
	"has_more":               "More than this page has been written so far.",
	"heap":                   "Key of a heap: for an execution the one it left behind, or null.",
	"heap_memory_max_mb":     "Cap of the V8 heap in MiB.",
	"input_heap":             "The heap really restored; null for a fresh isolate.",
	"lost":                   "Position of the event that records that it was lost with accepted damage; absent while it can be read.",
	"level":                  "Console method the line came from; a script cannot forge it.",
	"line":                   "Number of the line, from 1.",
	"next_byte_offset":       "byte_offset of the next page.",
	"next_cursor":            "Set only when there is more: cursor of the next page.",
	"next_line_offset":       "line_offset of the next page.",
	"written_lines":          "Lines the script wrote in all, stored or not; only when output was cut, once the run has ended.",
	"written_bytes":          "Bytes the script wrote in all, stored or not; only when output was cut, once the run has ended.",
	"output_sha256":          "Hash of all output of the final attempt.",
	"output_truncated":       "Output past the cap was not stored.",
	"parent":                 "The heap it was made from; null for a fresh isolate.",
	"peak_heap_bytes":        "Largest size of the V8 heap. 0 means unknown: the worker was killed, or had not started the run.",
	"principal":              "Authenticated identity, or anonymous.",
	"queued":                 "Accepted, and not yet taken by a runner.",
	"queued_ms":              "Milliseconds from acceptance to the start of the first attempt; absent until then.",
	"reason":                 "Cause of the end for programs, for example out_of_memory.",
	"requested_at":           "When it was accepted.",
	"requested_heap":         "The heap asked for.",
	"result":                 "Value of the last expression as text; null unless completed with one.",
	"result_truncated":       "The result was cut at its size limit before it was recorded.",
	"cut_texts":              "Sizes in bytes of code, result and error where this answer has only the beginning; GET /api/executions/{id}/texts/{text} sends them whole. Absent when nothing is cut.",
	"seq":                    "Position of the newest event about it.",
	"session":                "Session it is logged under.",
	"size":                   "Size of the uncompressed snapshot in bytes.",
	"start_byte":             "Offset of the first byte of the page.",
	"start_line":             "First line of the page, from 1.",
	"started_at":             "When an isolate started its first attempt; until then, when it was accepted.",
	"status":                 "running until it has ended in one of the other ways, for ever.",
	"tags":                   "Tags, by key.",
	"text":                   "The line, without its end.",
	"time":                   "What the script's clock showed.",
	"total_bytes":            "Bytes written so far; final once the status is.",
	"total_lines":            "Lines written so far; final once the status is.",
	"transport":              "How the request came.",
	"truncated":              "Output past the cap was not stored.",
	"usage":                  "What the run cost; null until it has ended.",
	"wall_ms":                "Elapsed time in milliseconds.",
	"warnings":               "What differs from what was asked for.",
}

// refine completes the schemas that huma derives from Go types.
func refine(schemas map[string]*huma.Schema) {
	for name, s := range schemas {
		if !requests[name] {
			s.AdditionalProperties = nil
		}
		for field, p := range s.Properties {
			if p.Type == huma.TypeArray {
				p.Nullable = false // an empty list is [] in every answer
			}
			if p.Type == huma.TypeString && (strings.HasSuffix(field, "_at") || field == "time" || field == "timestamp") {
				p.Format = "date-time"
			}
			if p.Ref == "" && p.Description == "" {
				p.Description = meanings[field]
			}
			if field == "status" && p.Type == huma.TypeString && name != "Health" {
				p.Enum = []any{events.StatusRunning, events.StatusCompleted, events.StatusFailed, events.StatusTimedOut, events.StatusCancelled}
			}
		}
	}
	if d := schemas["ExecutionDetail"]; d != nil {
		usage := d.Properties["usage"]
		d.Properties["usage"] = &huma.Schema{Description: meanings["usage"], AnyOf: []*huma.Schema{{Ref: usage.Ref}, {Type: "null"}}}
	}
	if d := schemas["ExecutionDetail"]; d != nil {
		d.Required = slices.DeleteFunc(d.Required, func(name string) bool {
			return name == "output" || name == "next_line_offset" || name == "next_byte_offset" || name == "has_more"
		})
	}
	// The parameter fields can leave out every member.
	if e := schemas["Entry"]; e != nil {
		for _, field := range []string{"input_heap", "output_heap"} {
			e.Properties[field].Nullable = true
		}
	}
}
