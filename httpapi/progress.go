package httpapi

import (
	"io"
	"net/http"
	"time"
)

// writePiece is how much is written under one deadline, in bytes: at least
// 70 kbit/s of progress are asked of a client.
const writePiece = 256 << 10

// response renews the connection's write deadline with every piece written,
// and remembers whether the answer has begun.
type response struct {
	http.ResponseWriter
	rc    *http.ResponseController
	begun bool
}

func newResponse(w http.ResponseWriter) *response {
	return &response{ResponseWriter: w, rc: http.NewResponseController(w)}
}

// Unwrap serves http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// renew ignores errors: a writer without deadlines (in tests) needs none.
func (w *response) renew() { _ = w.rc.SetWriteDeadline(time.Now().Add(stallTimeout)) }

// WriteHeader begins the answer.
func (w *response) WriteHeader(code int) {
	if code >= http.StatusOK {
		w.begun = true
	}
	w.renew()
	w.ResponseWriter.WriteHeader(code)
}

// Write writes p piece by piece, each under a deadline of its own.
func (w *response) Write(p []byte) (int, error) {
	w.begun = true
	done := 0
	for {
		w.renew()
		end := min(done+writePiece, len(p))
		n, err := w.ResponseWriter.Write(p[done:end])
		done += n
		if err != nil || done == len(p) {
			return done, err
		}
	}
}

// Flush sends what is buffered.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError sends what is buffered and tells whether that worked.
func (w *response) FlushError() error {
	w.begun = true
	w.renew()
	return w.rc.Flush()
}

// body asks progress of an upload.
type body struct {
	io.ReadCloser
	rc *http.ResponseController
}

// Read sets a deadline for the next bytes and lifts it after the last: the
// server watches an idle connection to notice that the client has gone.
func (b body) Read(p []byte) (int, error) {
	_ = b.rc.SetReadDeadline(time.Now().Add(stallTimeout))
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}
