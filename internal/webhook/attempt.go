package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// outcome is the result of one attempt. The zero value is success.
type outcome struct {
	// reason is the human-readable cause of a failure; empty for success. It holds
	// neither data of the receiver nor its URL, because either may contain a secret.
	reason string
	// status is the HTTP status of the response; 0 without one.
	status int
	// retryAfter is the time for which the receiver asked for no further attempt.
	retryAfter time.Duration
}

func (o outcome) isFailure() bool { return o.reason != "" }

// isGone reports whether the receiver wants no more deliveries.
func (o outcome) isGone() bool { return o.status == http.StatusGone }

// message is the form of an event for a receiver. It is the same for each attempt.
type message struct {
	id   string
	body []byte
}

// attempt posts a message once.
func attempt(ctx context.Context, client *http.Client, to string, secret Secret, m message) outcome {
	now := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(m.body))
	if err != nil {
		return outcome{reason: "the URL cannot be used"}
	}
	req.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	req.Header.Set("User-Agent", "Daybook-Webhook/1")
	req.Header.Set(headerID, m.id)
	req.Header.Set(headerTimestamp, fmt.Sprint(now.Unix()))
	req.Header.Set(headerSignature, secret.sign(m.id, now, m.body))
	resp, err := client.Do(req)
	if err != nil {
		return outcome{reason: failureReason(err)}
	}
	defer resp.Body.Close()
	// The body is read up to a limit, so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswerBody)
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return outcome{}
	case code >= 300 && code < 400:
		return outcome{reason: fmt.Sprintf("the receiver answered %s: redirects are not followed, register the address it leads to", statusText(code)), status: code}
	default:
		return outcome{reason: "the receiver answered " + statusText(code), status: code, retryAfter: retryAfter(resp.Header, now)}
	}
}

// statusText names a status with the text of the Go library, because the receiver's own
// text could contain anything.
func statusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return fmt.Sprintf("%d %s", code, text)
	}
	return fmt.Sprint(code)
}

// failureReason returns the cause of an error in words of this package. Those of the error
// may quote the URL, or what the receiver sent: its answer, and the names in its
// certificate.
func failureReason(err error) string {
	if at, ok := errors.AsType[*url.Error](err); ok {
		if at.Timeout() {
			return "the receiver did not answer in time"
		}
		err = at.Err
	}
	if refused, ok := errors.AsType[*refusedAddressError](err); ok {
		return refused.Error()
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		if name.IsNotFound {
			return "the receiver's host name does not exist"
		}
		return "the receiver's host name cannot be resolved"
	}
	if reason := tlsReason(err); reason != "" {
		return reason
	}
	doing := "the connection to the receiver broke"
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		doing = "the receiver cannot be reached"
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return doing + ": " + number.Error()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the receiver closed the connection without an answer"
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return doing
	}
	return "the receiver's answer is not valid HTTP"
}

// tlsReason returns the cause of an error of TLS, or empty for another error.
func tlsReason(err error) string {
	// http.ErrSchemeMismatch replaces the error of TLS if the receiver answers with HTTP.
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return "the receiver does not speak TLS"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the receiver's certificate is signed by an unknown authority"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the receiver's certificate is for another host name"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "the receiver's certificate has expired or is not valid yet"
		}
		return "the receiver's certificate is not valid"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the receiver's certificate is not valid"
	}
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		return fmt.Sprintf("the receiver refused the TLS connection (alert %d)", uint8(alert))
	}
	return ""
}

// backoff returns the pause after a failed attempt; failed counts from 1. The pause
// doubles each time and varies by a quarter in both directions, so that retries of many
// webhooks to one recovered receiver do not arrive together.
func (o Options) backoff(failed int) time.Duration {
	d := o.BackoffMax
	if shift := failed - 1; shift < 32 && o.BackoffFirst<<shift < o.BackoffMax && o.BackoffFirst<<shift > 0 {
		d = o.BackoffFirst << shift
	}
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}

// retryAfter returns the pause that a receiver asks for, or 0 if it asks for none. The
// header Retry-After contains a number of seconds or a time.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if secs, err := strconv.ParseInt(text, 10, 32); err == nil && secs > 0 {
		return time.Duration(secs) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
