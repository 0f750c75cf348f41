package ledger

// CheckSession tells whether runs may be logged under a name: 1 to 128 visible
// characters. Adapters that learn the name before there is anything to submit
// refuse a bad one at once; Submit checks again. The error is a CodeInvalid
// *Error.
func CheckSession(name string) error {
	return checkVisible("session", "session", name, maxSessionChars)
}
