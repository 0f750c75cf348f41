package platform

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"strconv"
)

// The functions of AES. The inputs are the mode, the key, the initialization vector or counter,
// a number, the additional data and the data. The number is the bytes of the tag for GCM, and
// the bits of the counter for CTR.
var cipherFunctions = map[string]function{
	"aesEncrypt": {6, func(in [][]byte) (Result, error) { return computeAES(in, true) }},
	"aesDecrypt": {6, func(in [][]byte) (Result, error) { return computeAES(in, false) }},
}

// maxCipherData bounds the bytes that one call encrypts, because a call holds the data several
// times.
const maxCipherData = 64 << 20

func computeAES(in [][]byte, encrypt bool) (Result, error) {
	mode, key, iv, data := string(in[0]), in[1], in[2], in[5]
	number, err := strconv.Atoi(string(in[3]))
	if err != nil {
		return Result{}, operationError("read the parameter of AES", err)
	}
	if len(data) > maxCipherData {
		return Result{}, &Error{"OperationError", fmt.Sprintf("one call takes at most %d MiB of data", maxCipherData>>20)}
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return Result{}, operationError("use an AES key", err)
	}
	var out []byte
	switch mode {
	case "GCM":
		out, err = computeGCM(block, iv, number, in[4], data, encrypt)
	case "CBC":
		out, err = computeCBC(block, iv, data, encrypt)
	case "CTR":
		out, err = computeCTR(block, iv, number, data)
	case "KW":
		out, err = computeKW(block, data, encrypt)
	default:
		err = &Error{"NotSupportedError", "Unrecognized mode of AES"}
	}
	return Result{Bytes: out}, err
}

var errDecrypt = &Error{"OperationError", "The operation failed for an operation-specific reason"}

// computeGCM has tags and vectors of any length. A shorter tag is the start of the full one.
// GCM combines the data with the same key stream in both directions: sealing the ciphertext
// gives the data.
func computeGCM(block cipher.Block, iv []byte, tagSize int, additional, data []byte, encrypt bool) ([]byte, error) {
	if len(iv) == 0 {
		return nil, &Error{"OperationError", "The initialization vector is empty"}
	}
	gcm, err := cipher.NewGCMWithNonceSize(block, len(iv))
	if err != nil {
		return nil, operationError("use AES-GCM", err)
	}
	if tagSize < 4 || tagSize > gcm.Overhead() {
		return nil, &Error{"OperationError", "The length of the tag is not valid"}
	}
	if encrypt {
		sealed := gcm.Seal(nil, iv, data, additional)
		return sealed[:len(data)+tagSize], nil
	}
	if len(data) < tagSize {
		return nil, &Error{"OperationError", "The provided data is too small"}
	}
	size := len(data) - tagSize
	plain := gcm.Seal(nil, iv, data[:size], additional)[:size]
	again := gcm.Seal(nil, iv, plain, additional)
	if subtle.ConstantTimeCompare(again[size:size+tagSize], data[size:]) != 1 {
		return nil, errDecrypt
	}
	return plain, nil
}

// computeCBC pads as PKCS #7 requires.
func computeCBC(block cipher.Block, iv, data []byte, encrypt bool) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size {
		return nil, &Error{"OperationError", "The initialization vector of AES-CBC must have 16 bytes"}
	}
	if encrypt {
		pad := size - len(data)%size
		out := slices.Concat(data, bytes.Repeat([]byte{byte(pad)}, pad))
		cipher.NewCBCEncrypter(block, iv).CryptBlocks(out, out)
		return out, nil
	}
	if len(data) == 0 || len(data)%size != 0 {
		return nil, errDecrypt
	}
	out := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(out, data)
	pad := int(out[len(out)-1])
	if pad < 1 || pad > size || !bytes.HasSuffix(out, bytes.Repeat([]byte{byte(pad)}, pad)) {
		return nil, errDecrypt
	}
	return out[:len(out)-pad], nil
}

// computeCTR counts in the last bits of the counter block, as many as given. The count starts
// again at zero after the last number, and no number is used twice.
func computeCTR(block cipher.Block, counter []byte, bits int, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(counter) != size || bits < 1 || bits > 8*size {
		return nil, &Error{"OperationError", "The counter of AES-CTR must have 16 bytes, and a length of 1 to 128 bits"}
	}
	all := new(big.Int).Lsh(big.NewInt(1), uint(bits))
	start := new(big.Int).SetBytes(counter)
	start.Mod(start, all)
	blocks := big.NewInt(int64((len(data) + size - 1) / size))
	if blocks.Cmp(all) > 0 {
		return nil, &Error{"OperationError", "The data is too long for the length of the counter"}
	}
	out := make([]byte, len(data))
	first := len(data)
	if left := new(big.Int).Sub(all, start); left.Cmp(blocks) < 0 {
		first = int(left.Int64()) * size
	}
	cipher.NewCTR(block, counter).XORKeyStream(out[:first], data[:first])
	if first == len(data) {
		return out, nil
	}
	restart := new(big.Int).SetBytes(counter)
	restart.Sub(restart, start) // the bits that do not count
	cipher.NewCTR(block, restart.FillBytes(make([]byte, size))).XORKeyStream(out[first:], data[first:])
	return out, nil
}

// computeKW wraps keys as RFC 3394 says.
func computeKW(block cipher.Block, data []byte, wrap bool) ([]byte, error) {
	const half = 8
	initial := bytes.Repeat([]byte{0xa6}, half)
	n := len(data) / half
	if len(data)%half != 0 || (wrap && n < 2) || (!wrap && n < 3) {
		return nil, &Error{"OperationError", "AES-KW wraps keys of at least 16 bytes, in multiples of 8 bytes"}
	}
	var buffer [16]byte
	if wrap {
		out := slices.Concat(initial, data)
		for t := range 6 * n {
			r := out[half*(t%n+1):][:half]
			copy(buffer[:half], out[:half])
			copy(buffer[half:], r)
			block.Encrypt(buffer[:], buffer[:])
			binary.BigEndian.PutUint64(out, binary.BigEndian.Uint64(buffer[:])^uint64(t+1))
			copy(r, buffer[half:])
		}
		return out, nil
	}
	n--
	out := slices.Clone(data)
	for t := 6*n - 1; t >= 0; t-- {
		r := out[half*(t%n+1):][:half]
		binary.BigEndian.PutUint64(buffer[:], binary.BigEndian.Uint64(out)^uint64(t+1))
		copy(buffer[half:], r)
		block.Decrypt(buffer[:], buffer[:])
		copy(out[:half], buffer[:half])
		copy(r, buffer[half:])
	}
	if subtle.ConstantTimeCompare(out[:half], initial) != 1 {
		return nil, errDecrypt
	}
	return out[half:], nil
}
