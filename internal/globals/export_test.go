package globals

// MaxText is the maximum size of a List as JSON, in bytes.
const MaxText = maxText
