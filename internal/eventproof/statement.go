package eventproof

import (
	"errors"

	"daybook/events"
	"daybook/proof"
)

// CompareStatement returns an error if the members of an event differ from the statement in its note.
func CompareStatement(d *events.LedgerSignersChanged, st proof.Statement) error {
	ended := ""
	if d.Ended != nil {
		ended = d.Ended.Origin
	}
	if st.Origin != d.Origin || st.Number != d.Number || string(st.Action) != d.Action || st.Key != d.Key || st.Predecessor != ended {
		return errors.New("the event differs from the statement that it holds")
	}
	return nil
}
