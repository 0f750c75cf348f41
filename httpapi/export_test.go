package httpapi

import (
	"net/http"

	"daybook/internal/webhook"
)

// What the tests of decoders and writers need from inside.
var (
	StreamType       = streamType
	ValidTraceparent = validTraceparent
	ClientName       = clientName
	ParseQuery       = func(raw string) bool { _, f := parseQuery(raw); return f == nil }
)

// WritePiece is how much is written under one deadline.
const WritePiece = writePiece

// PatientWriter is the writer that renews deadlines.
func PatientWriter(w http.ResponseWriter) http.ResponseWriter {
	return newResponse(w, Pace{}.withDefaults())
}

// DecodedSubmission is what DecodeSubmission reads.
type DecodedSubmission struct {
	Code    string
	Tags    map[string]string
	Timeout *int
}

// DecodeSubmission decodes the kinds of members a submission has. It returns
// the message of the refusal, or "".
func DecodeSubmission(raw []byte) (s DecodedSubmission, refusal string) {
	f := decodeObject(raw, map[string]member{
		"code": text(&s.Code, nil), "tags": textMap(&s.Tags), "execution_timeout_secs": integer(&s.Timeout),
	})
	if f != nil {
		return s, f.Error()
	}
	return s, ""
}

// DecodeWebhook decodes a registration, and a retry. It returns the messages of
// those that were refused.
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
