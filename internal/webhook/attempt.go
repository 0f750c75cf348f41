package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
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

// failureReason returns the cause of an error without the URL, which the client adds to every
// error.
func failureReason(err error) string {
	var at *url.Error
	if errors.As(err, &at) {
		if at.Timeout() {
			return "the receiver did not answer in time"
		}
		err = at.Err
	}
	var refused *refusedAddressError
	if errors.As(err, &refused) {
		return refused.Error()
	}
	return shorten(err.Error())
}

// maxReason is the maximum length of a recorded reason in bytes.
const maxReason = 300

func shorten(s string) string {
	if len(s) <= maxReason {
		return s
	}
	cut := maxReason
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
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
