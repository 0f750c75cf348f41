package embed

import (
	"errors"
	"time"

	"daybook/internal/lifecycle/retention"
	"daybook/internal/translog"
)

// ContextOptions bound the conversation contexts. The zero value selects the defaults.
type ContextOptions struct {
	// Idle is the time without use after which a context is reset. Default: 30 min.
	Idle time.Duration
	// MaxSessions is the maximum number of contexts in memory, and MaxMB their
	// approximate maximum total size in MiB. MaxMB may be up to MaxMemoryMB. Contexts that
	// are not in memory are read from the projections when they are needed. Defaults:
	// 10,000 and 64.
	MaxSessions int
	MaxMB       int
	// HighWaterMB is the size of the Go heap, in MiB, above which contexts are dropped
	// from memory. It may be up to MaxMemoryMB. Default: 512.
	HighWaterMB int
	// TenantScope gives all principals of a tenant the same context for a session name.
	// Otherwise each principal with a token has its own.
	TenantScope bool
	// SecretKeys extends the built-in list of parts of names: a context does not store a
	// value whose name contains one of them.
	SecretKeys []string
}

// validate returns the errors of the fields.
func (o ContextOptions) validate() error {
	count, size := optionRange[int]{least: 1}, optionRange[int]{least: 1, most: MaxMemoryMB, unit: " MB"}
	return errors.Join(
		optionRange[time.Duration]{least: 1}.check("Contexts.Idle", o.Idle),
		count.check("Contexts.MaxSessions", o.MaxSessions),
		size.check("Contexts.MaxMB", o.MaxMB),
		size.check("Contexts.HighWaterMB", o.HighWaterMB),
	)
}

// ProofOptions configure the proofs that the ledger was not changed.
type ProofOptions struct {
	// Off keeps no proofs.
	Off bool
	// KeyFile is the file of the key that signs checkpoints of the ledger. It is
	// created if it does not exist. Default: a file in DataDir.
	KeyFile string
	// SignedFile is the file with the newest checkpoint that this server signed, to which a
	// start compares the ledger. Default: KeyFile and ".signed".
	SignedFile string
	// WitnessPolicy is a file with the witnesses that cosign checkpoints, and how many must
	// (C2SP tlog-policy). Default: none.
	WitnessPolicy string
	// WitnessURL is the address that copies of checkpoints are sent to, without proofs. A
	// checkpoint that is not sent yet is replaced by a newer one. Default: none.
	WitnessURL string
	// ScrubEvents is the number of events per second that the scrub re-reads and
	// compares with their hashes, at most 1 MiB per second. Default: 2,000. A negative
	// number turns the scrub off. Files that were checked and keep their size and time are
	// then not read again; see StorageOptions.CheckBytes.
	ScrubEvents int
	// ReplaySample makes the scrub replay one execution in so many, each once, while the server
	// executes nothing. A difference is a finding of damage. Default: 1,000. A negative number
	// replays none.
	ReplaySample int
}

// validate returns the errors of the fields.
func (o ProofOptions) validate() error {
	return errors.Join(
		ofField("Proof.WitnessPolicy", translog.CheckWitnessPolicy(o.WitnessPolicy)),
		ofField("Proof.WitnessURL", translog.CheckWitness(o.WitnessURL)),
		optionRange[int]{least: 1, negative: "turns the scrub off"}.check("Proof.ScrubEvents", o.ScrubEvents),
		optionRange[int]{least: 1, negative: "replays no sample"}.check("Proof.ReplaySample", o.ReplaySample),
	)
}

// StorageOptions configure the volumes of the ledger and the check of their files.
type StorageOptions struct {
	// SealEvery is the schedule of volume rotation: "month", the default, at the end of
	// the month (UTC) in which the volume was opened, or "never". SealBytes is the size
	// on disk at which a volume is sealed in any case, at least 1 MiB. Default: 1 GiB.
	// SealExecutions is the number of executions at which it is, counted as half the number of
	// its subjects. Default: 50,000. A negative number is unlimited.
	SealEvery      string
	SealBytes      int64
	SealExecutions int
	// StreamVolumes is the number of newest sealed volumes that stay streams, which NATS
	// consumers can read. Older ones become archives. Default: 1. A negative number keeps all
	// as streams.
	StreamVolumes int
	// ProjectionCopies is the number of newest projection copies that are kept. One is made after
	// a volume was sealed, and a rebuild of the projections begins with the newest. Default: 2. A
	// negative number makes none.
	ProjectionCopies int
	// CheckBytes is how much of the newest part of each stream's files is checked for
	// damage before the NATS server uses the files, without the files that have not changed
	// since they were last checked. Default: 16 GiB. A negative number checks all files, also
	// the unchanged ones.
	CheckBytes int64
	// AcceptDamage starts although the ledger is damaged: the first event of a new
	// volume names the loss, and the damaged files are quarantined. It has no
	// effect if nothing is damaged, and is needed for one start only.
	AcceptDamage bool
}

// validate returns the errors of the fields.
func (o StorageOptions) validate() error {
	var problems []error
	if o.SealEvery != "" && o.SealEvery != sealMonthly && o.SealEvery != sealNever {
		problems = append(problems, fieldIs("Storage.SealEvery", "%q: choose %s or %s", o.SealEvery, sealMonthly, sealNever))
	}
	if o.SealBytes > maxStoredBytes {
		problems = append(problems, optionRange[int64]{least: 1 << 20, most: maxStoredBytes}.check("Storage.SealBytes", o.SealBytes))
	} else if o.SealBytes > 0 && o.SealBytes < 1<<20 {
		problems = append(problems, fieldIs("Storage.SealBytes", "%d: the least is 1 MiB (1048576)", o.SealBytes))
	}
	problems = append(problems,
		optionRange[int]{least: 1, negative: "is unlimited"}.check("Storage.SealExecutions", o.SealExecutions),
		optionRange[int]{least: 1, negative: "keeps all volumes as streams"}.check("Storage.StreamVolumes", o.StreamVolumes),
		optionRange[int]{least: 1, negative: "makes none"}.check("Storage.ProjectionCopies", o.ProjectionCopies))
	return errors.Join(problems...)
}

func (o StorageOptions) withDefaults() StorageOptions {
	setDefault(&o.SealEvery, sealMonthly)
	setDefault(&o.SealBytes, 1<<30)
	setDefault(&o.SealExecutions, 50_000)
	setDefault(&o.StreamVolumes, 1)
	setDefault(&o.ProjectionCopies, 2)
	setDefault(&o.CheckBytes, 16<<30)
	return o
}

// ContentOptions configure how long content is kept: heaps, and the content of
// sessions.
type ContentOptions struct {
	// HeapRetention is the time without use after which heaps without tags and
	// references are collected automatically, at least 1 h. 0 keeps all heaps. The
	// newest HeapRetentionEntries entries of each session keep their heaps. Default:
	// 100. A negative number keeps none of them.
	HeapRetention        time.Duration
	HeapRetentionEntries int
	// Erasable encrypts content with a key for each session, and with a key of the tenant
	// what belongs to no session, so that Shred can destroy it. NATS subscribers, webhooks and exports
	// then receive ciphertext. KeyDir is the directory of the keys. Default: the
	// directory that was used last, or DataDir/keys if none was. Encrypted content is
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

// WebhookOptions configure the deliveries of webhooks.
type WebhookOptions struct {
	// AllowPrivate permits webhooks to this machine and to private networks, and over
	// plain HTTP. Clients that may add webhooks can then reach these networks.
	AllowPrivate bool
}
