package httpapi

import (
	"net/http"

	"daybook/internal/webhook"
)

// Unexported parts for the tests of decoders and writers.
var (
	StreamType       = streamType
	ValidTraceparent = validTraceparent
	ClientName       = clientName
	ParseQuery       = func(raw string) bool { _, f := parseQuery(raw); return f == nil }
)

// TypeCaughtUp is the type of the marks in an NDJSON response with follow=true.
const TypeCaughtUp = typeCaughtUp

// Checkpoint is a checkpoint in a response.
type Checkpoint = checkpoint

// WritePiece is the length of the pieces that are written under one deadline, in bytes.
const WritePiece = writePiece

// PatientWriter returns the writer that renews deadlines.
func PatientWriter(w http.ResponseWriter) http.ResponseWriter {
	return newResponse(w, Pace{}.withDefaults())
}

// DecodedSubmission is the result of DecodeSubmission.
type DecodedSubmission struct {
	Code    string
	Tags    map[string]string
	Timeout *int
}

// DecodeSubmission decodes an object with the kinds of members that a submission has.
// It returns the message of the failure, or an empty string.
func DecodeSubmission(raw []byte) (s DecodedSubmission, refusal string) {
	f := decodeObject(raw, map[string]member{
		"code": text(&s.Code, nil), "tags": textMap(&s.Tags), "execution_timeout_secs": integer(&s.Timeout),
	})
	if f != nil {
		return s, f.Error()
	}
	return s, ""
}

// DecodeWebhook decodes a body as a registration and as a retry. It returns the
// messages of the failures.
func DecodeWebhook(raw []byte) (reg webhook.Registration, seqs []uint64, refusals []string) {
	r := &request{header: http.Header{"Content-Type": {"application/json"}}}
	if f := decodeWebhook(r, raw, &reg); f != nil {
		refusals = append(refusals, f.Error())
	}
	if f := decodeObject(raw, map[string]member{"sequences": positions(&seqs)}); f != nil {
		refusals = append(refusals, f.Error())
	}
	return reg, seqs, refusals
}
