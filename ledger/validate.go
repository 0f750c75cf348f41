package ledger

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"daybook/events"
)

// Limits of a client's request.
const (
	// MaxRequestBytes is the maximum length in bytes of a request of any interface: the
	// longest source with every character escaped, as clients in some languages do, and 1
	// MiB for everything else.
	MaxRequestBytes = 3*MaxCodeBytes + 1<<20
	// MaxCodeBytes is the maximum length of the source in bytes.
	MaxCodeBytes = 16 << 20
	// maxTags, maxTagKeyBytes and maxTagValueBytes limit the tags of one heap.
	maxTags          = 64
	maxTagKeyBytes   = 256
	maxTagValueBytes = 4 << 10
	// maxTagsJSONBytes limits a map of tags as JSON. The largest map of ordinary text
	// fits. Only a map that is both very large and mostly control characters exceeds the
	// limit.
	maxTagsJSONBytes = 320 << 10
	// MaxTimeoutSecs is the maximum wall-clock limit in seconds.
	MaxTimeoutSecs = 300
	// minHeapMemoryMB is the least heap limit of a V8 isolate in MiB. A smaller limit is
	// raised to it.
	minHeapMemoryMB = 8

	maxSessionChars  = 128
	maxFileNameChars = 255
	maxKeyBytes      = 256
	maxActorBytes    = 256
)

const defaultFileName = "main.ts"

var (
	tenantForm = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)
	// traceForm is version 00 of the W3C traceparent header.
	traceForm = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
)

func checkTenant(tenant string) error {
	if !tenantForm.MatchString(tenant) {
		return Invalid("tenant", `tenant must be 1 to 64 characters of a-z, 0-9, _ and -, not "%s"`, Excerpt(tenant))
	}
	return nil
}

func checkCode(code string) error {
	if len(code) > MaxCodeBytes {
		return &Error{Code: CodeTooLarge, Field: "code", Message: "code is longer than 16 MiB: split the script, or read the data it holds from the heap"}
	}
	if !utf8.ValidString(code) {
		return Invalid("code", "code must be valid UTF-8")
	}
	if at := strings.IndexByte(code, 0); at >= 0 {
		return Invalid("code", `code must not contain a NUL byte (found one at byte %d); write \0 in a string literal instead`, at)
	}
	return nil
}

func checkHeap(heap string) error {
	if !events.ValidHash(heap) {
		return Invalid("heap", `heap must be 64 lowercase hex characters, as an execution returns it, not "%s"`, Excerpt(heap))
	}
	return nil
}

func checkVisible(field, what, s string, most int) error {
	n := utf8.RuneCountInString(s)
	switch {
	case !utf8.ValidString(s):
		return Invalid(field, "%s must be valid UTF-8", what)
	case n < 1 || n > most:
		return Invalid(field, "%s must be 1 to %d characters, not %d", what, most, n)
	case strings.TrimSpace(s) != s:
		return Invalid(field, "%s must not begin or end with a space or a line break", what)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return Invalid(field, "%s must be visible characters only; found %U", what, r)
		}
	}
	return nil
}

// CheckSession returns a CodeInvalid *Error if runs cannot be logged under a name, which
// is 1 to 128 visible characters. Adapters that receive the name before the submission
// call it to refuse an invalid name early. Submit checks the name again.
func CheckSession(name string) error {
	return checkVisible("session", "session", name, maxSessionChars)
}

func checkIdempotencyKey(key string) error {
	if len(key) > maxKeyBytes {
		return Invalid("idempotency_key", "idempotency_key must be 1 to %d characters, not %d", maxKeyBytes, len(key))
	}
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7e {
			return Invalid("idempotency_key", "idempotency_key must be visible ASCII characters without spaces; found 0x%02x at byte %d", key[i], i)
		}
	}
	return nil
}

// checkContext refuses an invalid reference to a conversation context. Adapters make
// these references, not clients.
func checkContext(c *events.ContextRef) error {
	if c != nil && (!events.ValidHash(c.Key) || !events.ValidHash(c.SessionID) || c.Kind == "") {
		return Invalid("context", "the context of a run must have a key, an id and a kind")
	}
	return nil
}

// checkTags checks every map of tags that reaches the ledger, so that a recorded edit
// always fits an event.
func checkTags(tags map[string]string) error {
	if len(tags) > maxTags {
		return Invalid("tags", "tags must be at most %d, not %d", maxTags, len(tags))
	}
	for k, v := range tags {
		switch {
		case strings.TrimSpace(k) == "":
			return Invalid("tags", "tags: a key must not be empty")
		case strings.TrimSpace(k) != k:
			return Invalid("tags", `tags: key "%s" must not begin or end with a space`, Excerpt(k))
		case strings.ContainsFunc(k, unicode.IsControl):
			return Invalid("tags", `tags: key "%s" must not contain control characters such as line breaks, tabs and NUL`, Excerpt(k))
		case strings.Contains(k, ","):
			return Invalid("tags", `tags: key "%s" must not contain a comma, which separates keys when tags are deleted`, Excerpt(k))
		case len(k) > maxTagKeyBytes:
			return Invalid("tags", `tags: key "%s" is longer than %d bytes`, Excerpt(k), maxTagKeyBytes)
		case len(v) > maxTagValueBytes:
			return Invalid("tags", `tags: the value of "%s" is longer than %d bytes`, Excerpt(k), maxTagValueBytes)
		case !utf8.ValidString(k):
			return Invalid("tags", `tags: key "%s" must be valid UTF-8`, Excerpt(k))
		case !utf8.ValidString(v):
			return Invalid("tags", `tags: the value of "%s" must be valid UTF-8`, Excerpt(k))
		}
	}
	if n := jsonLen(tags); n > maxTagsJSONBytes {
		return Invalid("tags", "tags take %d bytes as JSON, more than %d: shorten the values, or use fewer control characters", n, maxTagsJSONBytes)
	}
	return nil
}

// resolveLimits returns the limits of a run: the requested ones after a check, or the defaults.
func (l *Ledger) resolveLimits(s Submission) (lim events.Limits, warnings []string, err error) {
	lim = events.Limits{
		HeapMemoryMaxMB:      l.opts.HeapMemoryMB,
		ExecutionTimeoutSecs: l.opts.TimeoutSecs,
		OutputMaxBytes:       max(l.opts.OutputMaxBytes, 0),
	}
	if t := s.ExecutionTimeoutSecs; t != nil {
		if *t < 1 || *t > MaxTimeoutSecs {
			return lim, nil, Invalid("execution_timeout_secs", "execution_timeout_secs must be 1 to %d, not %d", MaxTimeoutSecs, *t)
		}
		lim.ExecutionTimeoutSecs = *t
	}
	if m := s.HeapMemoryMaxMB; m != nil {
		switch {
		case *m < 1 || *m > l.opts.HeapMemoryCeilingMB:
			return lim, nil, Invalid("heap_memory_max_mb", "heap_memory_max_mb is %d MiB, %s: it must be 1 to %d MiB (less than %d counts as %[4]d)%s", *m, compareToRange(*m, l.opts.HeapMemoryCeilingMB), l.opts.HeapMemoryCeilingMB, minHeapMemoryMB, adviceForCeiling(*m))
		case *m < minHeapMemoryMB:
			warnings = append(warnings, "heap_memory_max_mb was raised to 8, the least an isolate starts with")
			lim.HeapMemoryMaxMB = minHeapMemoryMB
		default:
			lim.HeapMemoryMaxMB = *m
		}
	}
	return lim, warnings, nil
}

// compareToRange says on which side of the range of heap limits a value is.
func compareToRange(mb, ceiling int) string {
	if mb > ceiling {
		return fmt.Sprintf("%d MiB more than this server allows", mb-ceiling)
	}
	return "less than 1 MiB"
}

func adviceForCeiling(mb int) string {
	if mb < 1 {
		return ""
	}
	return "; the operator raises the maximum with --heap-memory-ceiling"
}

// sanitizeActor makes an actor safe to record: it truncates the fields that clients
// choose and replaces invalid UTF-8.
func sanitizeActor(a events.Actor) events.Actor {
	a.Principal = truncate(strings.ToValidUTF8(a.Principal, "?"), maxActorBytes)
	a.Transport = truncate(strings.ToValidUTF8(a.Transport, "?"), maxActorBytes)
	a.Client = truncate(strings.ToValidUTF8(a.Client, "?"), maxActorBytes)
	a.Address = truncate(strings.ToValidUTF8(a.Address, "?"), maxActorBytes)
	if a.Principal == "" {
		a.Principal = "anonymous"
	}
	return a
}

// validTraceparent returns a trace context unchanged, or an empty text if it is malformed.
// A malformed trace context MUST be ignored and never reaches a message header.
func validTraceparent(traceparent string) string {
	if !traceForm.MatchString(traceparent) {
		return ""
	}
	return traceparent
}

// truncate returns at most n bytes of s without a partial character.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// ErrRequestTooLarge is the answer of every interface to a request longer than
// MaxRequestBytes.
var ErrRequestTooLarge = &Error{Code: CodeTooLarge, Message: fmt.Sprintf(
	"the request is larger than %d MiB; code may have %d MiB: send a shorter script, or keep data in the heap of an earlier run", MaxRequestBytes>>20, MaxCodeBytes>>20)}
