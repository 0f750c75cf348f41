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

// The codes of failures, at the end of their messages. The prelude takes them from there for
// the causes of the errors that scripts get. Where Node has a code for a failure it is that one.
const (
	codeRequest  = "ERR_FETCH_REQUEST"
	codeTooLarge = "ERR_FETCH_TOO_LARGE"
	codeDenied   = "ERR_FETCH_DENIED"
	codeAddress  = "ERR_FETCH_ADDRESS"
	codeTLS      = "ERR_FETCH_TLS"
	codeRedirect = "ERR_FETCH_REDIRECT"
	codeResponse = "ERR_FETCH_RESPONSE"
	codeMemory   = "ERR_FETCH_MEMORY"
	codeToken    = "ERR_FETCH_TOKEN"
	codeOther    = "ERR_FETCH_FAILED"
	codeTimeout  = "ETIMEDOUT"
	codeEnded    = "ECONNRESET"
)

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
			if errors.Is(err, errNoTokenYet) {
				return x.failed(TimedOut, codeTimeout, fmt.Sprintf("no access token for an added header within %s", x.fetcher.opts.Timeout))
			}
			return x.failed(TimedOut, codeTimeout, fmt.Sprintf("no complete response within %s", x.fetcher.opts.Timeout))
		}
		return Result{Outcome: Cancelled, Text: []byte("the run ended first")}
	}
	if denied, ok := errors.AsType[*deniedError](err); ok {
		return x.failed(Failed, codeDenied, denied.Error())
	}
	text, code, isKnown := describe(err, x.fetcher.opts)
	if !isKnown {
		x.fetcher.opts.Logger.Debug("a fetch of a script failed", "tenant", x.caller.Tenant, "execution", x.caller.Execution, "error", x.hider().hide(err.Error()))
	}
	return x.failed(Failed, code, text)
}

// failed returns a result with a message and a code. It adds the request that the message is about,
// unless the message is about it already.
func (x *exchange) failed(outcome Outcome, code, text string) Result {
	if last := len(x.hops) - 1; last >= 0 && x.hops[last].Allowed {
		text = fmt.Sprintf("fetch: %s %s: %s", x.hops[last].Method, x.hops[last].URL, text)
	}
	if n := len(x.hops); n > 1 {
		text += fmt.Sprintf("; it was redirected from %s", x.hops[0].URL)
	}
	return Result{Outcome: outcome, Text: []byte(withCode(strings.ToValidUTF8(x.hider().hide(text), "\uFFFD"), code))}
}

func withCode(text, code string) string { return fmt.Sprintf("%s [%s]", text, code) }

// describe words the error of an exchange for the script, and returns its code. It reports
// whether the words say what the error says.
func describe(err error, o Options) (text, code string, isKnown bool) {
	if own, ok := errors.AsType[*message](err); ok {
		return own.text, own.code, true
	}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var timeout net.Error
	switch _, isRefused := errors.AsType[*refusedAddressError](err); {
	case isRefused:
		return "the host has no public address; the operator can permit other networks with --fetch-allow-network", codeAddress, true
	case errors.As(err, &dns) && dns.IsNotFound:
		return "the host does not exist", "ENOTFOUND", true
	case errors.As(err, &dns):
		return "the name of the host cannot be resolved now", "EAI_AGAIN", false
	case errors.As(err, &certificate):
		return "the certificate of the server is not valid: " + certificate.Err.Error(), codeTLS, true
	case errors.As(err, &record):
		return "the server does not speak TLS; try http", codeTLS, false
	case errors.As(err, &alert):
		return "the server refused the TLS connection: " + alert.Error(), codeTLS, true
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the server refused the connection", "ECONNREFUSED", true
	case errors.Is(err, syscall.EHOSTUNREACH):
		return "the server is not reachable", "EHOSTUNREACH", true
	case errors.Is(err, syscall.ENETUNREACH):
		return "the network of the server is not reachable", "ENETUNREACH", true
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the server did not answer the connection in time", codeTimeout, true
	case errors.Is(err, errTooLong):
		return fmt.Sprintf("the body of the response is longer than %d bytes", o.MaxResponseBytes), codeTooLarge, true
	case strings.Contains(err.Error(), "response headers exceeded"), strings.Contains(err.Error(), "header list too large"):
		return fmt.Sprintf("the headers of the response are longer than %d bytes", o.MaxHeaderBytes), codeTooLarge, true
	case strings.Contains(err.Error(), "malformed"), strings.Contains(err.Error(), "invalid header"), strings.Contains(err.Error(), "bad Content-Length"), strings.Contains(err.Error(), "transfer encoding"):
		return "the server's response is malformed", codeResponse, false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the server ended the connection before the end of the response", codeEnded, true
	}
	return "the request failed", codeOther, false
}

// message is an error whose text and code are for scripts.
type message struct{ text, code string }

func (m *message) Error() string { return m.text }

func messagef(code, format string, args ...any) error {
	return &message{text: fmt.Sprintf(format, args...), code: code}
}
