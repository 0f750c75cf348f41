package platform

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// The functions of keys with a private and a public part. Between calls, a private key is its
// PKCS #8 encoding, and a public key its SubjectPublicKeyInfo, as this package writes them. A
// kind is RSA, Ed25519, X25519, or the name of a curve.
var keyFunctions = map[string]function{
	"ecGenerate":  {2, generateEC},
	"okpGenerate": {2, generateOKP},
	"rsaGenerate": {3, generateRSA},
	"keyImport":   {3, importKey},
	"keyExport":   {2, exportKey},
	"keyFromJWK":  {2, keyFromJWK},
	"keyToJWK":    {1, keyToJWK},
	"keyPublic":   {1, publicPart},
	"keyDescribe": {1, describeKey},
}

// Bits of the modulus of RSA keys. Larger keys take seconds for one signature.
const (
	minRSA = 1024
	maxRSA = 8192
)

// maxEncoded bounds the bytes of an encoded key. The largest one of RSA has about 4800. Reading
// one checks its numbers, which takes minutes for numbers of a megabyte.
const maxEncoded = 16 << 10

var curves = map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}

func privateKey(der []byte) (any, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, dataError("read a private key", err)
	}
	return key, nil
}

func publicKey(der []byte) (any, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, dataError("read a public key", err)
	}
	return key, nil
}

// kindOf returns the kind of a private or public key, or "" if Web Crypto has no such keys.
func kindOf(key any) string {
	switch k := key.(type) {
	case *rsa.PrivateKey, *rsa.PublicKey:
		return "RSA"
	case *ecdsa.PrivateKey:
		return k.Curve.Params().Name
	case *ecdsa.PublicKey:
		return k.Curve.Params().Name
	case ed25519.PrivateKey, ed25519.PublicKey:
		return "Ed25519"
	case *ecdh.PrivateKey, *ecdh.PublicKey: // x509 has those of X25519 only
		return "X25519"
	}
	return ""
}

// encoded returns a key in the encoding that the package keeps. It checks its size.
func encoded(key any) (Result, error) {
	var der []byte
	var err error
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if err = checkRSA(&k.PublicKey); err == nil {
			der, err = x509.MarshalPKCS8PrivateKey(key)
		}
	case *rsa.PublicKey:
		if err = checkRSA(k); err == nil {
			der, err = x509.MarshalPKIXPublicKey(key)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey, *ecdh.PublicKey:
		der, err = x509.MarshalPKIXPublicKey(key)
	default:
		der, err = x509.MarshalPKCS8PrivateKey(key)
	}
	if err != nil {
		return Result{}, dataError("encode a key", err)
	}
	return Result{Bytes: der}, nil
}

func checkRSA(key *rsa.PublicKey) error {
	if bits := key.N.BitLen(); bits < minRSA || bits > maxRSA {
		return fmt.Errorf("its modulus has %d bits, not %d to %d", bits, minRSA, maxRSA)
	}
	if key.E < 3 || key.E&1 == 0 || key.E >= 1<<31 {
		return errors.New("its public exponent is not an odd number from 3 to 2147483647")
	}
	return nil
}

// generateEC makes a key of the curve in[0] from the random bytes in[1], the first scalar
// among them that is in the range of the curve.
func generateEC(in [][]byte) (Result, error) {
	curve, ok := curves[string(in[0])]
	if !ok {
		return Result{}, &Error{"NotSupportedError", "Unrecognized namedCurve"}
	}
	size := (curve.Params().BitSize + 7) / 8
	for random := in[1]; len(random) >= size; random = random[size:] {
		scalar := append([]byte(nil), random[:size]...)
		scalar[0] &= 0xff >> (8*size - curve.Params().BitSize)
		if key, err := ecdsa.ParseRawPrivateKey(curve, scalar); err == nil {
			return encoded(key)
		}
	}
	return Result{}, &Error{"OperationError", "none of the random bytes is a key of the curve"}
}

func generateOKP(in [][]byte) (Result, error) {
	key, err := okpPrivate(string(in[0]), in[1])
	if err != nil {
		return Result{}, err
	}
	return encoded(key)
}

func okpPrivate(kind string, seed []byte) (any, error) {
	if kind == "Ed25519" && len(seed) == ed25519.SeedSize {
		return ed25519.NewKeyFromSeed(seed), nil
	}
	if kind == "X25519" {
		key, err := ecdh.X25519().NewPrivateKey(seed)
		if err != nil {
			return nil, dataError("read a private key", err)
		}
		return key, nil
	}
	return nil, &Error{"DataError", "Invalid private key of " + kind}
}

func okpPublic(kind string, raw []byte) (any, error) {
	if kind == "Ed25519" && len(raw) == ed25519.PublicKeySize {
		return ed25519.PublicKey(raw), nil
	}
	if kind == "X25519" {
		key, err := ecdh.X25519().NewPublicKey(raw)
		if err != nil {
			return nil, dataError("read a public key", err)
		}
		return key, nil
	}
	return nil, &Error{"DataError", "Invalid public key of " + kind}
}

// importKey reads a key of the kind in[0] in the format in[1]: pkcs8, spki, or raw for a
// public key.
func importKey(in [][]byte) (Result, error) {
	kind, format, data := string(in[0]), string(in[1]), in[2]
	var key any
	var err error
	if len(data) > maxEncoded {
		return Result{}, &Error{"DataError", fmt.Sprintf("The encoded key has %d bytes, more than %d", len(data), maxEncoded)}
	}
	curve := curves[kind]
	switch {
	case format == "pkcs8":
		key, err = privateKey(data)
	case format == "spki":
		key, err = publicKey(data)
	case curve != nil:
		key, err = ecdsa.ParseUncompressedPublicKey(curve, data)
		if err != nil {
			err = dataError("read a public key", err)
		}
	default:
		key, err = okpPublic(kind, data)
	}
	if err != nil {
		return Result{}, err
	}
	if kindOf(key) != kind {
		return Result{}, &Error{"DataError", fmt.Sprintf("The key is of %q, not of %q", kindOf(key), kind)}
	}
	return encoded(key)
}

// exportKey returns the point of the public key in[1] if in[0] is raw.
func exportKey(in [][]byte) (Result, error) {
	key, err := publicKey(in[1])
	if err != nil {
		return Result{}, err
	}
	var raw []byte
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		raw, err = k.Bytes()
	case ed25519.PublicKey:
		raw = k
	case *ecdh.PublicKey:
		raw = k.Bytes()
	default:
		err = &Error{"NotSupportedError", "Keys of RSA have no raw format"}
	}
	return Result{Bytes: raw}, err
}

func publicPart(in [][]byte) (Result, error) {
	key, err := privateKey(in[0])
	if err != nil {
		return Result{}, err
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return encoded(&k.PublicKey)
	case *ecdsa.PrivateKey:
		return encoded(&k.PublicKey)
	case ed25519.PrivateKey:
		return encoded(k.Public())
	case *ecdh.PrivateKey:
		return encoded(k.PublicKey())
	}
	return Result{}, &Error{"DataError", "The key has no public part"}
}

// describeKey returns the bits of the modulus of an RSA public key and its exponent.
func describeKey(in [][]byte) (Result, error) {
	key, err := publicKey(in[0])
	if err != nil {
		return Result{}, err
	}
	k, ok := key.(*rsa.PublicKey)
	if !ok {
		return Result{}, &Error{"DataError", "The key is not a key of RSA"}
	}
	return Result{Bytes: fmt.Appendf(nil, "%d %d", k.N.BitLen(), k.E), IsText: true}, nil
}

// ---- JSON Web Keys ----------------------------------------------------------------

// keyFromJWK reads a key of the kind in[0] from the members in[1], which are separated by
// spaces, "" for those that are missing: x, y and d of a curve, and for RSA n, e, d, p, q, dp, dq
// and qi.
func keyFromJWK(in [][]byte) (Result, error) {
	kind := string(in[0])
	fields := strings.Split(string(in[1]), " ")
	members := make([][]byte, 8)
	for i, field := range fields {
		if i >= len(members) {
			return Result{}, &Error{"DataError", "The JWK has too many members"}
		}
		raw, err := base64.RawURLEncoding.DecodeString(field)
		if err != nil {
			return Result{}, dataError("decode the JWK", err)
		}
		members[i] = raw
	}
	var key any
	var err error
	switch curve := curves[kind]; {
	case kind == "RSA":
		key, err = rsaFromJWK(members)
	case curve != nil:
		key, err = ecFromJWK(curve, members[0], members[1], members[2])
	default:
		key, err = okpPublic(kind, members[0])
		if err == nil && len(members[2]) > 0 {
			key, err = okpPrivate(kind, members[2])
			if err == nil && !sameOKP(key, members[0]) {
				err = &Error{"DataError", "The private and the public part of the JWK do not match"}
			}
		}
	}
	if err != nil {
		return Result{}, err
	}
	return encoded(key)
}

func sameOKP(private any, public []byte) bool {
	switch k := private.(type) {
	case ed25519.PrivateKey:
		return k.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(public))
	case *ecdh.PrivateKey:
		return string(k.PublicKey().Bytes()) == string(public)
	}
	return false
}

func ecFromJWK(curve elliptic.Curve, x, y, d []byte) (any, error) {
	size := (curve.Params().BitSize + 7) / 8
	if len(x) != size || len(y) != size || (len(d) > 0 && len(d) != size) {
		return nil, &Error{"DataError", fmt.Sprintf("The numbers of a JWK of %s must have %d bytes", curve.Params().Name, size)}
	}
	point := append([]byte{4}, x...)
	public, err := ecdsa.ParseUncompressedPublicKey(curve, append(point, y...))
	if err != nil {
		return nil, dataError("read the JWK", err)
	}
	if len(d) == 0 {
		return public, nil
	}
	private, err := ecdsa.ParseRawPrivateKey(curve, d)
	if err != nil {
		return nil, dataError("read the JWK", err)
	}
	if !private.PublicKey.Equal(public) {
		return nil, &Error{"DataError", "The private and the public part of the JWK do not match"}
	}
	return private, nil
}

func rsaFromJWK(members [][]byte) (any, error) {
	number := func(i int) *big.Int { return new(big.Int).SetBytes(members[i]) }
	if len(members[0]) > maxRSA/8 {
		return nil, &Error{"DataError", fmt.Sprintf("The modulus has more than %d bits", maxRSA)}
	}
	e := number(1)
	if !e.IsInt64() || e.Int64() >= 1<<31 {
		return nil, &Error{"DataError", "The public exponent has more than 31 bits"}
	}
	public := rsa.PublicKey{N: number(0), E: int(e.Int64())}
	if err := checkRSA(&public); err != nil {
		return nil, dataError("read the JWK", err)
	}
	if len(members[2]) == 0 {
		return &public, nil
	}
	if len(members[3]) == 0 || len(members[4]) == 0 {
		return nil, &Error{"NotSupportedError", "A private JWK of RSA needs the two primes"}
	}
	for i := 2; i < len(members); i++ {
		if len(members[i]) > maxRSA/8 {
			return nil, &Error{"DataError", fmt.Sprintf("A number of the JWK has more than %d bits", maxRSA)}
		}
	}
	private := &rsa.PrivateKey{PublicKey: public, D: number(2), Primes: []*big.Int{number(3), number(4)}}
	if err := private.Validate(); err != nil {
		return nil, dataError("read the JWK", err)
	}
	private.Precompute()
	computed := private.Precomputed
	for i, want := range []*big.Int{computed.Dp, computed.Dq, computed.Qinv} {
		if len(members[5+i]) > 0 && (want == nil || want.Cmp(number(5+i)) != 0) {
			return nil, &Error{"DataError", "The numbers of the JWK do not match"}
		}
	}
	return private, nil
}

// keyToJWK returns the members of a private or public key, as keyFromJWK reads them.
func keyToJWK(in [][]byte) (Result, error) {
	key, err := publicKey(in[0])
	if err != nil {
		if key, err = privateKey(in[0]); err != nil {
			return Result{}, err
		}
	}
	var members [][]byte
	number := func(n *big.Int) { members = append(members, n.Bytes()) }
	switch k := key.(type) {
	case *rsa.PublicKey:
		number(k.N)
		number(big.NewInt(int64(k.E)))
	case *rsa.PrivateKey:
		if len(k.Primes) != 2 {
			return Result{}, &Error{"NotSupportedError", "A key of RSA with more than two primes has no JWK"}
		}
		k.Precompute()
		number(k.N)
		number(big.NewInt(int64(k.E)))
		for _, n := range []*big.Int{k.D, k.Primes[0], k.Primes[1], k.Precomputed.Dp, k.Precomputed.Dq, k.Precomputed.Qinv} {
			number(n)
		}
	case *ecdsa.PublicKey:
		members, err = pointMembers(k)
	case *ecdsa.PrivateKey:
		members, err = pointMembers(&k.PublicKey)
		if err == nil {
			var d []byte
			d, err = k.Bytes()
			members = append(members, d)
		}
	case ed25519.PublicKey:
		members = [][]byte{k}
	case ed25519.PrivateKey:
		members = [][]byte{k.Public().(ed25519.PublicKey), nil, k.Seed()}
	case *ecdh.PublicKey:
		members = [][]byte{k.Bytes()}
	case *ecdh.PrivateKey:
		members = [][]byte{k.PublicKey().Bytes(), nil, k.Bytes()}
	}
	if err != nil {
		return Result{}, operationError("export a key", err)
	}
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = base64.RawURLEncoding.EncodeToString(m)
	}
	return Result{Bytes: []byte(strings.Join(texts, " ")), IsText: true}, nil
}

func pointMembers(key *ecdsa.PublicKey) ([][]byte, error) {
	raw, err := key.Bytes()
	if err != nil {
		return nil, err
	}
	half := len(raw) / 2
	return [][]byte{raw[1 : 1+half], raw[1+half:]}, nil
}

// agree returns the secret that a private and a public key of the same kind share.
func agree(private, public any) ([]byte, error) {
	toECDH := func(key any) any {
		var converted any
		var err error
		switch k := key.(type) {
		case *ecdsa.PrivateKey:
			converted, err = k.ECDH()
		case *ecdsa.PublicKey:
			converted, err = k.ECDH()
		default:
			return key
		}
		if err != nil {
			return nil
		}
		return converted
	}
	a, isPrivate := toECDH(private).(*ecdh.PrivateKey)
	b, isPublic := toECDH(public).(*ecdh.PublicKey)
	if !isPrivate || !isPublic {
		return nil, &Error{"InvalidAccessError", "The keys are not keys of a common curve"}
	}
	secret, err := a.ECDH(b)
	if err != nil {
		return nil, operationError("derive bits", err)
	}
	return secret, nil
}
