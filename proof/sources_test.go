package proof_test

import (
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"daybook/proof"
)

func newSignerKey(t *testing.T, name string) (note.Signer, string) {
	t.Helper()
	skey, vkey, err := proof.NewKey(name)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	return signer, vkey
}

// A key that another one introduced follows from the given key at the beginning. Only a given root key, which the
// name shows, introduces keys that follow from themselves.
func TestSourcesOfKeys(t *testing.T) {
	t.Parallel()
	const origin = "daybook/x"
	a, aKey := newSignerKey(t, origin)
	b, bKey := newSignerKey(t, origin)
	root, rootKey := newSignerKey(t, proof.RootKeyPrefix+"1")
	_, cKey := newSignerKey(t, origin)
	_, dKey := newSignerKey(t, origin)
	_, eKey := newSignerKey(t, origin)
	list := &proof.Signers{}
	add := func(list *proof.Signers, by note.Signer, action proof.Action, key, origin string) {
		t.Helper()
		st := list.Next(action, key, 1)
		if origin != "" {
			st.Origin = origin
		}
		st, err := st.Sign(by)
		if err == nil {
			_, err = list.Add(st.Note)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add(list, a, proof.StartOrigin, aKey, origin)
	add(list, a, proof.IntroduceSigner, bKey, "")
	add(list, b, proof.IntroduceSigner, cKey, "")
	add(list, a, proof.AddRoot, rootKey, "")
	add(list, root, proof.IntroduceSigner, dKey, "")
	add(list, root, proof.IntroduceSigner, bKey, "")
	add(list, b, proof.IntroduceSigner, eKey, "")
	for _, tt := range []struct {
		name    string
		given   []string
		sources map[string]string // empty for a key that is not trusted
	}{
		{"one", []string{aKey}, map[string]string{aKey: aKey, bKey: aKey, cKey: aKey, dKey: aKey, eKey: aKey}},
		{"two", []string{aKey, bKey}, map[string]string{aKey: aKey, bKey: bKey, cKey: bKey, dKey: aKey, eKey: bKey}},
		{"the root key", []string{rootKey}, map[string]string{aKey: "", bKey: bKey, cKey: "", dKey: dKey, eKey: bKey}},
		{"the root key and one", []string{rootKey, aKey}, map[string]string{aKey: aKey, bKey: bKey, cKey: aKey, dKey: dKey, eKey: bKey}},
		{"none", nil, map[string]string{aKey: "", bKey: ""}},
	} {
		trust := list.Trust(tt.given)
		for key, want := range tt.sources {
			if got := trust.Source(key); got != want || slices.Contains(trust.Keys, key) != (want != "") {
				t.Errorf("%s: %s follows from %q, want %q", tt.name, key, got, want)
			}
		}
	}
}
