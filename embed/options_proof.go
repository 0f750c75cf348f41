package embed

import (
	"errors"

	"daybook/internal/translog"
)

// ProofOptions configure the proofs that the ledger was not changed.
type ProofOptions struct {
	// Off keeps no proofs.
	Off bool
	// KeyFile is the file of the key that signs checkpoints of the ledger. It is
	// created if it does not exist. Default: a file in DataDir.
	KeyFile string
	// WitnessURL receives every checkpoint.
	WitnessURL string
	// ScrubEvents is the number of events per second that the scrub re-reads and
	// compares with their hashes, at most 1 MiB per second. Default: 2,000. A negative
	// number turns the scrub off.
	ScrubEvents int
}

// validate returns the errors of the fields.
func (o ProofOptions) validate() error {
	return errors.Join(
		ofField("Proof.WitnessURL", translog.CheckWitness(o.WitnessURL)),
		optionRange[int]{least: 1, negative: "turns the scrub off"}.check("Proof.ScrubEvents", o.ScrubEvents),
	)
}
