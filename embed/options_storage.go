package embed

import "errors"

// StorageOptions configure the volumes of the ledger and the check of their files.
type StorageOptions struct {
	// SealEvery is the schedule of volume rotation: "month", the default, at the end of
	// the month (UTC) in which the volume was opened, or "never". SealBytes is the size
	// on disk at which a volume is sealed in any case, at least 1 MiB. Default: 64 GiB.
	// A negative number is unlimited.
	SealEvery string
	SealBytes int64
	// CheckBytes is how much of the newest part of each stream's files is checked for
	// damage before they are used. Default: 16 GiB. A negative number checks all.
	CheckBytes int64
	// AcceptDamage starts although the ledger is damaged: the first event of a new
	// volume names what is lost, and the damaged files are quarantined. It has no
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
	return errors.Join(problems...)
}

func (o StorageOptions) withDefaults() StorageOptions {
	setDefault(&o.SealEvery, sealMonthly)
	setDefault(&o.SealBytes, 64<<30)
	setDefault(&o.CheckBytes, 16<<30)
	return o
}
