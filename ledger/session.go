package ledger

// CheckSession returns a CodeInvalid *Error if runs cannot be logged under a name, which
// is 1 to 128 visible characters. Adapters that receive the name before the submission
// call it to refuse an invalid name early. Submit checks the name again.
func CheckSession(name string) error {
	return checkVisible("session", "session", name, maxSessionChars)
}
