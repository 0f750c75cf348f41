package witness

// DamagedError is the error of a damaged state directory.
type DamagedError = damagedError
