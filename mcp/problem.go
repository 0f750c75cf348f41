package mcp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// problemWriter converts plain-text errors of the inner handlers, including those of the
// SDK, to problem documents (RFC 9457) with the member error that all errors of Daybook
// have. JSON-RPC errors are unchanged.
type problemWriter struct {
	http.ResponseWriter
	problem bool
	status  int
}

// Unwrap lets http.ResponseController reach the inner writer.
func (w *problemWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader checks whether the response is a plain-text error.
func (w *problemWriter) WriteHeader(status int) {
	h := w.Header()
	if status >= http.StatusBadRequest && strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		w.problem, w.status = true, status
		h.Set("Content-Type", "application/problem+json")
		h.Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write expects the complete text of an error in one call, as http.Error writes it.
func (w *problemWriter) Write(p []byte) (int, error) {
	if !w.problem {
		return w.ResponseWriter.Write(p)
	}
	text := string(bytes.TrimSpace(p))
	body, err := json.Marshal(object{
		{"type", "about:blank"}, {"title", http.StatusText(w.status)}, {"status", w.status}, {"detail", text}, {"error", text},
	})
	if err != nil {
		return 0, err
	}
	if _, err := w.ResponseWriter.Write(append(body, '\n')); err != nil {
		return 0, err
	}
	return len(p), nil
}
