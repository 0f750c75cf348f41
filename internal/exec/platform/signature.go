package platform

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/asn1"
	"fmt"
	"math/big"
	"strconv"
)

// The functions that use keys with a private and a public part.
var signatureFunctions = map[string]function{
	"sign":        {6, computeSignature},
	"verify":      {6, verifySignature},
	"agree":       {2, computeAgreement},
	"oaepEncrypt": {5, encryptOAEP},
	"oaepDecrypt": {4, decryptOAEP},
}

// digest returns the hash of data and its name for signatures.
func digest(name, data []byte) (crypto.Hash, []byte, error) {
	h, ok := webHashes[string(name)]
	if !ok {
		return 0, nil, &Error{"NotSupportedError", fmt.Sprintf("Unrecognized hash %q", name)}
	}
	d := h.New()
	d.Write(data)
	return h, d.Sum(nil), nil
}

// computeSignature signs the data in[4] with the scheme in[0], the hash in[1], and the private
// key in[3]. in[2] is the length of the salt of RSA-PSS, and in[5] has its bytes. ECDSA derives
// its number from the key and the data (RFC 6979).
func computeSignature(in [][]byte) (Result, error) {
	key, err := privateKey(in[3])
	if err != nil {
		return Result{}, err
	}
	if k, ok := key.(ed25519.PrivateKey); ok && string(in[0]) == "Ed25519" {
		return Result{Bytes: ed25519.Sign(k, in[4])}, nil
	}
	h, sum, err := digest(in[1], in[4])
	if err != nil {
		return Result{}, err
	}
	var signature []byte
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if string(in[0]) == "RSASSA-PKCS1-v1_5" {
			signature, err = rsa.SignPKCS1v15(nil, k, h, sum)
			break
		}
		var length int
		switch length, err = saltLength(in[2]); {
		case err != nil:
		case length == 0:
			signature, err = signUnsalted(k, h, sum)
		default:
			signature, err = rsa.SignPSS(bytes.NewReader(in[5]), k, h, sum, &rsa.PSSOptions{SaltLength: length})
		}
	case *ecdsa.PrivateKey:
		signature, err = signECDSA(k, h, sum)
	default:
		err = fmt.Errorf("a key of %s does not sign", kindOf(key))
	}
	return Result{Bytes: signature}, named(err, "sign")
}

// saltLength reads the length of the salt of RSA-PSS in bytes.
func saltLength(text []byte) (int, error) {
	length, err := strconv.Atoi(string(text))
	if err == nil && length < 0 {
		err = &Error{"OperationError", "The length of a salt is not negative"}
	}
	return length, err
}

// named returns err as an OperationError, unless it has a name.
func named(err error, what string) error {
	if err == nil || ErrorName(err) != "OperationError" {
		return err
	}
	return operationError(what, err)
}

type ecdsaSignature struct{ R, S *big.Int }

func signECDSA(key *ecdsa.PrivateKey, h crypto.Hash, sum []byte) ([]byte, error) {
	der, err := key.Sign(nil, sum, h)
	if err != nil {
		return nil, err
	}
	var s ecdsaSignature
	if _, err := asn1.Unmarshal(der, &s); err != nil {
		return nil, err
	}
	size := (key.Curve.Params().BitSize + 7) / 8
	out := make([]byte, 2*size)
	s.R.FillBytes(out[:size])
	s.S.FillBytes(out[size:])
	return out, nil
}

// verifySignature verifies the signature in[4] of the data in[5] with the public key in[3]. The
// result is one byte, 1 if the signature is valid.
func verifySignature(in [][]byte) (Result, error) {
	scheme, signature, data := string(in[0]), in[4], in[5]
	key, err := publicKey(in[3])
	if err != nil {
		return Result{}, err
	}
	if k, ok := key.(ed25519.PublicKey); ok && scheme == "Ed25519" {
		return verdict(ed25519.Verify(k, data, signature)), nil
	}
	h, sum, err := digest(in[1], data)
	if err != nil {
		return Result{}, err
	}
	switch k := key.(type) {
	case *rsa.PublicKey:
		if scheme == "RSASSA-PKCS1-v1_5" {
			return verdict(rsa.VerifyPKCS1v15(k, h, sum, signature) == nil), nil
		}
		length, err := saltLength(in[2])
		if err != nil {
			return Result{}, err
		}
		if length == 0 {
			return verdict(verifyUnsalted(k, h, sum, signature)), nil
		}
		return verdict(rsa.VerifyPSS(k, h, sum, signature, &rsa.PSSOptions{SaltLength: length}) == nil), nil
	case *ecdsa.PublicKey:
		size := (k.Curve.Params().BitSize + 7) / 8
		if len(signature) != 2*size {
			return verdict(false), nil
		}
		der, err := asn1.Marshal(ecdsaSignature{new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])})
		return verdict(err == nil && ecdsa.VerifyASN1(k, sum, der)), nil
	}
	return Result{}, &Error{"InvalidAccessError", "The key does not verify signatures"}
}

func verdict(valid bool) Result {
	if valid {
		return Result{Bytes: []byte{1}}
	}
	return Result{Bytes: []byte{0}}
}

func computeAgreement(in [][]byte) (Result, error) {
	private, err := privateKey(in[0])
	if err != nil {
		return Result{}, err
	}
	public, err := publicKey(in[1])
	if err != nil {
		return Result{}, err
	}
	secret, err := agree(private, public)
	return Result{Bytes: secret}, err
}

// encryptOAEP encrypts the data in[4] with the hash in[0], the public key in[1], the label in[2]
// and the random bytes in[3].
func encryptOAEP(in [][]byte) (Result, error) {
	h, ok := webHashes[string(in[0])]
	key, err := publicKey(in[1])
	k, isRSA := key.(*rsa.PublicKey)
	if err != nil || !ok || !isRSA {
		return Result{}, &Error{"InvalidAccessError", "The key does not encrypt"}
	}
	out, err := rsa.EncryptOAEP(h.New(), bytes.NewReader(in[3]), k, in[4], in[2])
	return Result{Bytes: out}, named(err, "encrypt")
}

func decryptOAEP(in [][]byte) (Result, error) {
	h, ok := webHashes[string(in[0])]
	key, err := privateKey(in[1])
	k, isRSA := key.(*rsa.PrivateKey)
	if err != nil || !ok || !isRSA {
		return Result{}, &Error{"InvalidAccessError", "The key does not decrypt"}
	}
	out, err := rsa.DecryptOAEP(h.New(), nil, k, in[3], in[2])
	if err != nil {
		return Result{}, errDecrypt
	}
	return Result{Bytes: out}, nil
}
