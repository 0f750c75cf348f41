package proof_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"daybook/proof"
)

const (
	originOne = "daybook/one"
	originTwo = "daybook/two"
)

// signerKey is a key that can sign statements and checkpoints.
type signerKey struct {
	note.Signer
	vkey string
}

// newSignerKeys returns new keys with a name. The hash of each has a letter, see otherForm.
func newSignerKeys(t testing.TB, name string, n int) (list []signerKey) {
	t.Helper()
	for len(list) < n {
		signer, vkey := newLogKey(t, name)
		if hash := strings.SplitN(vkey, "+", 3)[1]; hash != strings.ToUpper(hash) {
			list = append(list, signerKey{signer, vkey})
		}
	}
	return list
}

// start returns the statement that starts an origin after those of a list.
func start(s *proof.Signers, origin string, key signerKey, size uint64) proof.Statement {
	st := s.Next(proof.StartOrigin, key.vkey, size)
	st.Origin, st.Predecessor = origin, s.Origin()
	return st
}

// signed returns the note of a statement that a key signed.
func signed(t testing.TB, st proof.Statement, by signerKey) []byte {
	t.Helper()
	st, err := st.Sign(by)
	if err != nil {
		t.Fatal(err)
	}
	return st.Note
}

// mustAdd appends a statement that a key signed.
func mustAdd(t testing.TB, s *proof.Signers, st proof.Statement, by signerKey) {
	t.Helper()
	if added, err := s.Add(signed(t, st, by)); err != nil || !added {
		t.Fatalf("%+v: added %t, %v", st, added, err)
	}
}

// A list has exactly the statements that the specification allows.
func TestSignersThatAreRefused(t *testing.T) {
	t.Parallel()
	one, two := newSignerKeys(t, originOne, 4), newSignerKeys(t, originTwo, 3)
	a, b, retired, stranger := one[0], one[1], one[2], one[3]
	x, y, root := two[0], two[1], newSignerKeys(t, proof.RootKeyPrefix+"1", 1)[0]
	list := &proof.Signers{}
	mustAdd(t, list, start(list, originOne, a, 0), a)
	mustAdd(t, list, list.Next(proof.IntroduceSigner, b.vkey, 3), a)
	mustAdd(t, list, list.Next(proof.AddRoot, root.vkey, 4), b)
	mustAdd(t, list, list.Next(proof.IntroduceSigner, retired.vkey, 5), root)
	mustAdd(t, list, list.Next(proof.RetireSigner, retired.vkey, 6), a)
	if !slices.Equal(list.Keys(), []string{a.vkey, b.vkey}) || !slices.Equal(list.Roots(), []string{root.vkey}) || list.Origin() != originOne {
		t.Fatalf("signers %q and roots %q of %s", list.Keys(), list.Roots(), list.Origin())
	}
	successor := list.Clone()
	mustAdd(t, successor, start(list, originTwo, x, 2), x)
	if !slices.Equal(successor.Keys(), []string{x.vkey}) || len(successor.Roots()) > 0 || successor.Origin() != originTwo {
		t.Fatalf("signers %q and roots %q of %s", successor.Keys(), successor.Roots(), successor.Origin())
	}
	olderStart := start(&proof.Signers{}, originOne, a, 7)
	olderStart.Predecessor = "daybook/older"
	mustAdd(t, &proof.Signers{}, olderStart, a) // the predecessor can be older than the list

	next := list.Next(proof.IntroduceSigner, stranger.vkey, 7)
	with := func(st proof.Statement, change func(st *proof.Statement)) proof.Statement {
		change(&st)
		return st
	}
	// rewritten returns a statement with another text, which a signer signed.
	rewritten := func(old, changed string) []byte {
		text, _, _ := strings.Cut(string(signed(t, next, a)), "\n\n")
		text += "\n"
		if strings.Count(text, old) != 1 {
			t.Fatalf("%q is not once in\n%s", old, text)
		}
		return signText(t, strings.Replace(text, old, changed, 1), a)
	}
	for name, tt := range map[string]struct {
		to   *proof.Signers
		note []byte
		want string // a part of the error
	}{
		"an index is left out":              {list, signed(t, with(next, func(st *proof.Statement) { st.Number++ }), a), "does not continue"},
		"an index again":                    {list, signed(t, with(next, func(st *proof.Statement) { st.Number-- }), a), "does not continue"},
		"the hash of another statement":     {list, signed(t, with(next, func(st *proof.Statement) { st.Previous[0] ^= 1 }), a), "does not continue"},
		"a key that introduces itself":      {list, signed(t, next, stranger), "no signer or root key"},
		"a key that was retired":            {list, signed(t, next, retired), "no signer or root key"},
		"a root key of the origin before":   {successor, signed(t, successor.Next(proof.IntroduceSigner, y.vkey, 7), root), "no signer or root key"},
		"a signer of the origin before":     {successor, signed(t, successor.Next(proof.IntroduceSigner, y.vkey, 7), a), "no signer or root key"},
		"the origin before":                 {successor, signed(t, with(successor.Next(proof.IntroduceSigner, stranger.vkey, 7), func(st *proof.Statement) { st.Origin = originOne }), x), "the current origin is"},
		"another origin":                    {list, signed(t, with(list.Next(proof.IntroduceSigner, y.vkey, 7), func(st *proof.Statement) { st.Origin = originTwo }), a), "the current origin is"},
		"a signer with another name":        {list, signed(t, list.Next(proof.IntroduceSigner, y.vkey, 7), a), "must be named so"},
		"a retirement of no signer":         {list, signed(t, list.Next(proof.RetireSigner, stranger.vkey, 7), a), "no signer"},
		"a retirement of a root key":        {list, signed(t, list.Next(proof.RetireSigner, root.vkey, 7), a), "must be named so"},
		"a root key named as a signer":      {list, signed(t, list.Next(proof.AddRoot, stranger.vkey, 7), a), "begins with daybook-root/"},
		"an origin named as a root key":     {&proof.Signers{}, signed(t, start(&proof.Signers{}, root.Name(), root, 0), root), "root keys are named so"},
		"a key in other letters":            {list, signed(t, list.Next(proof.IntroduceSigner, otherForm(t, stranger.vkey), 7), a), "not a verification key"},
		"an empty line in the text":         {list, rewritten("\n7\n", "\n7\n\nmore\n"), "base64"},
		"a wrong signature of a signer":     {list, append(signed(t, next, a), bytes.SplitAfter(signed(t, list.Next(proof.AddRoot, root.vkey, 7), b), []byte("\n\n"))[1]...), "is wrong"},
		"a second retirement":               {list, signed(t, list.Next(proof.RetireSigner, retired.vkey, 7), a), "already retired: by statement"},
		"a retirement of another key":       {list, signed(t, list.Next(proof.RetireSigner, stranger.vkey, 7), a), "no signer"},
		"another action":                    {list, signed(t, list.Next("remove", a.vkey, 7), a), "newer version"},
		"no verification key":               {list, signed(t, list.Next(proof.IntroduceSigner, "nokey", 7), a), "not a verification key"},
		"a start by the signer before":      {list, signed(t, start(list, originTwo, x, 2), a), "its own key did not sign it"},
		"a start by a root key":             {list, signed(t, start(list, originTwo, x, 2), root), "its own key did not sign it"},
		"a start without a predecessor":     {list, signed(t, with(start(list, originTwo, x, 2), func(st *proof.Statement) { st.Predecessor = "" }), x), "does not succeed"},
		"a start after another origin":      {list, signed(t, with(start(list, originTwo, x, 2), func(st *proof.Statement) { st.Predecessor = "daybook/other" }), x), "does not succeed"},
		"a start of an origin that started": {successor, signed(t, start(successor, originOne, stranger, 2), stranger), "does not succeed"},
		"a start after itself":              {list, signed(t, start(list, originOne, stranger, 2), stranger), "contradicts itself"},
		"a start with the key of another":   {list, signed(t, start(list, originTwo, stranger, 2), stranger), "must be named so"},
		"a predecessor without a start":     {list, signed(t, with(next, func(st *proof.Statement) { st.Predecessor = originTwo }), a), "contradicts itself"},
		"no start at the beginning":         {&proof.Signers{}, signed(t, with((&proof.Signers{}).Next(proof.IntroduceSigner, a.vkey, 0), func(st *proof.Statement) { st.Origin = originOne }), a), "the current origin is"},
		"another version":                   {list, rewritten("daybook-signers-v1\n", "daybook-signers-v2\n"), "daybook-signers-v1"},
		"an index with a zero before":       {list, rewritten("\n5\n", "\n05\n"), "shortest form"},
		"a size with a zero before":         {list, rewritten("\n7\n", "\n07\n"), "shortest form"},
		"a size with a sign":                {list, rewritten("\n7\n", "\n+7\n"), "invalid syntax"},
		"a size of 2^63":                    {list, rewritten("\n7\n", "\n9223372036854775808\n"), "out of range"},
		"a short hash":                      {list, rewritten("\n5\n", "\n5\nAAAA\n"), "7 lines"},
		"a line more":                       {list, rewritten("\n7\n", "\n7\nmore\n"), "7 lines"},
		"no line of the size":               {list, rewritten("\n7\n", "\n"), "5 lines"},
		"two spaces before the key":         {list, rewritten("introduce ", "introduce  "), "not a verification key"},
		"no signature":                      {list, append(bytes.SplitAfter(signed(t, next, a), []byte("\n\n"))[0], "\u2014 w AAAAAAEC\n"...), "no signer or root key"},
		"no note":                           {list, []byte("x"), "not a signed note"},
		"a note that is too long":           {list, append(signed(t, next, a), bytes.Repeat([]byte("\u2014 w AAAAAAEC\n"), proof.MaxNoteBytes/10)...), "64 KiB"},
	} {
		before := tt.to.Bytes()
		added, err := tt.to.Add(tt.note)
		if err == nil || added || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: added %t, %v, want %q", name, added, err, tt.want)
		}
		if _, err := proof.ParseSigners(append(bytes.Clone(before), append(tt.note, '\n')...)); err == nil {
			t.Errorf("%s: a list with it is parsed", name)
		}
		if !bytes.Equal(tt.to.Bytes(), before) {
			t.Fatalf("%s: the list was changed", name)
		}
	}
}

// A list is written and read as text. Two lists continue each other up to the first statement that
// differs.
func TestListsOfSigners(t *testing.T) {
	t.Parallel()
	keys := newSignerKeys(t, originOne, 3)
	list := &proof.Signers{}
	var shorter []*proof.Signers
	for _, key := range keys {
		shorter = append(shorter, list.Clone())
		if list.Origin() == "" {
			mustAdd(t, list, start(list, originOne, key, 0), key)
			continue
		}
		mustAdd(t, list, list.Next(proof.IntroduceSigner, key.vkey, 9), keys[0])
	}
	raw := list.Bytes()
	read, err := proof.ParseSigners(raw)
	if err != nil || !bytes.Equal(read.Bytes(), raw) || !slices.Equal(read.Keys(), list.Keys()) || len(read.Statements()) != len(keys) {
		t.Errorf("%v:\n%s\nis read as\n%s", err, raw, read.Bytes())
	}
	for n := range raw {
		if cut, err := proof.ParseSigners(raw[:n]); err == nil && !slices.ContainsFunc(shorter, func(s *proof.Signers) bool { return bytes.Equal(s.Bytes(), cut.Bytes()) }) {
			t.Fatalf("%d bytes are read as %d statements", n, len(cut.Statements()))
		}
	}
	for _, st := range list.Statements() { // again
		if added, err := list.Add(st.Note); added || err != nil {
			t.Errorf("statement %d again: added %t, %v", st.Number, added, err)
		}
	}
	for i, s := range shorter {
		if err := list.Continues(s); err != nil {
			t.Errorf("after %d statements: %v", i, err)
		}
		if err := s.Continues(list); !errors.Is(err, proof.ErrShorterSigners) {
			t.Errorf("only %d statements: %v", i, err)
		}
	}
	other := shorter[2]
	mustAdd(t, other, other.Next(proof.IntroduceSigner, keys[2].vkey, 10), keys[0])
	for _, err := range []error{other.Continues(list), list.Continues(other)} {
		if !errors.Is(err, proof.ErrOtherSigners) {
			t.Errorf("two statements 2: %v", err)
		}
	}
}

// A verifier trusts the keys that it was given, and those that trusted keys introduce, up to their
// retirement.
func TestTrust(t *testing.T) {
	t.Parallel()
	one, two := newSignerKeys(t, originOne, 5), newSignerKeys(t, originTwo, 2)
	names := map[string]signerKey{"a": one[0], "b": one[1], "c": one[2], "d": one[3], "again": one[4], "x": two[0], "y": two[1]}
	names["root"] = newSignerKeys(t, proof.RootKeyPrefix+"1", 1)[0]
	list := &proof.Signers{}
	add := func(by string, action proof.Action, key string, size uint64) {
		t.Helper()
		mustAdd(t, list, list.Next(action, names[key].vkey, size), names[by])
	}
	mustAdd(t, list, start(list, originOne, names["a"], 0), names["a"])
	add("a", proof.IntroduceSigner, "b", 3)
	add("a", proof.IntroduceSigner, "again", 3)
	add("a", proof.AddRoot, "root", 3)
	add("root", proof.IntroduceSigner, "c", 4)
	add("b", proof.RetireSigner, "a", 10)
	add("c", proof.RetireSigner, "again", 10)
	add("c", proof.IntroduceSigner, "again", 12)
	add("c", proof.IntroduceSigner, "d", 12)
	add("root", proof.RetireSigner, "b", 20)
	mustAdd(t, list, start(list, originTwo, names["x"], 25), names["x"])
	add("x", proof.IntroduceSigner, "y", 30)
	const always, never = 1 << 40, 0
	for _, tt := range []struct {
		given []string
		// counts has the size of the largest checkpoint of a key that counts.
		counts map[string]uint64
		// gaveUp is true if the successor gave up the larger checkpoints of the first origin.
		gaveUp bool
	}{
		{nil, nil, false},
		{[]string{"a"}, map[string]uint64{"a": 10, "b": 20, "c": always, "d": always, "again": always}, false},
		{[]string{"b"}, map[string]uint64{"b": 20}, false},
		{[]string{"again"}, map[string]uint64{"again": 10}, false}, // what ended its retirement is not trusted
		{[]string{"c"}, map[string]uint64{"c": always, "d": always, "again": always}, false},
		{[]string{"root"}, map[string]uint64{"c": always, "d": always, "again": always}, false},
		{[]string{"d"}, map[string]uint64{"d": always}, false},
		{[]string{"x"}, map[string]uint64{"x": always, "y": always}, true},
		{[]string{"y"}, map[string]uint64{"y": always}, false},
		{[]string{"a", "y"}, map[string]uint64{"a": 10, "b": 20, "c": always, "d": always, "again": always, "y": always}, false},
		{[]string{"a", "x"}, map[string]uint64{"a": 10, "b": 20, "c": always, "d": always, "again": always, "x": always, "y": always}, true},
	} {
		var given []string
		for _, name := range tt.given {
			given = append(given, names[name].vkey+"\n") // as in a file
		}
		trust := list.Trust(given)
		for name, key := range names {
			for _, size := range []uint64{1, 10, 11, 20, 21, always} {
				c, err := proof.Checkpoint{Origin: key.Name(), Size: size}.Sign(key)
				if err != nil {
					t.Fatal(err)
				}
				opened, err := trust.Open(c.Note)
				if counts := size <= tt.counts[name]; counts != (err == nil) || counts && opened.Size != size || !counts && !errors.Is(err, proof.ErrUnknownKey) {
					t.Errorf("with %q, a checkpoint of %s over %d events: %v", tt.given, name, size, err)
				}
			}
		}
		for _, c := range []struct {
			proof.Checkpoint
			want bool
		}{
			{proof.Checkpoint{Origin: originOne, Size: 25}, false},
			{proof.Checkpoint{Origin: originOne, Size: 26}, tt.gaveUp},
			{proof.Checkpoint{Origin: originTwo, Size: 26}, false},
		} {
			if got := trust.Superseded(c.Checkpoint); got != c.want {
				t.Errorf("with %q, a checkpoint of %s over %d events is given up: %t", tt.given, c.Origin, c.Size, got)
			}
		}
		for _, st := range list.Statements() {
			if got := trust.Follows(st); got != (tt.gaveUp && st.Origin == originTwo && st.Action == proof.StartOrigin) {
				t.Errorf("with %q, statement %d is followed: %t", tt.given, st.Number, got)
			}
		}
	}
}

// otherForm returns a verification key in another form that is read as the same key.
func otherForm(t testing.TB, vkey string) string {
	t.Helper()
	name, rest, _ := strings.Cut(vkey, "+")
	hash, encoded, _ := strings.Cut(rest, "+")
	other := name + "+" + strings.ToUpper(hash) + "+" + encoded
	if got, err := proof.VKeyName(other); err != nil || got != name || other == vkey {
		t.Fatalf("%s is no other form of %s: %v", other, vkey, err)
	}
	return other
}

// The thief of a retired key cannot make a verifier trust another key, neither by a new origin nor as a
// second signature. The form in which the verifier has the key does not matter.
func TestARetiredKeyTrustsNoOther(t *testing.T) {
	t.Parallel()
	one, two := newSignerKeys(t, originOne, 2), newSignerKeys(t, originTwo, 2)
	stolen, next, thief := one[0], one[1], two[0]
	root := newSignerKeys(t, proof.RootKeyPrefix+"1", 1)[0]
	list := &proof.Signers{}
	mustAdd(t, list, start(list, originOne, stolen, 0), stolen)
	mustAdd(t, list, list.Next(proof.AddRoot, root.vkey, 5), stolen)
	mustAdd(t, list, list.Next(proof.IntroduceSigner, next.vkey, 10), root)
	mustAdd(t, list, list.Next(proof.RetireSigner, stolen.vkey, 20), next)
	mustAdd(t, list, start(list, originTwo, thief, 5), thief)
	st := list.Next(proof.IntroduceSigner, two[1].vkey, 5)
	both, err := note.Sign(&note.Note{Text: textOf(t, signed(t, st, thief))}, thief, stolen)
	if err != nil {
		t.Fatal(err)
	}
	if added, err := list.Add(both); err != nil || !added {
		t.Fatalf("added %t, %v", added, err)
	}
	forged, err := proof.Checkpoint{Origin: originTwo, Size: 100}.Sign(two[1])
	if err != nil {
		t.Fatal(err)
	}
	late, err := proof.Checkpoint{Origin: originOne, Size: 100}.Sign(stolen)
	if err != nil {
		t.Fatal(err)
	}
	for name, given := range map[string][]string{
		"the stolen key": {stolen.vkey}, "in another form": {otherForm(t, stolen.vkey)}, "the root key": {root.vkey}, "all": {stolen.vkey, root.vkey, next.vkey},
	} {
		trust := list.Trust(given)
		for _, c := range []proof.Checkpoint{forged, late} {
			if _, err := trust.Open(c.Note); !errors.Is(err, proof.ErrUnknownKey) {
				t.Errorf("%s: a checkpoint of %s over %d events: %v", name, c.Origin, c.Size, err)
			}
		}
		if trust.Superseded(proof.Checkpoint{Origin: originOne, Size: 100}) {
			t.Errorf("%s: the forged successor is followed", name)
		}
	}
}

// A signer that introduces a retired key again gives no second signer to who has stolen both keys. Only a
// given root key does.
func TestAKeyThatIsIntroducedAgain(t *testing.T) {
	t.Parallel()
	keys := newSignerKeys(t, originOne, 2)
	a, b := keys[0], keys[1]
	root := newSignerKeys(t, proof.RootKeyPrefix+"1", 1)[0]
	list := &proof.Signers{}
	mustAdd(t, list, start(list, originOne, a, 0), a)
	mustAdd(t, list, list.Next(proof.AddRoot, root.vkey, 1), a)
	mustAdd(t, list, list.Next(proof.IntroduceSigner, a.vkey, 1), root)
	mustAdd(t, list, list.Next(proof.IntroduceSigner, b.vkey, 1), root)
	mustAdd(t, list, list.Next(proof.RetireSigner, b.vkey, 10), root)
	mustAdd(t, list, list.Next(proof.IntroduceSigner, b.vkey, 20), a)
	byA := list.Clone()
	mustAdd(t, list, list.Next(proof.IntroduceSigner, b.vkey, 20), root)
	for name, given := range map[string][]string{"the root key": {root.vkey}, "all": {a.vkey, b.vkey, root.vkey}} {
		trust := byA.Trust(given)
		if trust.Retired(b.vkey) || trust.Source(b.vkey) != trust.Source(a.vkey) {
			t.Errorf("%s: after the introduction by a signer, the key is retired: %t; it follows from %s, the signer from %s", name, trust.Retired(b.vkey), trust.Source(b.vkey), trust.Source(a.vkey))
		}
		trust.Follow(list) // one statement more
		for _, trust := range []*proof.Trust{trust, list.Trust(given)} {
			if got := trust.Source(b.vkey); got != b.vkey {
				t.Errorf("%s: after the introduction by the root key, the key follows from %s", name, got)
			}
		}
	}
}

// textOf returns the text of a signed note.
func textOf(t testing.TB, signed []byte) string {
	t.Helper()
	n, err := proof.ParseNote(signed)
	if err != nil {
		t.Fatal(err)
	}
	return n.Text
}

// A successor gives up what all origins before it said beyond the events that it confirms.
func TestSupersededByALaterSuccessor(t *testing.T) {
	t.Parallel()
	list := &proof.Signers{}
	var given []string
	for i, size := range []uint64{0, 100, 50} {
		key := newSignerKeys(t, fmt.Sprintf("daybook/%d", i), 1)[0]
		mustAdd(t, list, start(list, key.Name(), key, size), key)
		given = append(given, key.vkey)
	}
	for _, tt := range []struct {
		origin string
		size   uint64
		given  []string
		want   bool
	}{
		{"daybook/0", 50, given, false},
		{"daybook/0", 51, given, true},
		{"daybook/0", 51, given[:2], false},
		{"daybook/0", 101, given[:2], true},
		{"daybook/1", 51, given, true},
		{"daybook/1", 51, given[:2], false},
		{"daybook/2", 51, given, false},
		{"daybook/9", 51, given, false},
	} {
		if got := list.Trust(tt.given).Superseded(proof.Checkpoint{Origin: tt.origin, Size: tt.size}); got != tt.want {
			t.Errorf("%s over %d events, with %d keys: superseded %t", tt.origin, tt.size, len(tt.given), got)
		}
	}
}

// A list is no longer than its maximum, and the time to read it grows with its length.
func TestLongLists(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow under the race detector: 4 MiB of statements are signed")
	}
	t.Parallel()
	keys := newSignerKeys(t, originOne, 2)
	list := &proof.Signers{}
	mustAdd(t, list, start(list, originOne, keys[0], 0), keys[0])
	for {
		action := proof.IntroduceSigner
		if list.Signs(keys[1].vkey) {
			action = proof.RetireSigner
		}
		added, err := list.Add(signed(t, list.Next(action, keys[1].vkey, 1), keys[0]))
		if err != nil {
			if added || !strings.Contains(err.Error(), "longer than") {
				t.Fatal(err)
			}
			break
		}
	}
	raw := list.Bytes()
	if read, err := proof.ParseSigners(raw); err != nil || len(raw) > proof.MaxSignersBytes || len(raw) < proof.MaxSignersBytes-proof.MaxNoteBytes || !bytes.Equal(read.Bytes(), raw) {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	if _, err := proof.ParseSigners(append(raw, raw...)); err == nil {
		t.Error("a longer list is read")
	}
}

// A checkpoint comes with the statements that a verifier needs for it. They change only if a key is
// retired at a smaller size.
func TestSignersUnderACheckpoint(t *testing.T) {
	t.Parallel()
	one, two := newSignerKeys(t, originOne, 3), newSignerKeys(t, originTwo, 1)
	list := &proof.Signers{}
	under := func(origin string, size uint64, want int) {
		t.Helper()
		got, err := proof.ParseSigners(list.Under(proof.Checkpoint{Origin: origin, Size: size}))
		if err != nil || len(got.Statements()) != want || list.Continues(got) != nil {
			t.Errorf("a checkpoint of %s over %d events comes with %d of %d statements, want %d, %v", origin, size, len(got.Statements()), len(list.Statements()), want, err)
		}
	}
	under(originOne, 5, 0)
	mustAdd(t, list, start(list, originOne, one[0], 0), one[0])
	under(originOne, 5, 0) // the keys that were given are enough
	mustAdd(t, list, list.Next(proof.IntroduceSigner, one[1].vkey, 5), one[0])
	under(originOne, 5, 0)
	under(originOne, 6, 2)
	mustAdd(t, list, list.Next(proof.IntroduceSigner, one[2].vkey, 9), one[0])
	under(originOne, 6, 2)
	under(originOne, 9, 2)
	under(originOne, 10, 3)
	mustAdd(t, list, list.Next(proof.RetireSigner, one[0].vkey, 3), one[1]) // the key was stolen
	under(originOne, 3, 0)
	under(originOne, 4, 4)
	under(originOne, 10, 4)
	mustAdd(t, list, start(list, originTwo, two[0], 8), two[0])
	under(originOne, 10, 4)
	under(originTwo, 4, 5)
	under(originTwo, 20, 5)
	under("daybook/other", 20, 0)

	older := &proof.Signers{}
	st := start(older, originTwo, two[0], 8)
	st.Predecessor = originOne // without statements about it
	mustAdd(t, older, st, two[0])
	if len(older.Under(proof.Checkpoint{Origin: originTwo, Size: 9})) == 0 {
		t.Error("the start of a successor is left out")
	}
}

// FuzzParseStatement checks that the hash of a statement is that of its text, and that an empty list
// accepts only a start that its own key signed.
func FuzzParseStatement(f *testing.F) {
	key := newSignerKeys(f, originOne, 1)[0]
	first := start(&proof.Signers{}, originOne, key, 0)
	successor := first
	successor.Predecessor, successor.Size = "daybook/older", 7
	introducing := first
	introducing.Action = proof.IntroduceSigner
	for _, st := range []proof.Statement{first, successor, introducing} {
		f.Add(signed(f, st, key))
	}
	f.Add(bytes.Replace(signed(f, first, key), []byte("\n0\n"), []byte("\n00\n"), 1))
	f.Fuzz(func(t *testing.T, raw []byte) {
		st, err := proof.ParseStatement(raw)
		list := &proof.Signers{}
		if added, addErr := list.Add(raw); added && err != nil {
			t.Fatalf("%q is added, but not parsed: %v, %v", raw, err, addErr)
		} else if added {
			own, err := note.NewVerifier(st.Key)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := note.Open(raw, note.VerifierList(own)); err != nil || st.Action != proof.StartOrigin || st.Number != 0 || st.Previous != (proof.Hash{}) {
				t.Errorf("%q starts a list: %v", raw, err)
			}
		}
		if err != nil {
			return
		}
		text, _, _ := bytes.Cut(raw, []byte("\n\n"))
		if st.Hash() != sha256.Sum256(append(bytes.Clone(text), '\n')) {
			t.Errorf("%q has the hash %s", raw, st.Hash())
		}
	})
}

// FuzzParseSigners checks that a list that is read and written again is the same list.
func FuzzParseSigners(f *testing.F) {
	keys := newSignerKeys(f, originOne, 2)
	list := &proof.Signers{}
	mustAdd(f, list, start(list, originOne, keys[0], 0), keys[0])
	f.Add(list.Bytes())
	mustAdd(f, list, list.Next(proof.IntroduceSigner, keys[1].vkey, 3), keys[0])
	f.Add(list.Bytes())
	f.Add(append(list.Bytes(), list.Bytes()...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := proof.ParseSigners(raw)
		if err != nil {
			return
		}
		again, err := proof.ParseSigners(s.Bytes())
		if err != nil || again.Continues(s) != nil || s.Continues(again) != nil || !slices.Equal(again.Keys(), s.Keys()) || !slices.Equal(again.Roots(), s.Roots()) {
			t.Errorf("%q is written again as %q: %v", raw, s.Bytes(), err)
		}
	})
}

// A retirement holds until a trusted key introduces the key again: an introduction by another key does not
// end it, and a later retirement with more events neither.
func TestASecondRetirementDoesNotEndTheFirst(t *testing.T) {
	t.Parallel()
	keys := newSignerKeys(t, originOne, 2)
	other, given := keys[0], keys[1]
	list := &proof.Signers{}
	mustAdd(t, list, start(list, originOne, other, 0), other)
	mustAdd(t, list, list.Next(proof.IntroduceSigner, given.vkey, 3), other)
	mustAdd(t, list, list.Next(proof.RetireSigner, given.vkey, 10), other)
	mustAdd(t, list, list.Next(proof.IntroduceSigner, given.vkey, 12), other) // which is not trusted
	mustAdd(t, list, list.Next(proof.RetireSigner, given.vkey, 20), other)
	for size, counts := range map[uint64]bool{10: true, 11: false, 20: false, 21: false} {
		c, err := proof.Checkpoint{Origin: originOne, Size: size}.Sign(given)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := list.Trust([]string{given.vkey}).Open(c.Note); (err == nil) != counts {
			t.Errorf("a checkpoint over %d events counts: %t, %v", size, err == nil, err)
		}
	}
}
