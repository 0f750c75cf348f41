package platform

import (
	"crypto/rsa"
	"crypto/sha3"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
)

// maxGenerated bounds the bits of the modulus of keys that scripts generate: finding the primes
// of larger ones takes too long.
const maxGenerated = 4096

// generateRSA makes a key with a modulus of in[0] bits and the public exponent in[1] from the
// random seed in[2]. crypto/rsa generates keys from its own randomness only, and a replay must
// find the same primes. The primes are the first ones in a stream of candidates that SHAKE256
// derives from the seed.
func generateRSA(in [][]byte) (Result, error) {
	bits, err := strconv.Atoi(string(in[0]))
	if err != nil || bits < minRSA || bits > maxGenerated || bits%8 != 0 {
		return Result{}, &Error{"NotSupportedError", fmt.Sprintf(
			"A generated key of RSA has a modulus of %d to %d bits, in multiples of 8; import larger keys", minRSA, maxGenerated)}
	}
	e := new(big.Int).SetBytes(in[1])
	if !e.IsInt64() || e.Int64() >= 1<<31 || e.Int64() < 3 || e.Bit(0) == 0 {
		return Result{}, &Error{"OperationError", "The public exponent must be an odd number from 3 to 2147483647"}
	}
	stream := sha3.NewSHAKE256()
	stream.Write(in[2])
	for {
		p := nextPrime(stream, bits/2, e)
		q := nextPrime(stream, bits/2, e)
		if p.Cmp(q) == 0 {
			continue
		}
		if p.Cmp(q) < 0 {
			p, q = q, p
		}
		one := big.NewInt(1)
		p1, q1 := new(big.Int).Sub(p, one), new(big.Int).Sub(q, one)
		common := new(big.Int).GCD(nil, nil, p1, q1)
		lcm := new(big.Int).Div(new(big.Int).Mul(p1, q1), common)
		key := &rsa.PrivateKey{
			PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: int(e.Int64())},
			D:         new(big.Int).ModInverse(e, lcm),
			Primes:    []*big.Int{p, q},
		}
		if key.D == nil {
			continue
		}
		key.Precompute()
		if err := key.Validate(); err != nil {
			return Result{}, operationError("generate a key", err)
		}
		return encoded(key)
	}
}

// nextPrime returns the next prime of the stream. bits is a multiple of 4. Its two highest bits are
// set, so that the product of two primes has all bits of the modulus.
func nextPrime(stream io.Reader, bits int, e *big.Int) *big.Int {
	one := big.NewInt(1)
	candidate := make([]byte, (bits+7)/8)
	spare := 8*len(candidate) - bits
	for {
		if _, err := io.ReadFull(stream, candidate); err != nil {
			panic(err) // SHAKE256 has no end
		}
		candidate[0] = candidate[0]&(0xff>>spare) | 0xc0>>spare
		candidate[len(candidate)-1] |= 1
		p := new(big.Int).SetBytes(candidate)
		// 20 rounds of Miller-Rabin with bases that depend on p only, and a Lucas test.
		if !hasSmallFactor(p) && new(big.Int).GCD(nil, nil, new(big.Int).Sub(p, one), e).Cmp(one) == 0 && p.ProbablyPrime(20) {
			return p
		}
	}
}

// oddPrimes are the odd primes below 8192, in groups whose products have less than 64 bits.
var oddPrimes = func() (groups [][]uint64) {
	const limit = 8192
	var composite [limit]bool
	product := uint64(1)
	for p := uint64(3); p < limit; p += 2 {
		if composite[p] {
			continue
		}
		for multiple := p * p; multiple < limit; multiple += p {
			composite[multiple] = true
		}
		if len(groups) == 0 || product > math.MaxInt64/p {
			groups, product = append(groups, nil), 1
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], p)
		product *= p
	}
	return groups
}()

// hasSmallFactor reports whether an odd prime below 8192 divides n, which is larger. It spares
// most of the numbers that are not prime a test that takes milliseconds.
func hasSmallFactor(n *big.Int) bool {
	divisor, rest := new(big.Int), new(big.Int)
	for _, group := range oddPrimes {
		product := uint64(1)
		for _, p := range group {
			product *= p
		}
		r := rest.Mod(n, divisor.SetUint64(product)).Uint64()
		for _, p := range group {
			if r%p == 0 {
				return true
			}
		}
	}
	return false
}
