package cli

import (
	"time"

	"daybook/embed"
)

// contentFlags are the flags of embed.ContentOptions.
type contentFlags struct {
	HeapRetention        time.Duration `name:"heap-retention" option:"Content.HeapRetention" help:"Time without use after which untagged and unreferenced heaps are deleted automatically, 1h or more; 0 keeps all heaps." default:"0" placeholder:"DURATION"`
	HeapRetentionEntries int           `name:"heap-retention-entries" option:"Content.HeapRetentionEntries" help:"Number of newest entries of each session that keep their heaps in any case." default:"100" placeholder:"N"`
	ErasableSessions     bool          `name:"erasable-sessions" option:"Content.Erasable" help:"Encrypt the content of runs in named sessions, so that \"session shred\" can shred it. NATS subscribers, webhooks and exports then receive ciphertext."`
	KeyDir               string        `name:"key-dir" option:"Content.KeyDir" help:"Directory of the content keys. Default: the directory that was used last, at first keys in the data directory." placeholder:"DIR"`
}

func (f contentFlags) options() embed.ContentOptions {
	return embed.ContentOptions{HeapRetention: f.HeapRetention, HeapRetentionEntries: zeroIsNone(f.HeapRetentionEntries), Erasable: f.ErasableSessions, KeyDir: f.KeyDir}
}
