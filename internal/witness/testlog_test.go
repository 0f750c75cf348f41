package witness_test

import (
	"crypto/rand"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"daybook/proof"
)

// testLog is a transparency log in memory.
type testLog struct {
	t      *testing.T
	signer note.Signer
	vkey   string
	hashes []proof.Hash // stored hashes of package tlog
	size   int64
}

func newLog(t *testing.T, origin string) *testLog {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	return &testLog{t: t, signer: signer, vkey: vkey}
}

func (l *testLog) reader() tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var list []tlog.Hash
		for _, i := range indexes {
			list = append(list, l.hashes[i])
		}
		return list, nil
	})
}

// grow adds leaves. salt makes the leaves of two logs differ.
func (l *testLog) grow(to int64, salt string) *testLog {
	for ; l.size < to; l.size++ {
		more, err := tlog.StoredHashes(l.size, fmt.Appendf(nil, "%s %d", salt, l.size), l.reader())
		if err != nil {
			l.t.Fatal(err)
		}
		l.hashes = append(l.hashes, more...)
	}
	return l
}

// checkpoint returns a signed checkpoint, with extension lines.
func (l *testLog) checkpoint(size int64, extension string) []byte {
	root, err := tlog.TreeHash(size, l.reader())
	if err != nil {
		l.t.Fatal(err)
	}
	return l.sign(fmt.Sprintf("%s\n%d\n%s\n%s", l.signer.Name(), size, proof.EncodeHash(root), extension))
}

func (l *testLog) sign(text string) []byte {
	signed, err := note.Sign(&note.Note{Text: text}, l.signer)
	if err != nil {
		l.t.Fatal(err)
	}
	return signed
}

// request returns the body of a request.
func (l *testLog) request(old, size int64) string {
	text := fmt.Sprintf("old %d\n", old)
	if old > 0 && old < size {
		hashes, err := tlog.ProveTree(size, old, l.reader())
		if err != nil {
			l.t.Fatal(err)
		}
		for _, h := range hashes {
			text += proof.EncodeHash(h) + "\n"
		}
	}
	return text + "\n" + string(l.checkpoint(size, ""))
}
