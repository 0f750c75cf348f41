package embed

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
)

// Options configure a Daybook. Only DataDir is required. The zero values of the other
// fields suit a program that opens no listeners. In every group the zero value of a
// field selects its default, and where a negative number is permitted it means none or
// unlimited.
type Options struct {
	// DataDir holds the streams, the projections and the socket. One process at a time
	// owns it: a second Start fails with ErrLocked, unless Owner.TakeOver is set.
	DataDir string
	// Version is reported to clients.
	Version string
	// Logger receives all log records. Default: they are discarded.
	Logger *slog.Logger
	// Progress, if set, is called by Rebuild with the position reached and the last
	// position.
	Progress func(done, total uint64)

	Owner     OwnerOptions
	HTTP      HTTPOptions
	Access    AccessOptions
	NATS      NATSOptions
	Slots     SlotOptions
	Runs      RunOptions
	Workers   WorkerOptions
	Resources ResourceOptions
	Tools     ToolOptions
	Fetch     FetchOptions
	MCP       MCPOptions
	Contexts  ContextOptions
	Proof     ProofOptions
	Storage   StorageOptions
	Content   ContentOptions
	Webhooks  WebhookOptions
}

// Validate returns an *OptionError with the errors of all fields that have an invalid
// value. Start and Rebuild call it.
func (o Options) Validate() error {
	var dataDir error
	if o.DataDir == "" {
		dataDir = fieldIs("DataDir", "empty: name the directory that holds the ledger")
	}
	err := errors.Join(
		dataDir,
		o.Owner.validate(),
		o.HTTP.validate(),
		o.Access.validate(),
		o.NATS.validate(),
		o.Slots.validate(),
		o.Runs.validate(),
		o.Workers.validate(),
		o.Resources.validate(),
		o.Tools.validate(),
		o.Fetch.validate(),
		o.MCP.validate(),
		o.Contexts.validate(),
		o.Proof.validate(),
		o.Storage.validate(),
		o.Content.validate(),
	)
	if err != nil {
		return asOption(fmt.Errorf("options: %w", err))
	}
	return nil
}

// withDefaults returns the options with the defaults of fields that are not set.
func (o Options) withDefaults() (Options, error) {
	if err := o.Validate(); err != nil {
		return o, err
	}
	setDefault(&o.Version, "devel")
	if o.Owner.Notice == nil {
		o.Owner.Notice = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	setDefault(&o.NATS.Replicas, 1)
	setDefault(&o.Proof.ScrubEvents, 2000)
	setDefault(&o.Proof.ReplaySample, 1000)
	o.HTTP = o.HTTP.withDefaults()
	o.Slots = o.Slots.withDefaults()
	o.Runs = o.Runs.withDefaults()
	o.Resources = o.Resources.withDefaults(o.Logger)
	o.Storage = o.Storage.withDefaults()
	abs, err := filepath.Abs(o.DataDir)
	if err != nil {
		return o, fmt.Errorf("options: resolve DataDir: %w", err)
	}
	o.DataDir = abs
	return o, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
