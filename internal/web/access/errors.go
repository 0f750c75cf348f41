package access

import (
	"fmt"
	"strconv"
	"time"
)

// TokenError means that a request carries no token, or none that is good.
// Reason is for the client: it never holds the token.
type TokenError struct {
	Reason string
	// Missing is true when there was no token at all.
	Missing bool
}

// Error returns the reason.
func (e *TokenError) Error() string { return e.Reason }

func badToken(format string, args ...any) *TokenError {
	return &TokenError{Reason: fmt.Sprintf(format, args...)}
}

// unknownToken says the same of a token that never existed and of one with a
// wrong secret.
func unknownToken() *TokenError {
	return badToken("the bearer token is not known here; ask the operator for one (daybook token create)")
}

// ScopeError means that a token is good but does not allow what was asked.
type ScopeError struct {
	Missing Scope
	Has     Scopes
}

// Error names the missing scope and those there are.
func (e *ScopeError) Error() string {
	return fmt.Sprintf("this needs the scope %q; the token has %q: use a token that has it", e.Missing, e.Has)
}

// UnavailableError means that nobody can be identified now. Reason is for the
// client, Err for the log.
type UnavailableError struct {
	Reason string
	Err    error
}

// Error returns the reason.
func (e *UnavailableError) Error() string { return e.Reason }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// LimitError means that a tenant or a principal is over a limit.
type LimitError struct {
	// Limit names it as the operator's flag does, without the dashes.
	Limit string
	// What is limited, for people.
	What string
	// Value is the limit, Used what counts against it; Used is 0 for a rate.
	Value, Used float64
	// RetryAfter is when it is worth asking again.
	RetryAfter time.Duration
	// Permanent is true when waiting alone does not help.
	Permanent bool
	// Advice says what to do instead of waiting; empty for the common advice.
	Advice string
}

// Error says which limit, its value, and what to do.
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
		advice = "nothing frees it by itself: ask the operator to raise it"
	}
	return fmt.Sprintf("over the limit of %s (%s: %s%s); %s", e.What, e.Limit, strconv.FormatFloat(e.Value, 'f', -1, 64), used, advice)
}

// RetryAfterSeconds is RetryAfter in whole seconds, at least 1.
func (e *LimitError) RetryAfterSeconds() int {
	return max(1, int((e.RetryAfter+time.Second-1)/time.Second))
}
