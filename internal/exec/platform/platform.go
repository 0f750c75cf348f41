// Package platform computes the functions of the web platform that scripts call and that need
// more than JavaScript: the parsing of URLs, cryptography, compression. A worker calls them
// during a run, on the thread of the isolate.
//
// Each function depends on its inputs and nothing else: no clock, no randomness, no file. A
// function that needs random bytes receives them as an input, because a replay must compute
// the same.
//
// The files, in reading order:
//
//   - platform.go: Compute, which calls a function by its name; errors
//   - url.go: URLs: their record, its text, assignments to parts, percent-encoding
//   - urlparse.go: the parser of the URL standard
//   - urlhost.go: the hosts of URLs: domains and addresses
//   - hash.go: digests, HMAC, HKDF and PBKDF2
//   - cipher.go: AES
//   - keys.go: keys with a private and a public part, in all formats
//   - rsakeys.go: generates RSA keys
//   - signature.go: signatures, key agreement, RSA-OAEP
//   - unsalted.go: signatures of RSA-PSS without a salt
//   - compression.go: the formats of compressed content
//   - decoding.go: the encodings of text besides UTF-8
//   - iso2022jp.go: the encoding ISO-2022-JP, whose bytes mean what earlier ones select
//   - body.go: encodes and decodes the bodies of requests and responses
package platform

import (
	"errors"
	"fmt"
)

// Result is what a function computes.
type Result struct {
	Bytes []byte
	// IsText reports whether Bytes is UTF-8 that the script receives as a string.
	IsText bool
}

// Error is an error that the script receives as an exception.
type Error struct {
	// Name is the name of the exception: TypeError, RangeError, or a name of a DOMException.
	Name    string
	Message string
}

func (e *Error) Error() string { return e.Message }

// ErrorName returns the name of the exception for an error of Compute.
func ErrorName(err error) string {
	var named *Error
	if errors.As(err, &named) {
		return named.Name
	}
	return "OperationError"
}

// Compute calls a function by its name. It MUST NOT keep inputs, and the result has no part of
// them.
func Compute(name string, inputs [][]byte) (Result, error) {
	f, ok := functions[name]
	if !ok {
		return Result{}, &Error{"TypeError", fmt.Sprintf("the platform has no function %q", name)}
	}
	if len(inputs) != f.inputs {
		return Result{}, &Error{"TypeError", fmt.Sprintf("%s needs %d inputs, not %d", name, f.inputs, len(inputs))}
	}
	return f.compute(inputs)
}

type function struct {
	inputs  int
	compute func(inputs [][]byte) (Result, error)
}

// functions are the functions by the name that a part of the platform calls them. Each file of
// this package has those of its topic.
var functions = join(hashFunctions, cipherFunctions, keyFunctions, signatureFunctions, bodyFunctions,
	urlFunctions, compressionFunctions, decodingFunctions)

// join panics if two topics have a function of the same name.
func join(topics ...map[string]function) map[string]function {
	all := map[string]function{}
	for _, topic := range topics {
		for name, f := range topic {
			if _, ok := all[name]; ok {
				panic("two functions of the platform are called " + name)
			}
			all[name] = f
		}
	}
	return all
}
