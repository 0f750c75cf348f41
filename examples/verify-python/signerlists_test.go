package verifypython_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"

	"daybook/internal/dev/verdicts"
	"daybook/proof"
)

// trustProgram reads lists of signers and given keys, a line of JSON each, and prints whom signers.py trusts.
const trustProgram = `
import json, sys
sys.path.insert(0, ".")
from notes import parse_key
from signers import Signers
for line in sys.stdin:
    case = json.loads(line)
    try:
        s = Signers(case["List"], [parse_key(key) for key in case["Given"]])
        print(json.dumps({"Statements": len(s.list), "Sources": {key.text: s.source[key].text for key in s.trusted},
                          "Retired": sorted(key.text for key in s.trusted if key in s.retired), "Superseded":
                          [s.supersedes(type("", (), {"origin": o, "size": n})) for o in case["Origins"] for n in case["Sizes"]]}))
    except ValueError:
        print("{}")
`

// trustCase is the input of trustProgram.
type trustCase struct {
	List           string
	Given, Origins []string
	Sizes          []uint64
}

// trusted is what a verifier reads in a list. It is empty for a list that is refused.
type trusted struct {
	Statements int               `json:",omitempty"`
	Sources    map[string]string `json:",omitempty"`
	Retired    []string          `json:",omitempty"`
	Superseded []bool            `json:",omitempty"`
}

// Both verifiers trust the same keys by random lists of signers, of which many are refused.
func TestBothTrustTheSameKeys(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var in bytes.Buffer
	var want []trusted
	read := 0
	for range 400 {
		c := randomList(t, random)
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&in, "%s\n", raw)
		list, err := proof.ParseSigners([]byte(c.List))
		if err != nil {
			want = append(want, trusted{})
			continue
		}
		read++
		trust := list.Trust(c.Given)
		w := trusted{Statements: len(list.Statements()), Sources: map[string]string{}}
		for _, key := range trust.Keys {
			w.Sources[key] = trust.Source(key)
			if trust.Retired(key) {
				w.Retired = append(w.Retired, key)
			}
		}
		slices.Sort(w.Retired)
		for _, origin := range c.Origins {
			for _, size := range c.Sizes {
				w.Superseded = append(w.Superseded, trust.Superseded(proof.Checkpoint{Origin: origin, Size: size}))
			}
		}
		want = append(want, w)
	}
	if read < 100 || read > 390 {
		t.Errorf("%d of the lists are consistent", read)
	}
	cmd := exec.CommandContext(t.Context(), verdicts.PathOfPython(t), "-B", "-c", trustProgram)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []trusted
	for line := range bytes.Lines(out) {
		var g trusted
		if err := json.Unmarshal(line, &g); err != nil {
			t.Fatal(err)
		}
		if len(g.Retired) == 0 {
			g.Retired = nil
		}
		got = append(got, g)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Go (-) and Python (+): %s", diff)
	}
}

// randomList returns a list of up to 12 statements about three origins, and keys to give. The signature of
// each statement is often one that the list permits.
func randomList(t *testing.T, random *rand.Rand) trustCase {
	t.Helper()
	type key struct {
		note.Signer
		vkey string
	}
	origins := []string{"daybook/0", "daybook/1", "daybook/2"}
	byName, byKey := map[string][]key{}, map[string]key{}
	var all []string
	for _, name := range append(origins[:3:3], proof.RootKeyPrefix+"1") {
		for range 3 {
			skey, vkey, err := proof.NewKey(name)
			if err != nil {
				t.Fatal(err)
			}
			signer, err := note.NewSigner(skey)
			if err != nil {
				t.Fatal(err)
			}
			byName[name] = append(byName[name], key{signer, vkey})
			byKey[vkey] = key{signer, vkey}
			all = append(all, vkey)
		}
	}
	pick := func(keys []key) key { return keys[random.IntN(len(keys))] }
	list := &proof.Signers{}
	for range 1 + random.IntN(12) {
		size := random.Uint64N(20)
		var st proof.Statement
		started := slices.Index(origins, list.Origin())
		permitted := append(list.Keys(), list.Roots()...)
		switch action := random.IntN(10); {
		case started < 0 || action == 0 && started < 2:
			st = list.Next(proof.StartOrigin, pick(byName[origins[started+1]]).vkey, size)
			st.Origin, st.Predecessor = origins[started+1], list.Origin()
			permitted = []string{st.Key}
		case action < 3:
			st = list.Next(proof.AddRoot, pick(byName[proof.RootKeyPrefix+"1"]).vkey, size)
		case action < 6:
			st = list.Next(proof.RetireSigner, pick(byName[list.Origin()]).vkey, size)
		default:
			st = list.Next(proof.IntroduceSigner, pick(byName[list.Origin()]).vkey, size)
		}
		signers := map[string]note.Signer{}
		for range 1 + random.IntN(2) {
			k := byKey[all[random.IntN(len(all))]]
			if len(permitted) > 0 && random.IntN(8) > 0 {
				k = byKey[permitted[random.IntN(len(permitted))]]
			}
			signers[k.vkey] = k
		}
		st, err := st.Sign(byKey[all[0]])
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(st.Note), "\n\n")
		var by []note.Signer
		for _, s := range signers {
			by = append(by, s)
		}
		signed, err := note.Sign(&note.Note{Text: text + "\n"}, by...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := list.Add(signed); err != nil && random.IntN(4) == 0 { // mostly go on without it
			return trustCase{List: string(list.Bytes()) + string(signed) + "\n", Given: all[:2], Origins: origins, Sizes: []uint64{5}}
		}
	}
	c := trustCase{List: string(list.Bytes()), Origins: origins, Sizes: []uint64{1, 10, 19}}
	for _, k := range all {
		if random.IntN(5) == 0 {
			c.Given = append(c.Given, k)
		}
	}
	if c.Given == nil {
		c.Given = all[:1]
	}
	return c
}
