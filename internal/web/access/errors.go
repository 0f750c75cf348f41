package access

import (
	"fmt"
	"strconv"
	"time"
)

// TokenError is returned for a request without a token, or with an invalid one. Reason
// is sent to the client. It never contains the token.
type TokenError struct {
	Reason string
	// Missing is true if the request had no token.
	Missing bool
}

// Error returns the reason.
func (e *TokenError) Error() string { return e.Reason }

func badToken(format string, args ...any) *TokenError {
	return &TokenError{Reason: fmt.Sprintf(format, args...)}
}

// unknownToken returns the same error for a token that never existed and for one with a
// wrong secret.
func unknownToken() *TokenError {
	return badToken("the bearer token is not known here; ask the operator for one (daybook token create)")
}

// ScopeError is returned for a valid token without the required scope.
type ScopeError struct {
	Missing Scope
	Has     Scopes
}

// Error returns a message with the missing scope and the scopes of the token.
func (e *ScopeError) Error() string {
	return fmt.Sprintf("this needs the scope %q; the token has %q: use a token that has it", e.Missing, e.Has)
}

// UnavailableError is returned if tokens cannot be checked now. Reason is sent to the
// client, Err is for the log.
type UnavailableError struct {
	Reason string
	Err    error
}

// Error returns the reason.
func (e *UnavailableError) Error() string { return e.Reason }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// LimitError is returned if a tenant or principal exceeds a limit.
type LimitError struct {
	// Limit is the name of the operator's flag, without the dashes.
	Limit string
	// What is a human-readable name of the limited quantity.
	What string
	// Value is the limit. Used is the current use, or 0 for a rate.
	Value, Used float64
	// RetryAfter is the time after which a retry may succeed.
	RetryAfter time.Duration
	// Permanent is true if waiting alone does not help.
	Permanent bool
	// Advice tells the client what to do instead of waiting. Empty means the default
	// advice.
	Advice string
}

// Error returns a message with the limit, its value and the advice.
func (e *LimitError) Error() string {
	used := ""
	if e.Used > 0 {
		used = fmt.Sprintf(", %.0f in use", e.Used)
	}
	advice := fmt.Sprintf("try again in %d s", e.RetryAfterSeconds())
	switch {
	case e.Advice != "":
		advice = e.Advice
	case e.Permanent:
		advice = "it does not reset; ask the operator to raise it"
	}
	return fmt.Sprintf("over the limit of %s (%s: %s%s); %s", e.What, e.Limit, strconv.FormatFloat(e.Value, 'f', -1, 64), used, advice)
}

// RetryAfterSeconds returns RetryAfter in whole seconds, rounded up, at least 1.
func (e *LimitError) RetryAfterSeconds() int {
	return max(1, int((e.RetryAfter+time.Second-1)/time.Second))
}
