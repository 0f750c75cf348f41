package projections

// The bounds of an output page.
const (
	MaxLineLimit = maxLineLimit
	MaxPageBytes = maxPageBytes
)
