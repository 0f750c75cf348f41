package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"daybook/events"
	"daybook/internal/web/client"
)

// sessionHelp describes the argument for a session. Completion recognizes the argument
// by this text.
const sessionHelp = "Name, intent, ref or id of a session, or a unique prefix."

// oneSession is embedded in commands about one session.
type oneSession struct {
	Name string `arg:"" help:"${session_help}" placeholder:"SESSION"`
}

// check returns an error for a name that no request can hold.
func (o oneSession) check() error {
	switch o.Name {
	case "":
		return usageError{errors.New(`the name of the session is empty; "daybook session list" lists sessions`)}
	case ".", "..": // no path can hold these
		return usageError{fmt.Errorf(`name the session %q by its id; "daybook session list" lists sessions`, o.Name)}
	}
	return nil
}

// Hints for the error of an unknown session.
const (
	listSessions = `"daybook session list" lists sessions`
	openSession  = listSessions + `, "daybook session open" opens one`
)

// withSessionHint adds a hint to the error of an unknown session.
func withSessionHint(err error, hint string) error {
	if refused := unknownSession(err); refused != nil {
		refused.Message = strings.TrimSuffix(refused.Message, "; call open_session to open one") + "; " + hint
	}
	return err
}

// unknownSession returns the error of the server for an unknown session, or nil.
func unknownSession(err error) *client.Error {
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound && (refused.Field == "session" || refused.Field == "logical_session") {
		return refused
	}
	return nil
}

// sessionKey returns the id of the logical or ACP session that a text means. instead is
// the advice if the session is a named one.
func (f clientFlags) sessionKey(ctx context.Context, text, instead string) (string, error) {
	if text == "" || wholeHeap.MatchString(text) {
		return text, nil
	}
	if err := (oneSession{text}).check(); err != nil {
		return "", err
	}
	answer, err := f.api().Session(ctx, text)
	if err != nil {
		return "", withSessionHint(err, openSession)
	}
	s := answer.Body
	if s.Kind == events.SessionLog {
		return "", usageError{fmt.Errorf("session %s only logs runs: %s", labelOf(s.SessionID, s.Name), instead)}
	}
	return s.SessionID, nil
}

// sessionHead returns the key of the session head, or an empty string for a fresh
// isolate.
func (f clientFlags) sessionHead(ctx context.Context, id string) (string, error) {
	s, err := f.api().Session(ctx, id)
	if err != nil {
		return "", withSessionHint(err, openSession)
	}
	if s.Body.Head == nil {
		return "", nil
	}
	return *s.Body.Head, nil
}

// noteUnknownSession explains on stderr why nothing was listed if no session has the name.
// It prints nothing for an empty name or with --json.
func (f clientFlags) noteUnknownSession(ctx context.Context, std *streams, name string) {
	if f.JSON || (oneSession{name}).check() != nil {
		return
	}
	if _, err := f.api().Session(ctx, name); unknownSession(err) != nil {
		std.err.Printf("no session is called %s; \"daybook session list\" lists them\n", strconv.Quote(name))
	}
}
