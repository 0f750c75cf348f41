package proof_test

import (
	"bytes"
	"testing"

	"daybook/proof"
)

// ParseManifest accepts only what Encode returns.
func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"format":"daybook-export-v1","origin":"daybook/x","vkeys":["daybook/x+00000000+AQ=="],"size":3,"root":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",` +
		`"from":1,"to":3,"since":"","until":"2026-11-21T09:30:00.000Z","tenant":"","execution":"","session":"\u00e9","events":3,"blobs":false,` +
		`"files":[{"name":"checkpoint","bytes":9,"sha256":"00"}]}` + "\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := proof.ParseManifest(raw)
		if err != nil {
			return
		}
		if again := m.Encode(); !bytes.Equal(again, raw) {
			t.Errorf("%q is written again as %q", raw, again)
		}
	})
}

// ParseProof accepts only what AppendProof writes.
func FuzzParseProof(f *testing.F) {
	f.Add([]byte(`{"sequence":"12","hashes":["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]}`))
	f.Add([]byte(`{"sequence":"1","hashes":[]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		seq, hashes, err := proof.ParseProof(line)
		if err != nil {
			return
		}
		if again := proof.AppendProof(nil, seq, hashes); !bytes.Equal(again, line) {
			t.Errorf("%q is written again as %q", line, again)
		}
	})
}
