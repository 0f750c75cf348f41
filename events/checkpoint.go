package events

// LedgerTenant owns the events that are about the ledger itself. No tenant can
// have this name, and every tenant may read what it owns.
const LedgerTenant = "@ledger"

// LedgerCheckpointed records a signed statement of what the ledger held: its
// first Size events have the Merkle tree hash RootHash. It binds everything
// before it, earlier checkpoints included.
//
// Appended at most once a second while events are recorded, on demand, and when
// the server stops.
type LedgerCheckpointed struct {
	// LedgerID is the ledger's own id, minted once.
	LedgerID string `json:"ledger_id"`
	// Origin is the name the checkpoint is signed under, its first line.
	Origin string `json:"origin"`
	// Size is how many events the checkpoint covers: those at positions 1 to
	// Size.
	Size uint64 `json:"size"`
	// RootHash is the RFC 6962 tree hash over their leaves, in base64.
	RootHash string `json:"root_hash"`
	// Note is the whole signed checkpoint, as a C2SP signed note.
	Note string `json:"note"`
}

// EventType returns TypeLedgerCheckpointed.
func (*LedgerCheckpointed) EventType() Type { return TypeLedgerCheckpointed }

func (d *LedgerCheckpointed) about() string { return d.LedgerID }

func (d *LedgerCheckpointed) subject(tenant string) string {
	return CheckpointSubject(tenant)
}
