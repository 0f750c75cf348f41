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
	// maxRequests is the number of requests whose bodies are in memory at the same time.
	maxRequests = 32
	// maxConnections is the number of connections that are served at the same time; further ones wait.
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
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			w.serveAdd(out, in)
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

func (w *Witness) serveAdd(out http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(out, in.Body, maxBodyBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		http.Error(out, fmt.Sprintf("the request is longer than %d bytes", maxBodyBytes), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(out, "the request could not be read", http.StatusBadRequest)
		return
	}
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
	err := server.Serve(&limitedListener{Listener: listener, places: make(chan struct{}, maxConnections), closed: make(chan struct{})})
	stop()
	stopping.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// limitedListener accepts a connection only while fewer than cap(places) are open.
type limitedListener struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.places })}, nil
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
