package platform

import (
	"crypto"
	"crypto/rsa"
	"encoding/binary"
	"errors"
	"math/big"
)

// encodeUnsalted returns the number that RSA-PSS without a salt (RFC 8017, section 9.1) signs
// for a hash. crypto/rsa has no such signatures: it takes 0 as any length of the salt.
func encodeUnsalted(key *rsa.PublicKey, h crypto.Hash, sum []byte) (*big.Int, error) {
	bits := key.N.BitLen() - 1
	size := (bits + 7) / 8
	if size < h.Size()+2 {
		return nil, errors.New("the key is too small for the hash")
	}
	d := h.New()
	d.Write(make([]byte, 8))
	d.Write(sum)
	salted := d.Sum(nil)
	out := make([]byte, 0, size)
	for counter := uint32(0); len(out) < size-h.Size()-1; counter++ {
		d.Reset()
		d.Write(salted)
		d.Write(binary.BigEndian.AppendUint32(nil, counter))
		out = d.Sum(out)
	}
	out = out[:size-h.Size()-1]
	out[len(out)-1] ^= 1 // the mark before the salt
	out[0] &= 0xff >> (8*size - bits)
	out = append(append(out, salted...), 0xbc)
	return new(big.Int).SetBytes(out), nil
}

// signUnsalted signs without a salt. It verifies the signature, because a wrong one may reveal
// the key.
func signUnsalted(key *rsa.PrivateKey, h crypto.Hash, sum []byte) ([]byte, error) {
	encoded, err := encodeUnsalted(&key.PublicKey, h, sum)
	if err != nil {
		return nil, err
	}
	s := new(big.Int).Exp(encoded, key.D, key.N)
	if power(&key.PublicKey, s).Cmp(encoded) != 0 {
		return nil, errors.New("the parts of the key do not match")
	}
	return s.FillBytes(make([]byte, key.Size())), nil
}

func verifyUnsalted(key *rsa.PublicKey, h crypto.Hash, sum, signature []byte) bool {
	encoded, err := encodeUnsalted(key, h, sum)
	s := new(big.Int).SetBytes(signature)
	return err == nil && len(signature) == key.Size() && s.Cmp(key.N) < 0 && power(key, s).Cmp(encoded) == 0
}

func power(key *rsa.PublicKey, s *big.Int) *big.Int {
	return new(big.Int).Exp(s, big.NewInt(int64(key.E)), key.N)
}
