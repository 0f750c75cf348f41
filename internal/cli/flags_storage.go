package cli

import "daybook/embed"

// storageFlags are the flags of embed.StorageOptions.
type storageFlags struct {
	SealEvery    string `name:"seal-every" option:"Storage.SealEvery" help:"Schedule for volume rotation: month (UTC) or never." enum:"month,never" default:"month"`
	SealBytes    int64  `name:"seal-bytes" option:"Storage.SealBytes" help:"Size at which a volume is sealed in any case, in bytes, 1048576 or more; 0 is unlimited." default:"68719476736" placeholder:"BYTES"`
	AcceptDamage bool   `name:"accept-damage" option:"Storage.AcceptDamage" help:"Start although the ledger is damaged: a new volume is opened, its first event names what is lost, and the damaged files are quarantined. Needed for one start only."`
}

func (f storageFlags) options() embed.StorageOptions {
	return embed.StorageOptions{SealEvery: f.SealEvery, SealBytes: zeroIsNone(f.SealBytes), AcceptDamage: f.AcceptDamage}
}
