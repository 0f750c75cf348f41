package embed

import "time"

// OwnerOptions configure how the process owns the data directory.
type OwnerOptions struct {
	// TakeOver makes Start and Rebuild ask an owner with Background to hand the data
	// directory over, and wait for it.
	TakeOver bool
	// Background makes an owner that releases the data directory on request of another
	// process, or after neither a client nor a run used it for IdleExit. If IdleExit is
	// 0 or less it is released only on request. The owner closes Released; the program
	// MUST then call Close.
	Background bool
	IdleExit   time.Duration
	// Settings are the flags of the program, as --name=value. Clients with other flags
	// receive the names of those that differ.
	Settings []string
	// Notice, if set, is called with each message to the user while Start waits. A
	// message is one line.
	Notice func(text string)
}

// validate returns the errors of the fields.
func (o OwnerOptions) validate() error {
	return optionRange[time.Duration]{least: 1, negative: "is unlimited"}.check("Owner.IdleExit", o.IdleExit)
}
