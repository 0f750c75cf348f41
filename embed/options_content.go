package embed

import (
	"errors"
	"time"

	"daybook/internal/lifecycle/retention"
)

// ContentOptions configure how long content is kept: heaps, and the content of
// sessions.
type ContentOptions struct {
	// HeapRetention is the time without use after which heaps without tags and
	// references are collected automatically, at least 1 h. 0 keeps all heaps. The
	// newest HeapRetentionEntries entries of each session keep their heaps. Default:
	// 100. A negative number keeps none of them.
	HeapRetention        time.Duration
	HeapRetentionEntries int
	// Erasable encrypts the content of runs in named sessions, with a key for each
	// session, so that Shred can destroy it. NATS subscribers, webhooks and exports
	// then receive ciphertext. KeyDir is the directory of the keys. Default: the
	// directory that was used last, at first DataDir/keys. Encrypted content is
	// readable as long as its key exists, with or without Erasable. WithoutKeys lets
	// Rebuild omit content whose keys are lost; otherwise Rebuild returns an error.
	Erasable    bool
	KeyDir      string
	WithoutKeys bool
}

// validate returns the errors of the fields.
func (o ContentOptions) validate() error {
	var problem error
	if o.HeapRetention != 0 && o.HeapRetention < retention.MinAge {
		problem = fieldIs("Content.HeapRetention", "%s: it must be %s or more, or 0 to keep all heaps", o.HeapRetention, retention.MinAge)
	}
	return errors.Join(problem, optionRange[int]{least: 1, most: maxCount, negative: "is none"}.check("Content.HeapRetentionEntries", o.HeapRetentionEntries))
}
