package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"daybook/internal/redact"
	"daybook/proof"
)

const (
	// copyTries is the maximum number of attempts to send a checkpoint. A newer checkpoint
	// replaces it immediately and gets as many attempts.
	copyTries = 3
	// copyWait is the maximum time of one attempt.
	copyWait = 10 * time.Second
)

// copySender sends copies of checkpoints to a service that stores them, without proofs and without
// an answer: Options.WitnessURL. It never blocks the
// signer: the newest checkpoint replaces those not sent yet.
type copySender struct {
	url    string
	log    *slog.Logger
	client *http.Client
	next   chan []byte
	pause  time.Duration // before the second attempt; doubled after each attempt
	failed int           // attempts that failed since the last success; used by run only
}

// CheckWitness returns an error unless address is a valid witness URL or empty.
func CheckWitness(address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("the witness %q is not the URL of an HTTP server: give a URL such as https://witness.example.com/daybook", redact.Address(address))
	}
	return nil
}

func newCopySender(address string, log *slog.Logger) (*copySender, error) {
	if err := CheckWitness(address); err != nil || address == "" {
		return nil, err
	}
	return &copySender{url: address, log: log, client: &http.Client{Timeout: copyWait}, next: make(chan []byte, 1), pause: time.Second}, nil
}

// offer queues a checkpoint in place of one that is not sent yet. It never waits.
func (w *copySender) offer(signed []byte) {
	for {
		select {
		case w.next <- signed:
			return
		default:
		}
		select {
		case <-w.next:
		default:
		}
	}
}

func (w *copySender) run(ctx context.Context) {
	defer w.client.CloseIdleConnections()
	for {
		select {
		case signed := <-w.next:
			w.send(ctx, signed)
		case <-ctx.Done():
			return
		}
	}
}

// logFailure logs an error of post, without the secrets in the address of the witness. The
// text of a *url.Error has the whole address.
func (w *copySender) logFailure(ctx context.Context, err error) {
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	w.log.WarnContext(ctx, "the witness does not accept checkpoints", "url", redact.Address(w.url), "err", err)
}

// send tries to send a checkpoint until the witness accepts it or copyTries attempts have failed.
// If a newer checkpoint is offered meanwhile, send continues with that one. It logs the error of the
// copyTries-th failed attempt since the last success, whichever checkpoints were sent.
func (w *copySender) send(ctx context.Context, signed []byte) {
	pause := w.pause
	for try := 1; ; try++ {
		err := w.post(ctx, signed)
		if err == nil {
			w.failed = 0
			return
		}
		if ctx.Err() != nil {
			return
		}
		if w.failed++; w.failed == copyTries {
			w.logFailure(ctx, err)
		}
		if try == copyTries {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause *= 2
		case signed = <-w.next:
			timer.Stop()
			try, pause = 0, w.pause
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (w *copySender) post(ctx context.Context, signed []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(signed))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, proof.MaxNoteBytes))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the witness answered %s", resp.Status)
	}
	return nil
}
