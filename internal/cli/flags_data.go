package cli

import (
	"time"

	"daybook/embed"
)

// contextFlags are the flags of embed.ContextOptions.
type contextFlags struct {
	ContextIdle      time.Duration `name:"context-idle" option:"Contexts.Idle" help:"Idle time after which a conversation context is reset." default:"30m" placeholder:"DURATION"`
	ContextSessions  int           `name:"context-max-sessions" option:"Contexts.MaxSessions" help:"Conversation contexts held in memory; others are read when needed." default:"10000" placeholder:"N"`
	ContextMemory    int           `name:"context-memory" option:"Contexts.MaxMB" help:"Memory for conversation contexts, in MB." default:"64" placeholder:"MB"`
	ContextHighWater int           `name:"context-high-water" option:"Contexts.HighWaterMB" help:"Size of the Go heap, in MB, above which conversation contexts are dropped from memory." default:"512" placeholder:"MB"`
	ContextScope     string        `name:"context-scope" option:"Contexts.TenantScope" help:"Sharing of the conversation context of a session name with --auth: principal (each has its own) or tenant (one for all)." default:"principal" enum:"principal,tenant" placeholder:"SCOPE"`
	ContextSecrets   []string      `name:"context-secret-key" option:"Contexts.SecretKeys" help:"Part of the names whose values are kept out of conversation contexts, besides the usual ones; may be repeated." placeholder:"NAME"`
}

func (f contextFlags) options() embed.ContextOptions {
	return embed.ContextOptions{
		Idle: refuseZero(f.ContextIdle), MaxSessions: refuseZero(f.ContextSessions), MaxMB: refuseZero(f.ContextMemory), HighWaterMB: refuseZero(f.ContextHighWater),
		TenantScope: f.ContextScope == "tenant", SecretKeys: f.ContextSecrets,
	}
}

// proofFlags are the flags of embed.ProofOptions.
type proofFlags struct {
	AuditKey      string `name:"audit-key" option:"Proof.KeyFile" help:"File of the signing key for checkpoints, created if it does not exist. Default: a file in the data directory." placeholder:"FILE"`
	Signed        string `name:"audit-signed" option:"Proof.SignedFile" help:"File with the newest signed checkpoint, to which a start compares the ledger. Default: the key file and .signed." placeholder:"FILE"`
	WitnessPolicy string `name:"witness-policy" option:"Proof.WitnessPolicy" help:"File with the witnesses that cosign checkpoints, and how many of them must (C2SP tlog-policy)." placeholder:"FILE"`
	WitnessURL    string `name:"witness-url" option:"Proof.WitnessURL" help:"URL that receives a copy of every signed checkpoint by POST, without proofs." placeholder:"URL"`
	ScrubRate     int    `name:"scrub-rate" option:"Proof.ScrubEvents" help:"Events per second that the scrub re-reads and compares with their hashes, at most 1 MiB/s; 0 turns the scrub off." default:"2000" placeholder:"N"`
	ReplaySample  int    `name:"replay-sample" option:"Proof.ReplaySample" help:"The scrub replays one execution in so many, each once, while the server executes nothing, and reports a difference like damage; 0 replays none." default:"1000" placeholder:"N"`
}

func (f proofFlags) options() embed.ProofOptions {
	return embed.ProofOptions{KeyFile: f.AuditKey, SignedFile: f.Signed, WitnessPolicy: f.WitnessPolicy, WitnessURL: f.WitnessURL, ScrubEvents: zeroIsNone(f.ScrubRate), ReplaySample: zeroIsNone(f.ReplaySample)}
}

// storageFlags are the flags of embed.StorageOptions.
type storageFlags struct {
	SealEvery    string `name:"seal-every" option:"Storage.SealEvery" help:"Schedule for volume rotation: month (UTC) or never." enum:"month,never" default:"month"`
	SealBytes    int64  `name:"seal-bytes" option:"Storage.SealBytes" help:"Size at which a volume is sealed in any case, in bytes, 1048576 or more; 0 is unlimited." default:"1073741824" placeholder:"BYTES"`
	SealRuns     int    `name:"seal-executions" option:"Storage.SealExecutions" help:"Number of executions, about, at which a volume is sealed in any case; 0 is unlimited." default:"50000" placeholder:"N"`
	Streams      int    `name:"stream-volumes" option:"Storage.StreamVolumes" help:"Number of newest sealed volumes that stay streams, which NATS consumers can read; older ones become archives. 0 keeps all as streams." default:"1" placeholder:"N"`
	Copies       int    `name:"projection-copies" option:"Storage.ProjectionCopies" help:"Number of newest copies of the projections to keep; one is made after a volume was sealed, and a rebuild begins with the newest. 0 makes none." default:"2" placeholder:"N"`
	AcceptDamage bool   `name:"accept-damage" option:"Storage.AcceptDamage" help:"Start although the ledger is damaged: a new volume is opened, its first event names the loss, and the damaged files are quarantined. Needed for one start only."`
}

func (f storageFlags) options() embed.StorageOptions {
	return embed.StorageOptions{SealEvery: f.SealEvery, SealBytes: zeroIsNone(f.SealBytes), SealExecutions: zeroIsNone(f.SealRuns), StreamVolumes: zeroIsNone(f.Streams), ProjectionCopies: zeroIsNone(f.Copies), AcceptDamage: f.AcceptDamage}
}

// contentFlags are the flags of embed.ContentOptions.
type contentFlags struct {
	HeapRetention        time.Duration `name:"heap-retention" option:"Content.HeapRetention" help:"Time without use after which untagged and unreferenced heaps are deleted automatically, 1h or more; 0 keeps all heaps." default:"0" placeholder:"DURATION"`
	HeapRetentionEntries int           `name:"heap-retention-entries" option:"Content.HeapRetentionEntries" help:"Number of newest entries of each session that keep their heaps in any case." default:"100" placeholder:"N"`
	ErasableSessions     bool          `name:"erasable-sessions" option:"Content.Erasable" help:"Encrypt content under keys of sessions, and what belongs to no session under a key of the tenant, so that \"session shred\" can shred it. NATS subscribers, webhooks and exports then receive ciphertext."`
	KeyDir               string        `name:"key-dir" option:"Content.KeyDir" help:"Directory of the content keys. Default: the directory that was used last, at first keys in the data directory." placeholder:"DIR"`
}

func (f contentFlags) options() embed.ContentOptions {
	return embed.ContentOptions{HeapRetention: f.HeapRetention, HeapRetentionEntries: zeroIsNone(f.HeapRetentionEntries), Erasable: f.ErasableSessions, KeyDir: f.KeyDir}
}

// webhookFlags are the flags of embed.WebhookOptions.
type webhookFlags struct {
	AllowPrivate bool `name:"webhook-allow-private" option:"Webhooks.AllowPrivate" help:"Allow webhooks to this machine and private networks, and over plain HTTP."`
}

func (f webhookFlags) options() embed.WebhookOptions {
	return embed.WebhookOptions{AllowPrivate: f.AllowPrivate}
}
