package witness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"daybook/proof"
)

// Limits of the HTTP interface.
const (
	// maxBodyBytes is the maximum length of a request: a checkpoint, and 63 lines of a proof.
	maxBodyBytes = proof.MaxNoteBytes + 4<<10
	// maxProofLines is the maximum number of lines of a proof.
	maxProofLines = 63
	// maxRequests is the number of requests that are decided at the same time.
	maxRequests = 32
	// maxConnections is the number of connections that are open at the same time.
	maxConnections = 256
	// requestTime is the maximum time of a request, with its body and its response.
	requestTime = 10 * time.Second
	// idleTime is the maximum time between two requests of a connection.
	idleTime = 30 * time.Second
)

// Handler returns the HTTP interface: POST /add-checkpoint, and GET /<origin hash>/checkpoint. It has no
// authentication.
func (w *Witness) Handler() http.Handler {
	places := make(chan struct{}, maxRequests)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", func(out http.ResponseWriter, in *http.Request) {
		body, ok := readBody(out, in)
		if !ok {
			return
		}
		defer keepConnection(in.Context())()
		select {
		case places <- struct{}{}: // after the body, whose client may be slow
			defer func() { <-places }()
			w.serveAdd(out, in, body)
		case <-in.Context().Done():
		}
	})
	mux.HandleFunc("GET /{hash}/checkpoint", func(out http.ResponseWriter, in *http.Request) {
		signed, ok := w.newest(in.PathValue("hash"))
		if !ok {
			http.Error(out, "the witness has cosigned no checkpoint of this origin", http.StatusNotFound)
			return
		}
		out.Header().Set("Content-Type", "text/plain; charset=utf-8")
		out.Header().Set("Cache-Control", "no-cache")
		_, _ = out.Write(signed)
	})
	return mux
}

// readBody reads the body of a request. If it cannot be read, readBody answers the request and reports false.
func readBody(out http.ResponseWriter, in *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(out, in.Body, maxBodyBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		http.Error(out, fmt.Sprintf("the request is longer than %d bytes", maxBodyBytes), http.StatusRequestEntityTooLarge)
		return nil, false
	}
	if err != nil {
		http.Error(out, "the request could not be read", http.StatusBadRequest)
		return nil, false
	}
	return body, true
}

func (w *Witness) serveAdd(out http.ResponseWriter, in *http.Request, body []byte) {
	r, err := parseRequest(body)
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	line, err := w.addCheckpoint(in.Context(), r)
	if refused, ok := errors.AsType[*refusal](err); ok {
		refused.write(out)
		return
	}
	if err != nil {
		w.logger.ErrorContext(in.Context(), "the witness could not cosign a checkpoint", "err", err)
		http.Error(out, "the witness cannot cosign now", http.StatusServiceUnavailable)
		return
	}
	out.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(out, line)
}

// write sends the response of a refusal.
func (r *refusal) write(out http.ResponseWriter) {
	if r.Reason == conflict {
		out.Header().Set("Content-Type", "text/x.tlog.size")
		out.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintf(out, "%d\n", r.Size)
		return
	}
	http.Error(out, r.text, map[refusalReason]int{
		malformed: http.StatusBadRequest, unknownOrigin: http.StatusNotFound, notSigned: http.StatusForbidden, inconsistent: http.StatusUnprocessableEntity,
	}[r.Reason])
}

// parseRequest parses the body of add-checkpoint.
func parseRequest(body []byte) (r request, err error) {
	head, signed, ok := strings.Cut(string(body), "\n\n")
	if !ok {
		return r, errors.New("the request has no empty line before the checkpoint")
	}
	lines := strings.Split(head, "\n")
	old, ok := strings.CutPrefix(lines[0], "old ")
	if r.Old, err = strconv.ParseUint(old, 10, 63); err != nil || !ok || strconv.FormatUint(r.Old, 10) != old {
		return r, fmt.Errorf("the first line is not the word old and a decimal size: %.80q", lines[0])
	}
	if len(lines)-1 > maxProofLines {
		return r, fmt.Errorf("the proof has more than %d lines", maxProofLines)
	}
	for _, line := range lines[1:] {
		h, err := proof.DecodeHash(line)
		if err != nil {
			return r, fmt.Errorf("a line of the proof: %w", err)
		}
		r.Proof = append(r.Proof, h)
	}
	r.Checkpoint = []byte(signed)
	return r, nil
}

// Serve serves the HTTP interface until ctx is done, and closes the listener. It then waits for the requests
// that it serves, up to their time limit.
func (w *Witness) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: w.Handler(), ReadHeaderTimeout: requestTime / 2, ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: idleTime, MaxHeaderBytes: 8 << 10,
	}
	var stopping sync.WaitGroup
	served, stop := context.WithCancel(ctx)
	stopping.Go(func() {
		<-served.Done()
		waiting, stop := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
		defer stop()
		if server.Shutdown(waiting) != nil {
			_ = server.Close()
		}
	})
	limited := &limitedListener{Listener: listener, most: maxConnections}
	limited.bind(server)
	err := server.Serve(limited)
	stop()
	stopping.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
