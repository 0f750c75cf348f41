package fetcher

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

var errTimeout = errors.New("fetch: the time is over")

// deniedError is returned for a request that the policy denies.
type deniedError struct{ hop Hop }

// Error returns the message for the script. Its beginning is that of mcp-v8.
func (e *deniedError) Error() string {
	text := fmt.Sprintf("fetch denied by policy: %s %s is not allowed (rule %s of policy %.12s", e.hop.Method, e.hop.URL, e.hop.Rule, e.hop.Policy)
	if e.hop.Problem != "" {
		text += ": " + e.hop.Problem
	}
	return text + ")"
}

// failure returns the result for an exchange that failed. Its text has neither addresses
// nor secrets: scripts must not learn about the network of this machine.
func (x *exchange) failure(ctx context.Context, err error) Result {
	if ctx.Err() != nil {
		if errors.Is(context.Cause(ctx), errTimeout) {
			return x.failed(TimedOut, fmt.Sprintf("no complete response within %s", x.fetcher.opts.Timeout))
		}
		return Result{Outcome: Cancelled, Text: []byte("the run ended first")}
	}
	if denied, ok := errors.AsType[*deniedError](err); ok {
		return x.failed(Failed, denied.Error())
	}
	text, isKnown := describe(err, x.fetcher.opts)
	if !isKnown {
		x.fetcher.opts.Logger.Debug("a fetch of a script failed", "tenant", x.caller.Tenant, "execution", x.caller.Execution, "error", x.hider().hide(err.Error()))
	}
	return x.failed(Failed, text)
}

// failed returns a result with a message. It adds the request that the message is about,
// unless the message is about it already.
func (x *exchange) failed(outcome Outcome, text string) Result {
	if last := len(x.hops) - 1; last >= 0 && x.hops[last].Allowed {
		text = fmt.Sprintf("fetch: %s %s: %s", x.hops[last].Method, x.hops[last].URL, text)
	}
	if n := len(x.hops); n > 1 {
		text += fmt.Sprintf("; it was redirected from %s", x.hops[0].URL)
	}
	return Result{Outcome: outcome, Text: []byte(strings.ToValidUTF8(x.hider().hide(text), "\uFFFD"))}
}

// describe words the error of an exchange for the script. It reports whether the words say
// what the error says.
func describe(err error, o Options) (text string, isKnown bool) {
	if own, ok := errors.AsType[message](err); ok {
		return own.Error(), true
	}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var timeout net.Error
	switch _, isRefused := errors.AsType[*refusedAddressError](err); {
	case isRefused:
		return "the host has no public address; the operator can permit other networks with --fetch-allow-network", true
	case errors.As(err, &dns) && dns.IsNotFound:
		return "the host does not exist", true
	case errors.As(err, &dns):
		return "the name of the host cannot be resolved now", false
	case errors.As(err, &certificate):
		return "the certificate of the server is not valid: " + certificate.Err.Error(), true
	case errors.As(err, &record):
		return "the server does not speak TLS; try http", false
	case errors.As(err, &alert):
		return "the server refused the TLS connection: " + alert.Error(), true
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the server refused the connection", true
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "the server is not reachable", true
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the server did not answer the connection in time", true
	case errors.Is(err, errTooLong):
		return fmt.Sprintf("the body of the response is longer than %d bytes", o.MaxResponseBytes), true
	case strings.Contains(err.Error(), "response headers exceeded"), strings.Contains(err.Error(), "header list too large"):
		return fmt.Sprintf("the headers of the response are longer than %d bytes", o.MaxHeaderBytes), true
	case strings.Contains(err.Error(), "malformed"), strings.Contains(err.Error(), "invalid header"), strings.Contains(err.Error(), "bad Content-Length"), strings.Contains(err.Error(), "transfer encoding"):
		return "the server's response is malformed", false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the server ended the connection before the end of the response", true
	}
	return "the request failed", false
}

// message is an error whose text is for scripts.
type message string

func (m message) Error() string { return string(m) }

func messagef(format string, args ...any) error { return message(fmt.Sprintf(format, args...)) }
