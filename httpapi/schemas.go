package httpapi

import (
	"path"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
)

// requestSchemas returns the names of the schemas of request bodies. The document closes them:
// unknown fields are refused. All other schemas are open, because fields may be added to
// responses.
func requestSchemas(doc *huma.OpenAPI) map[string]bool {
	names := map[string]bool{}
	for _, op := range operationsOf(doc) {
		if op.RequestBody == nil {
			continue
		}
		for _, media := range op.RequestBody.Content {
			names[path.Base(media.Schema.Ref)] = true
		}
	}
	return names
}

// operationsOf returns the operations of a document.
func operationsOf(doc *huma.OpenAPI) []*huma.Operation {
	var list []*huma.Operation
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				list = append(list, op)
			}
		}
	}
	return list
}

// fieldDescriptions describes the response fields that other packages define, by name. A name
// has the same meaning in all responses.
var fieldDescriptions = map[string]string{
	"actor":                  "Caller that submitted the request.",
	"address":                "Network address of the client.",
	"attempt":                "Number of the newest attempt, from 1; 0 before the first.",
	"cancelled_by":           "Caller that cancelled the execution.",
	"client":                 "User agent or name that the client reported.",
	"code":                   "The source as submitted.",
	"completed_at":           "Time of the end; null while it runs.",
	"cpu_ms":                 "CPU time in milliseconds.",
	"created_at":             "Time when the run that saved the heap ended.",
	"data":                   "The bytes from start_byte up to end_byte, excluded, with line ends.",
	"end_byte":               "Offset after the last byte of the page.",
	"end_line":               "Last line of the page; start_line - 1 if the page is empty.",
	"engine_id":              "Identity of the engine.",
	"error":                  "Cause of the failure; null while it runs and if it completed.",
	"execution_id":           "Id of the execution.",
	"execution_timeout_secs": "Wall-clock limit in seconds.",
	"file_name":              "Name shown in stack traces.",
	"has_more":               "True if more output than this page is written.",
	"heap":                   "Key of a heap; for an execution, of the heap that it left, or null.",
	"heap_memory_max_mb":     "Limit of the V8 heap in MiB.",
	"input_heap":             "The heap that was restored; null for a fresh isolate.",
	"lost":                   "Position of the event that records the loss of the content with accepted damage; absent while it can be read.",
	"level":                  "Console method that wrote the line; a script cannot forge it.",
	"line":                   "Number of the line, from 1.",
	"next_byte_offset":       "byte_offset of the next page.",
	"next_cursor":            "Cursor of the next page; absent on the last one.",
	"next_line_offset":       "line_offset of the next page.",
	"written_lines":          "Number of lines that the script wrote, stored or not; only if output was cut and the run has ended.",
	"written_bytes":          "Number of bytes that the script wrote, stored or not; only if output was cut and the run has ended.",
	"output_sha256":          "Hash of all output of the final attempt.",
	"output_truncated":       "True if output above the limit was not stored.",
	"parent":                 "The heap that the run started from; null for a fresh isolate.",
	"peak_heap_bytes":        "Largest size of the V8 heap. 0 means unknown: the worker was killed, or had not started the run.",
	"principal":              "Authenticated identity, or anonymous.",
	"queued":                 "True until a runner has taken the execution.",
	"queued_ms":              "Milliseconds from acceptance to the start of the first attempt; absent until then.",
	"reason":                 "Cause of the end as a code, for example out_of_memory.",
	"requested_at":           "Time of acceptance.",
	"requested_heap":         "The heap in the request.",
	"result":                 "Value of the last expression as text; null if there is none or the run did not complete.",
	"result_truncated":       "True if the result was cut at its size limit before it was recorded.",
	"cut_texts":              "Sizes in bytes of those of code, result and error of which this response has only the beginning; GET /api/executions/{id}/texts/{text} returns the complete text. Absent if none is cut.",
	"seq":                    "Position of the newest event about the object.",
	"session":                "Name of the session that the run is logged under.",
	"size":                   "Size of the uncompressed snapshot in bytes.",
	"start_byte":             "Offset of the first byte of the page.",
	"start_line":             "First line of the page, from 1.",
	"started_at":             "Time when an isolate started the first attempt; until then, the time of acceptance.",
	"status":                 "running, or one of the other statuses after the end; these are final.",
	"tags":                   "Tags, by key.",
	"text":                   "The line without its line end.",
	"time":                   "Time of the script's clock.",
	"total_bytes":            "Number of bytes stored so far; final if the status is final.",
	"total_lines":            "Number of lines stored so far; final if the status is final.",
	"transport":              "Transport of the request.",
	"truncated":              "True if output above the limit was not stored.",
	"usage":                  "Resource usage of the run; null until it has ended.",
	"wall_ms":                "Elapsed time in milliseconds.",
	"warnings":               "Differences from the request.",
}

// refineSchemas completes the schemas that huma derives from Go types. closed has the names of
// those without other members than the described ones.
func refineSchemas(schemas map[string]*huma.Schema, closed map[string]bool) {
	for name, s := range schemas {
		if !closed[name] {
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
				p.Description = fieldDescriptions[field]
			}
			if field == "status" && p.Type == huma.TypeString && name != "Health" {
				p.Enum = []any{events.StatusRunning, events.StatusCompleted, events.StatusFailed, events.StatusTimedOut, events.StatusCancelled}
			}
		}
	}
	if d := schemas["ExecutionDetail"]; d != nil {
		usage := d.Properties["usage"]
		d.Properties["usage"] = &huma.Schema{Description: fieldDescriptions["usage"], AnyOf: []*huma.Schema{{Ref: usage.Ref}, {Type: "null"}}}
	}
	if d := schemas["ExecutionDetail"]; d != nil {
		d.Required = slices.DeleteFunc(d.Required, func(name string) bool {
			return name == "output" || name == "next_line_offset" || name == "next_byte_offset" || name == "has_more"
		})
	}
	// A member of an entry is absent if it was not requested, and null if there is no heap.
	if e := schemas["Entry"]; e != nil {
		for _, field := range []string{"input_heap", "output_heap"} {
			e.Properties[field].Nullable = true
		}
	}
}
