package platform

import (
	"crypto"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/md5"  //nolint:gosec // scripts compute checksums of old formats
	"crypto/sha1" //nolint:gosec // part of Web Crypto
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"fmt"
	"hash"
	"strconv"

	"crypto/pbkdf2"
)

// The functions of hashes: digests, message authentication codes, and keys that are derived
// with them.
var hashFunctions = map[string]function{
	"hash":   {2, computeHash},
	"hmac":   {3, computeHMAC},
	"hkdf":   {5, computeHKDF},
	"pbkdf2": {5, computePBKDF2},
}

// hashes are the hash functions by the name that the platform uses.
var hashes = map[string]func() hash.Hash{
	"MD5":         md5.New,
	"SHA-1":       sha1.New,
	"SHA-224":     sha256.New224,
	"SHA-256":     sha256.New,
	"SHA-384":     sha512.New384,
	"SHA-512":     sha512.New,
	"SHA-512/224": sha512.New512_224,
	"SHA-512/256": sha512.New512_256,
	"SHA3-224":    func() hash.Hash { return sha3.New224() },
	"SHA3-256":    func() hash.Hash { return sha3.New256() },
	"SHA3-384":    func() hash.Hash { return sha3.New384() },
	"SHA3-512":    func() hash.Hash { return sha3.New512() },
}

// webHashes are the hash functions of Web Crypto, as signatures name them.
var webHashes = map[string]crypto.Hash{
	"SHA-1": crypto.SHA1, "SHA-256": crypto.SHA256, "SHA-384": crypto.SHA384, "SHA-512": crypto.SHA512,
}

const (
	// maxRounds bounds the iterations of PBKDF2 times the blocks that it computes, about ten
	// seconds. A run cannot be stopped within a computation: its worker is ended instead.
	maxRounds = 10_000_000
	// maxDerived bounds the bytes that PBKDF2 derives. HKDF has a bound of its own.
	maxDerived = 1 << 20
	// maxHashed bounds the bytes of the salt of PBKDF2, or of the info of HKDF, times the
	// blocks: each block hashes all of them.
	maxHashed = 1 << 30
)

// checkHashed refuses an input of size bytes that too many blocks hash.
func checkHashed(what string, size, blocks int) error {
	if size <= maxHashed/blocks {
		return nil
	}
	return &Error{"OperationError", fmt.Sprintf("%s of %d bytes for %d blocks takes too long: use at most %d bytes times blocks", what, size, blocks, maxHashed)}
}

func namedHash(name []byte) (func() hash.Hash, error) {
	h, ok := hashes[string(name)]
	if !ok {
		return nil, &Error{"NotSupportedError", fmt.Sprintf("Unrecognized hash %q", name)}
	}
	return h, nil
}

func computeHash(in [][]byte) (Result, error) {
	h, err := namedHash(in[0])
	if err != nil {
		return Result{}, err
	}
	d := h()
	d.Write(in[1])
	return Result{Bytes: d.Sum(nil)}, nil
}

func computeHMAC(in [][]byte) (Result, error) {
	h, err := namedHash(in[0])
	if err != nil {
		return Result{}, err
	}
	mac := hmac.New(h, in[1])
	mac.Write(in[2])
	return Result{Bytes: mac.Sum(nil)}, nil
}

// computeHKDF derives in[4] bytes with the hash in[0] from the key in[1], the salt in[2] and
// the info in[3].
func computeHKDF(in [][]byte) (Result, error) {
	h, err := namedHash(in[0])
	if err != nil {
		return Result{}, err
	}
	length, err := strconv.Atoi(string(in[4]))
	if limit := 255 * h().Size(); err != nil || length < 0 || length > limit {
		return Result{}, &Error{"OperationError", fmt.Sprintf("HKDF with %s derives at most %d bytes", in[0], limit)}
	}
	if length == 0 {
		return Result{}, nil
	}
	size := h().Size()
	if err := checkHashed("HKDF with an info", len(in[3]), (length+size-1)/size); err != nil {
		return Result{}, err
	}
	key, err := hkdf.Key(h, in[1], in[2], string(in[3]), length)
	if err != nil {
		return Result{}, operationError("derive bits with HKDF", err)
	}
	return Result{Bytes: key}, nil
}

// computePBKDF2 derives in[4] bytes with the hash in[0] from the password in[1] and the salt
// in[2] in in[3] iterations.
func computePBKDF2(in [][]byte) (Result, error) {
	h, err := namedHash(in[0])
	if err != nil {
		return Result{}, err
	}
	iterations, err := strconv.Atoi(string(in[3]))
	if err != nil || iterations < 1 {
		return Result{}, &Error{"OperationError", "PBKDF2 needs at least one iteration"}
	}
	length, err := strconv.Atoi(string(in[4]))
	if err != nil || length < 0 || length > maxDerived {
		return Result{}, &Error{"OperationError", fmt.Sprintf("PBKDF2 derives at most %d bytes", maxDerived)}
	}
	if length == 0 {
		return Result{}, nil
	}
	size := h().Size()
	blocks := (length + size - 1) / size
	if iterations > maxRounds/blocks {
		return Result{}, &Error{"OperationError", fmt.Sprintf(
			"PBKDF2 with %d iterations for %d blocks takes too long: use at most %d iterations times blocks of %d bytes", iterations, blocks, maxRounds, size)}
	}
	if err := checkHashed("PBKDF2 with a salt", len(in[2]), blocks); err != nil {
		return Result{}, err
	}
	key, err := pbkdf2.Key(h, string(in[1]), in[2], iterations, length)
	if err != nil {
		return Result{}, operationError("derive bits with PBKDF2", err)
	}
	return Result{Bytes: key}, nil
}

func operationError(what string, err error) error {
	return &Error{"OperationError", fmt.Sprintf("%s: %v", what, err)}
}

func dataError(what string, err error) error {
	return &Error{"DataError", fmt.Sprintf("%s: %v", what, err)}
}
