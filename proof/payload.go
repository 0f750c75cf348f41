package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// freeMembers are the names of the members of payloads whose values clients choose: names of members
// below them may be any, and repeat.
var freeMembers = []string{"tags", "custom", "args"}

// payloadObject is an object or a list of a payload that is not complete yet.
type payloadObject struct {
	isList bool
	// free is true below a member of freeMembers, and nextFree if the value that follows is that of one.
	free, nextFree bool
	// first is the index of its first name, and seen has all names if there are many.
	first int
	seen  map[string]bool
}

// manyNames is the number of names of an object from which a map finds a repeated one.
const manyNames = 32

var errNoJSON = errors.New("the payload is not JSON in UTF-8")

// CheckPayload returns an error unless the payload of an event of Daybook is JSON that all readers understand
// equally. Of two members with one name, readers use the first, the last or both, and some take a name in
// other letters for the same. So all names of members are of the letters a to z, digits and underscores, and
// no object has a name twice. freeMembers are not checked.
func CheckPayload(payload []byte) error {
	if !utf8.Valid(payload) || !json.Valid(payload) {
		return errNoJSON
	}
	var open []payloadObject
	var names [][]byte
	isName := false // the next text is the name of a member
	for i := 0; i < len(payload); i++ {
		switch payload[i] {
		case '{', '[':
			o := payloadObject{isList: payload[i] == '[', first: len(names)}
			if n := len(open); n > 0 {
				o.free = open[n-1].free || open[n-1].nextFree
			}
			open, isName = append(open, o), !o.isList
		case '}', ']':
			names = names[:open[len(open)-1].first]
			open, isName = open[:len(open)-1], false
		case ',':
			in := &open[len(open)-1]
			isName, in.nextFree = !in.isList, false
		case '"':
			begin := i
			for i++; payload[i] != '"'; i++ {
				if payload[i] == '\\' {
					i++
				}
			}
			if !isName {
				continue
			}
			isName = false
			in := &open[len(open)-1]
			if in.free {
				continue
			}
			name, err := plainName(payload[begin : i+1])
			if err != nil {
				return err
			}
			if in.has(name, names) {
				return fmt.Errorf("an object of the payload has the member %.80q twice", name)
			}
			names = append(names, name)
			in.nextFree = slices.Contains(freeMembers, string(name))
		}
	}
	return nil
}

// plainName returns the name of a member, of which text is the form in JSON.
func plainName(text []byte) ([]byte, error) {
	name := text[1 : len(text)-1]
	if slices.Contains(name, '\\') {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, err
		}
		name = []byte(s)
	}
	other := func(c byte) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' }
	if len(name) == 0 || slices.ContainsFunc(name, other) {
		return nil, fmt.Errorf("the payload has the member %.80q; names of members are lowercase letters, digits and underscores", name)
	}
	return name, nil
}

// has reports whether an object has a member already. names are those of all open objects.
func (o *payloadObject) has(name []byte, names [][]byte) bool {
	names = names[o.first:]
	if len(names) < manyNames {
		return slices.ContainsFunc(names, func(n []byte) bool { return string(n) == string(name) })
	}
	if o.seen == nil {
		o.seen = map[string]bool{}
		for _, n := range names {
			o.seen[string(n)] = true
		}
	}
	had := o.seen[string(name)]
	o.seen[string(name)] = true
	return had
}
