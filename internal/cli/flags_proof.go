package cli

import "daybook/embed"

// proofFlags are the flags of embed.ProofOptions.
type proofFlags struct {
	AuditKey   string `name:"audit-key" option:"Proof.KeyFile" help:"File of the signing key for checkpoints, created if it does not exist. Default: a file in the data directory." placeholder:"FILE"`
	WitnessURL string `name:"witness-url" option:"Proof.WitnessURL" help:"URL of a witness that receives every signed checkpoint by POST." placeholder:"URL"`
	ScrubRate  int    `name:"scrub-rate" option:"Proof.ScrubEvents" help:"Events per second that the scrub re-reads and compares with their hashes, at most 1 MiB/s; 0 turns the scrub off." default:"2000" placeholder:"N"`
}

func (f proofFlags) options() embed.ProofOptions {
	return embed.ProofOptions{KeyFile: f.AuditKey, WitnessURL: f.WitnessURL, ScrubEvents: zeroIsNone(f.ScrubRate)}
}
